//go:build lab

package e2e

import (
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/lab/labtest"
	"mpps/internal/measure"
	"mpps/internal/must"
)

// bench is the command line of a measurement into the guest.
func bench(argv ...string) []string {
	return append([]string{"--json", "bench", "pps", "--via", bridge, "--agent", guestIP + ":" +
		strconv.Itoa(agentPort),
		"--secret-file", "/share/secret", "--warm-up", "300ms", "--keep=false"}, argv...)
}

// measured runs a measurement. That the generator or the receiver was its limit is no failure on an emulated host.
func measured(b *box, argv ...string) *measure.Run {
	b.Helper()
	r := must.Get(b.Lab.Run(b.Context(), append([]string{"mpps"}, bench(argv...)...)...))(b)
	if r.Code != 0 && r.Code != 5 {
		b.Fatalf("bench %v: exit %d\n%s", argv, r.Code, r.Stderr)
	}
	run := labtest.Result[*measure.Run](b, r.Stdout)
	if (r.Code == 0) != run.Valid() {
		b.Errorf("exit %d, limited by %s", r.Code, run.LimitedBy)
	}
	ledger(b, run)
	return run
}

// ledger requires that every packet is accounted for.
func ledger(b *box, run *measure.Run) {
	b.Helper()
	must.Hold(b, run.Sent != 0 && run.Received != 0 && len(run.Samples) != 0,
		"sent %d, received %d in %d trials", run.Sent, run.Received, len(run.Samples))
	for i, s := range run.Samples {
		must.Hold(b, s.Sent == s.Received-s.Duplicated+s.Lost,
			"trial %d: sent %d, received %d, duplicated %d, lost %d", i+1, s.Sent, s.Received, s.Duplicated, s.Lost)
	}
}

// flood sends as many packets as possible into the guest.
func flood(b *box, label string) *measure.Run {
	b.Helper()
	run := measured(b, "--name", label, "--duration", "1s", "--repeat", "2")
	b.Logf("%s: %.0f packets/s of %.0f offered, limited by %s", label, run.PPS, run.OfferedPPS, run.LimitedBy)
	return run
}

// traces is what a measurement could leave on the host: links, queueing, programs, processes.
func (b *box) traces() string {
	b.Helper()
	return b.Must(`ip -o link | sed 's/^[0-9]*: //;s/state [A-Z]* //'
tc qdisc show
ip -d link | grep -c ' xdp' || true
bpftool prog list | grep -c ' xdp ' || true
ip netns list
pgrep -a mpps || true`)
}

// vhostTicks is the CPU time that each of the guest's vhost threads has used, in ticks.
func (b *box) vhostTicks() []int {
	b.Helper()
	var all []int
	for l := range strings.Lines(b.Must("for t in /proc/$(cat /run/libvirt/qemu/" + guestName +
		".pid)/task/*; do grep -h ' (vhost-' $t/stat || true; done")) {
		_, rest, _ := strings.Cut(l, ") ")
		f := strings.Fields(rest) // from the third field of proc_pid_stat(5) on
		user := must.Get(strconv.Atoi(f[11]))(b)
		system := must.Get(strconv.Atoi(f[12]))(b)
		all = append(all, user+system)
	}
	return all
}

// testBench counts packets at both ends and in between: at the tap, by the host's kernel.
func testBench(b *box) {
	before := b.traces()
	ticks := b.vhostTicks()
	tap := readDefinition(b, b.Must("virsh dumpxml "+guestName)).Interfaces[0].Target.Dev
	for _, c := range []struct {
		name string
		argv []string
	}{
		{"at a rate", []string{"--rate", "3k", "--duration", "1s", "--repeat", "3"}},
		{"as fast as possible", []string{"--duration", "1s", "--repeat", "2"}},
		{"large frames of one flow", []string{"--rate", "1k", "--frame", "1518", "--flows", "1", "--duration", "1s",
			"--repeat", "1"}},
	} {
		tapped := b.tapped(tap)
		run := measured(b, c.argv...)
		tapped = b.tapped(tap) - tapped
		// Beside the trials there are the warm-up and the session with the agent.
		must.Hold(b, tapped >= run.Sent, "%s: %d were sent, the tap saw %d", c.name, run.Sent, tapped)
		moved := map[string]uint64{}
		for _, d := range run.Counters {
			if d.Interface == tap {
				moved[d.Name] += d.Delta
			}
			if strings.HasPrefix(d.Where, "agent ") {
				moved["guest "+d.Name] += d.Delta
			}
		}
		// Within the trials: what went to the tap is what was sent, and a few packets of the session.
		through := moved["tx_packets"] + moved["tx_dropped"]
		must.Hold(b, through >= run.Sent && through <= run.Sent+run.Sent/10+500,
			"%s: %d were sent, by mpps's own account %d came to the tap", c.name, run.Sent, through)
		must.Hold(b, moved["guest rx_packets"] >= run.Received,
			"%s: %d were received, the guest's NIC counted %d", c.name, run.Received, moved["guest rx_packets"])
		carriers(b, run)
		b.Logf("%s: sent %d, received %d, lost %d; tap %d, guest's NIC %d", c.name, run.Sent, run.Received, run.Lost,
			through, moved["guest rx_packets"])
		if after := b.traces(); after != before {
			b.Errorf("%s: found before:\n%s\nleft behind:\n%s", c.name, before, after)
		}
	}
	for i, n := range b.vhostTicks() {
		must.Hold(b, n > ticks[i], "vhost thread %d did nothing: its queue has no packets", i)
	}
}

// carriers requires that the guest's vhost and vCPU threads are told with what they used, and that loss was located at
// its tap.
func carriers(b *box, run *measure.Run) {
	b.Helper()
	for i, s := range run.Samples {
		used := map[measure.Role]float64{}
		for _, u := range s.Threads {
			if u.Guest == guestName {
				used[u.Role] += u.Seconds
			}
		}
		if used[measure.Vhost] <= 0 || used[measure.VCPU] <= 0 {
			b.Errorf("trial %d: vhost and vCPUs of the guest ran %v s: %+v", i+1, used, s.Threads)
		}
	}
	for _, l := range run.Losses {
		if l.Name == "tx_dropped" && l.Kind == "tuntap" && l.Place != measure.AtTap {
			b.Errorf("lost at %+v", l)
		}
	}
}

// tapped is what was sent to a tap, taken or dropped.
func (b *box) tapped(tap string) uint64 {
	b.Helper()
	var sent, dropped uint64
	text := b.Must(fmt.Sprintf("cat /sys/class/net/%[1]s/statistics/tx_packets "+
		"/sys/class/net/%[1]s/statistics/tx_dropped", tap))
	if _, err := fmt.Sscan(text, &sent, &dropped); err != nil {
		b.Fatalf("%q: %v", text, err)
	}
	return sent + dropped
}
