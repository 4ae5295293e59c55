//go:build lab

package place

import (
	"fmt"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/lab/labtest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// testRendered has a definition made from a few words, and libvirt takes and starts it: its threads, those of vhost
// among them, are where the words put them. It is started paused: it has nothing to boot.
func testRendered(s *scene) {
	s.MPPS(0, "domain", "render", "--name", "made", "--vcpus", "2", "--memory", "256MiB", "--nic",
		"bridge=br0,queues=2,rx_queue_size=1024",
		"--cpus", "1-2", "--node", "0", "--emulator-cpus", "3", "-o", "/run/made.xml")
	s.Must("virsh -q define /run/made.xml && virsh -q start --paused made")
	is := s.seats("made")
	must.Equal(s, fmt.Sprint(is), "{[[1] [2]] [[3] [3]] [3]}", "threads are on CPUs")
	if g := s.guest("made"); g.State != "paused" || len(g.Pending) > 0 || len(g.Interfaces) != 1 ||
		g.Interfaces[0].RxQueueSize != 1024 || g.Interfaces[0].Queues != 2 {
		s.Errorf("%+v", g)
	}
	// Also while it is paused it has its CPUs: nobody else gets them.
	r := labtest.Answer[placement.Result](s, 0, "place", "--pps", "100k")
	for _, g := range r.Guests {
		for _, v := range g.VCPUs {
			must.Hold(s, (v.CPU == 1 || v.CPU == 2) == (g.Name == "made"), "CPU %d for %s", v.CPU, g.Name)
		}
	}
	s.Must("virsh -q destroy made && virsh -q undefine made")
}

// testTuned changes a definition by values that are named, and takes it back; what libvirt would refuse or cut down is
// refused.
func testTuned(s *scene) {
	before := s.Must("virsh dumpxml --inactive " + first.name)
	s.MPPS(0, "domain", "tune", first.name, "-o", "/run/same.xml")
	must.Equal(s, s.Must("cat /run/same.xml"), before, "nothing was asked for, and the definition is another")
	s.MPPS(0, "domain", "tune", first.name, "--rx-queue-size", "512", "--cache", "passthrough", "--hugepages", "2M",
		"--apply")
	after := s.Must("virsh dumpxml --inactive " + first.name)
	for _, want := range []string{"rx_queue_size='512'", "<cache mode='passthrough'/>",
		"<page size='2048' unit='KiB'/>"} {
		if !strings.Contains(after, want) || strings.Contains(before, want) {
			s.Errorf("%s: before %v, after %v", want, strings.Contains(before, want), strings.Contains(after, want))
		}
	}
	if g := s.guest(first.name); len(g.Pending) != 3 {
		s.Errorf("waits for a restart: %v", g.Pending)
	}
	// What libvirt took for a file is what it has for a guest: defined from the file nothing changes.
	s.MPPS(0, "domain", "tune", first.name, "-o", "/run/tuned.xml")
	s.Must("virsh -q define /run/tuned.xml")
	must.Equal(s, s.Must("virsh dumpxml --inactive "+first.name), after, "defined from its own file it is another")
	// What goes with a value comes back with it.
	s.MPPS(0, "domain", "tune", first.name, "--migratable", "off", "--apply")
	rigid := s.Must("virsh dumpxml --inactive " + first.name)
	s.MPPS(0, "domain", "tune", first.name, "--cpu-mode", "host-model", "--unset", "cpu/cache.mode", "--apply")
	s.MPPS(0, "rollback")
	if text := s.Must("virsh dumpxml --inactive " + first.name); text != rigid {
		s.Errorf("after the rollback of the processor's mode:\n%s\nbefore:\n%s", text, rigid)
	}
	s.MPPS(0, "rollback")
	s.MPPS(0, "rollback")
	must.Equal(s, s.Must("virsh dumpxml --inactive "+first.name), before, "after the rollback")

	for _, c := range []struct {
		what, because string
		code          int
	}{
		{"--tx-queue-size=1024", "256 on an interface of type bridge", 1},
		{"--queues=257", "expected 1 to 256", 64},
		{"--vcpupin=0=99", "99", 1},
		{"--numatune=strict:7", "7", 1},
		{"--vf-vlan=7", "hostdev", 1},
	} {
		if r := s.MPPS(c.code, "domain", "tune", first.name, c.what, "--apply"); !strings.Contains(r.Stderr,
			c.because) {
			s.Errorf("%s: %s", c.what, r.Stderr)
		}
	}
	s.MPPS(1, "domain", "tune", "nobody", "--queues", "2", "--apply")
	must.Equal(s, s.Must("virsh dumpxml --inactive "+first.name), before, "after the refusals")
}

// testFunction gives a guest a virtual function with a MAC address and a VLAN, by a rendered definition: the function
// gets both, the guest a place on the node of the card and its memory there.
func testFunction(s *scene) {
	function := s.Must("basename $(readlink /sys/bus/pci/drivers/igb/*/virtfn1)")
	s.MPPS(0, "domain", "render", "--name", "vf", "--vcpus", "1", "--memory", "256MiB", "--nic", "vf="+function+
		",vlan=7,mac=52:54:00:0a:03:02",
		"--cpus", "5", "--node", "1", "--emulator-cpus", "4", "-o", "/run/vf.xml")
	s.Must("virsh -q define /run/vf.xml && virsh -q start --paused vf")
	if line := s.Must("ip link show | grep 'vf 1 '"); !strings.Contains(line, "52:54:00:0a:03:02") ||
		!strings.Contains(line, "vlan 7") {
		s.Errorf("the function has %s", line)
	}
	h := s.inventory()
	var vf facts.VF
	for _, v := range h.VFs {
		if v.PCI == function {
			vf = v
		}
	}
	must.Hold(s, vf.Guest == "vf" && vf.Driver == "vfio-pci" && vf.Index == 1, "%+v", vf)
	r := labtest.Answer[placement.Result](s, 0, "place", "--pps", "100k")
	placed := r.Guest("vf")
	must.Hold(s, placed != nil && placed.Kept && placed.Nodes.Equal(setting.CPUs(1)) && len(placed.Vhost) <= 0 &&
		placed.VCPUs[0].CPU == 5, "%+v", placed)
	// All memory of the guest is there and pinned since its start, although it has not run an instruction.
	if on := s.memoryOn("vf"); on[0] > 0 || on[1] < 256<<8 {
		s.Errorf("pages by node: %v", on)
	}
	s.Must("virsh -q destroy vf && virsh -q undefine vf")
}

// guest is what mpps sees of one guest.
func (s *scene) guest(name string) *facts.Guest {
	s.Helper()
	h := s.inventory()
	for i := range h.Guests {
		if h.Guests[i].Name == name {
			return &h.Guests[i]
		}
	}
	s.Fatalf("mpps does not see %s", name)
	return nil
}
