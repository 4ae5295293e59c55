//go:build lab

package place

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/placement"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestPlacement goes through what mpps says and does of places and definitions, on a host with two nodes and two guests
// that nobody has placed. Each part leaves it as it found it.
func TestPlacement(t *testing.T) {
	labtest.Long(t)
	s := openScene(t)
	for _, part := range []struct {
		name string
		do   func(*scene)
	}{
		{"a rendered guest", testRendered},
		{"a tuned definition", testTuned},
		{"a guest with a virtual function", testFunction},
		{"two guests, two nodes", testTwoGuests},
		{"no place", testNoPlace},
	} {
		start := time.Now()
		t.Run(part.name, func(t *testing.T) {
			s := s.in(t)
			t.Cleanup(func() {
				if t.Failed() { // the next part is to find the host in order all the same
					_, _ = s.Lab.Shell(context.Background(), "for i in 1 2 3; do mpps rollback --force; done; for g "+
						"in made vf; do virsh destroy $g; virsh undefine $g; done")
				}
			})
			part.do(s)
			s.MPPS(3, "status", "--detailed-exit-code") // nothing of mpps stands on the host
		})
		t.Logf("%4.1f s  %s", time.Since(start).Seconds(), part.name)
	}
}

// testTwoGuests places both guests while they run, and takes it back: each gets a node, its vhost threads a CPU there
// that no vCPU has.
func testTwoGuests(s *scene) {
	goal := []string{"--pps", "100k"}
	names := []string{first.name, second.name}
	found := map[string]seats{}
	defined := map[string]string{}
	for _, name := range names {
		found[name], defined[name] = s.seats(name), s.Must("virsh dumpxml --inactive "+name)
		if n := nodeOf(found[name].vcpus[0]); n >= 0 {
			s.Fatalf("%s is on node %d before anybody placed it", name, n)
		}
	}
	placed := labtest.Answer[placement.Result](s, 0, slices.Concat([]string{"place"}, goal)...)
	if len(placed.Refused) > 0 || !placed.Proved || placed.Guest(first.name) == nil ||
		placed.Guest(second.name) == nil {
		s.Fatalf("%+v", placed)
	}

	s.MPPS(0, slices.Concat([]string{"plan", "-o", "/share/place.json"}, goal)...)
	s.MPPS(0, "apply", "--yes", "--confirm", "0", "/share/place.json")
	s.placed(&placed, names...)

	s.plugs(placed.Guest(first.name))

	// A new start: libvirt pins what the definition says, and the vhost threads are where they happen to be.
	must.Do(s, s.guests[first.name].Restart(s.Context()))
	if on := s.memoryOn(first.name); len(on) != 1 || on[placed.Guest(first.name).VCPUs[0].CPU/4] == 0 {
		s.Errorf("pages of %s by node: %v", first.name, on)
	}
	s.MPPS(0, "restore")
	s.placed(&placed, names...)

	// Who has a place keeps it, and a newcomer moves nobody.
	again := labtest.Answer[placement.Result](s, 0,
		slices.Concat([]string{"place", "--add", "name=new,vcpus=1,memory=128M"}, goal)...)
	must.Hold(s, len(again.Moved) <= 0 && again.Guest("new") != nil, "with a newcomer: %+v", again)
	for _, name := range names {
		if g := again.Guest(name); g == nil || !g.Kept || !slices.Equal(g.VCPUs, placed.Guest(name).VCPUs) {
			s.Errorf("%s with a newcomer: %+v, before: %+v", name, g, placed.Guest(name))
		}
	}

	s.MPPS(0, "rollback")
	for _, name := range names {
		must.Equal(s, s.Must("virsh dumpxml --inactive "+name), defined[name],
			"the definition of %s is not what it", name)
	}
	if now := s.seats(second.name); !slices.EqualFunc(now.vcpus, found[second.name].vcpus, setting.CPUSet.Equal) ||
		!slices.EqualFunc(now.vhost, found[second.name].vhost, setting.CPUSet.Equal) {
		s.Errorf("threads of %s: %v, before: %v", second.name, now, found[second.name])
	}
	// The first has been started with the pins that are gone from its definition now.
	must.Do(s, s.guests[first.name].Restart(s.Context()))
	if now := s.seats(first.name); !slices.EqualFunc(now.vcpus, found[first.name].vcpus, setting.CPUSet.Equal) {
		s.Errorf("threads of %s: %v, before: %v", first.name, now, found[first.name])
	}
}

// plugs plugs a NIC into the first guest, which has it until its next start. Its vhost thread begins on the CPUs that
// the guest's vhost threads have, because these are the emulator's; and packets for one NIC and none for the other show
// which thread is whose.
func (s *scene) plugs(placed *placement.Placed) {
	s.Helper()
	s.Must("virsh -q attach-interface " + first.name + " bridge br0 --model virtio --mac 52:54:00:0a:01:09 --live")
	is := s.seats(first.name)
	must.Need(s, len(is.vhost) == len(placed.Vhost)+1,
		"%d vhost threads, expected one more than %d", len(is.vhost), len(placed.Vhost))
	for _, cpus := range is.vhost {
		must.Hold(s, len(cpus.Minus(placed.Emulator)) <= 0,
			"a vhost thread is on CPUs %s, those of the guest are %s", cpus, placed.Emulator)
	}
	s.MPPS(0, "restore") // the others stand where they were
	s.Must("ping -f -q -w 600 " + first.addr + " >/dev/null 2>&1 & echo $! >/run/flood")
	s.MPPS(0, "--quiet", "snapshot", "--interval", "5s", "-o", "/share/plugged.json")
	s.Must("kill -INT $(cat /run/flood)")
	for _, g := range s.readHost("plugged.json").Guests {
		for _, t := range g.Threads {
			if g.Name == first.name && t.Role == "vhost" && t.Sure != facts.ByTraffic {
				s.Errorf("thread %d of NIC %s is matched by %q", t.TID, t.NIC, t.Sure)
			}
		}
	}
}

// placed requires that threads are where the placement has them, that no CPU has two vCPUs, or a vCPU and something
// else of a guest, and that everything of a guest is on one node.
func (s *scene) placed(want *placement.Result, guests ...string) {
	s.Helper()
	owner := map[int]string{}
	for _, name := range guests {
		is, placed := s.seats(name), want.Guest(name)
		must.Need(s, len(is.vcpus) == len(placed.VCPUs) && len(is.vhost) == len(placed.Vhost),
			"%s has %d vCPUs and %d vhost threads, the placement %d and %d", name, len(is.vcpus), len(is.vhost),
			len(placed.VCPUs), len(placed.Vhost))
		node := nodeOf(is.vcpus[0])
		for i, cpus := range is.vcpus {
			cpu, _ := placed.CPU(i)
			switch {
			case len(cpus) != 1 || cpus[0] != cpu:
				s.Errorf("%s: vCPU %d is on CPUs %s, the placement has %d", name, i, cpus, cpu)
			case owner[cpu] != "":
				s.Errorf("CPU %d has a vCPU of %s and one of %s", cpu, name, owner[cpu])
			}
			owner[cpu] = name
			must.Hold(s, nodeOf(cpus) == node, "%s: vCPU %d is on CPUs %s, another on node %d", name, i, cpus, node)
		}
	}
	for _, name := range guests {
		is, placed := s.seats(name), want.Guest(name)
		for i, cpus := range is.vhost {
			if len(cpus) != 1 || cpus[0] != placed.Vhost[i].CPU || owner[cpus[0]] != "" ||
				nodeOf(cpus) != nodeOf(is.vcpus[0]) {
				s.Errorf("%s: vhost thread %d is on CPUs %s, the placement has %d, vCPUs are on %v", name, i, cpus,
					placed.Vhost[i].CPU, owner)
			}
		}
		must.Hold(s, is.main.Equal(placed.Emulator),
			"%s: QEMU's main loop is on CPUs %s, the placement has %s", name, is.main, placed.Emulator)
	}
}

// testNoPlace asks for what does not fit: the shortage is named, and the smallest thing that would help, which does.
func testNoPlace(s *scene) {
	for _, c := range []struct{ add, shortage, relaxed string }{
		{"name=big,vcpus=16,memory=256M", "16 dedicated CPUs", "name=big,vcpus=@,memory=256M"},
		{"name=big,vcpus=1,memory=64G", "64.0 GiB of memory", "name=big,vcpus=1,memory=@G"},
	} {
		refused := labtest.Answer[placement.Result](s, 4, "place", "--detailed-exit-code", "--add", c.add).Refused
		if len(refused) != 1 || refused[0].Guest != "big" || !strings.Contains(refused[0].Shortage, c.shortage) ||
			refused[0].Relax == "" {
			s.Errorf("%s: %+v", c.add, refused)
			continue
		}
		words := strings.Fields(refused[0].Relax) // give it N …
		wish := strings.Replace(c.relaxed, "@", words[2], 1)
		if r := labtest.Answer[placement.Result](s, 0, "place", "--detailed-exit-code", "--add",
			wish); len(r.Refused) > 0 {
			s.Errorf("%s: %s, and that is refused too: %+v", c.add, refused[0].Relax, r.Refused)
		}
	}
}
