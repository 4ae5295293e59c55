package queuepath

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestConsequences: what a funnel brings about is marked as such: the NIC queue where lanes then meet, and the lock
// there.
func TestConsequences(t *testing.T) {
	s := healthy(random(1))
	plants[slices.IndexFunc(plants,
		func(p planted) bool { return p.name == "lockless tunnel of one queue, no XPS" })].plant(s, random(1))
	s.contention = []Contention{{Device: "eth0", Queue: 2, Lock: "xmit", Waits: 30000, WaitNS: 40e6}}
	faults := Faults(s.observe())
	if len(faults) != 3 || faults[0].Kind != Funnel || faults[1].Kind != Collision || faults[2].Kind != Contended {
		t.Fatalf("\n%s", describe(faults))
	}
	for _, f := range faults[1:] {
		if f.Follows != "funnel vxlan0" {
			t.Errorf("%s follows %q", f.Name(), f.Follows)
		}
	}
}

// TestSeveral: independent faults at once are all causes, the one that meets the most packets first.
func TestSeveral(t *testing.T) {
	s := healthy(random(2))
	crowd(s, 4)
	s.twoNodes()
	n := len(s.nodes) / 2
	s.cpu = func(g, q, _ int) int {
		if g == 0 {
			return n + q
		}
		return g*4 + q
	}
	s.flap = func(g, q, _ int) bool { return g == 2 && q < 2 }
	s.tunnel = &Device{Name: "gre0", Kind: "gretap", TxQueues: 1, Node: -1, Qdisc: "pfifo", Lower: []string{"eth0"}}
	var causes []string
	for _, f := range Faults(s.observe()) {
		if f.Follows == "" {
			causes = append(causes, f.Name())
		}
	}
	if want := []string{"funnel gre0", "flapping vnet2 rx", "remote vhost of vm0"}; !slices.Equal(causes, want) {
		t.Errorf("causes %q, expected %q", causes, want)
	}
}

// TestFlappingByCPU: a thread that moves all the time takes its flows to another queue with XPS by CPU; the collision
// that comes of it is a consequence.
func TestFlappingByCPU(t *testing.T) {
	o := &Observation{Seconds: 5, Watched: 0.5, Nodes: make([]int, 4), Devices: []Device{
		{Name: "vnet0", Kind: "tap", TxQueues: 1, Lockless: true, Node: -1}, {Name: "vnet1", Kind: "tap", TxQueues: 1,
			Lockless: true, Node: -1},
		{Name: "eth0", Kind: "nic", TxQueues: 4, Node: -1, XPS: []setting.CPUSet{setting.CPUs(0), setting.CPUs(1),
			setting.CPUs(2), setting.CPUs(3)}}}}
	for g := range 2 {
		for cpu := range 2 {
			if g == 1 && cpu == 1 {
				continue // it stays on CPU 0
			}
			in := Queue{tapName(g), Rx, 0}
			moves := uint64(0)
			if g == 0 {
				moves = 400
			}
			o.Rows = append(o.Rows, Row{Origin: in, From: in, To: in, FromCPU: -1, CPU: cpu, Frames: 5000,
				Packets: 5000},
				Row{Origin: in, From: in, To: Queue{"eth0", Tx, cpu}, FromCPU: cpu, CPU: cpu, Frames: 5000,
					Packets: 5000, Moves: moves})
		}
	}
	faults := Faults(o)
	if len(faults) != 1 || faults[0].Name() != "flapping eth0 tx" ||
		!strings.Contains(faults[0].Cause, "CPUs 0-1 in turn") || faults[0].Mend.Knob != "vhost.threads" {
		t.Errorf("\n%s", describe(faults))
	}
	must.Hold(t, reflect.DeepEqual(faults[0].Queues, []Queue{{"eth0", Tx, 0}, {"eth0", Tx, 1}}),
		"queues %v", faults[0].Queues)
}

// TestTwoCauses: a collision of guests whose flows stay is a separate cause beside flows that change queues on the
// same device.
func TestTwoCauses(t *testing.T) {
	s := healthy(random(7))
	crowd(s, 4)
	s.nic.XPS, s.flap = nil, func(g, q, _ int) bool { return g == 2 }
	var causes []string
	for _, f := range Faults(s.observe()) {
		if f.Follows == "" {
			causes = append(causes, f.Name())
		}
	}
	if want := []string{"collision eth0", "flapping vnet2 rx"}; !slices.Equal(causes, want) {
		t.Errorf("causes %q, expected %q", causes, want)
	}
}

// TestLittle: what stays below one of the bounds is no fault: a few flows that move, few waits, short ones, waits that
// are few beside the packets.
func TestLittle(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits Contention
		moves uint64
		want  int
	}{
		{"enough waits", Contention{Device: "eth0", Queue: 1, Lock: "xmit", Waits: 20000, WaitNS: 20e6}, 0, 1},
		{"few waits", Contention{Device: "eth0", Queue: 1, Lock: "xmit", Waits: 90, WaitNS: 20e6}, 0, 0},
		{"short waits", Contention{Device: "eth0", Queue: 1, Lock: "xmit", Waits: 20000, WaitNS: 2e6}, 0, 0},
		{"few waits beside the packets", Contention{Device: "eth0", Queue: 1, Lock: "xmit", Waits: 900, WaitNS: 20e6},
			0, 0},
		{"enough moves", Contention{}, 400, 1},
		{"few moves", Contention{}, 30, 0},
	} {
		o := &Observation{Seconds: 5, Watched: 0.5, Nodes: make([]int, 4), Devices: []Device{
			{Name: "vnet0", Kind: "tap", TxQueues: 2, Lockless: true, Node: -1},
			{Name: "eth0", Kind: "nic", TxQueues: 2, Node: -1}}}
		for q := range 2 {
			in, out := Queue{"vnet0", Rx, q}, Queue{"eth0", Tx, q}
			o.Rows = append(o.Rows, Row{Origin: in, From: in, To: in, FromCPU: -1, CPU: q, Frames: 50000,
				Packets: 50000},
				Row{Origin: in, From: in, To: out, FromCPU: q, CPU: q, Frames: 50000, Packets: 50000, Moves: c.moves})
		}
		o.Contention = []Contention{c.waits}
		if faults := Faults(o); len(faults) != c.want {
			t.Errorf("%s:\n%s", c.name, describe(faults))
		}
	}
}

// TestRequeues count where locks cannot be seen, and only there.
func TestRequeues(t *testing.T) {
	for _, unseen := range []bool{false, true} {
		s := healthy(random(3))
		crowd(s, 4)
		s.noise = nil
		s.nic.TxQueues, s.nic.XPS = 4, nil
		s.spread()
		s.requeues = []Requeues{{"eth0", 400000}}
		if unseen {
			s.unseen = []Unseen{{Blind: BlindLocks, Why: "no tracepoints"}}
		}
		faults := Faults(s.observe())
		if found := len(faults) == 1 && faults[0].Name() == "contention eth0"; found != unseen {
			t.Errorf("unseen %v:\n%s", unseen, describe(faults))
		}
		// A NIC at its rate gives packets back too, and nobody waits for a lock.
		for _, f := range faults {
			if f.Severity != knob.Low || !strings.Contains(f.Evidence, "a ring was full") ||
				strings.Contains(f.Cause, "lock") {
				t.Errorf("%s", describe(faults))
			}
		}
	}
}

// TestAtLeast: where the kernel does not tell of all that wait the number is a lower bound, and said to be.
func TestAtLeast(t *testing.T) {
	for _, partly := range []bool{false, true} {
		s := healthy(random(1))
		s.contention = []Contention{{Device: "eth0", Queue: 1, Lock: "xmit", Waits: 90000, WaitNS: 200e6}}
		if partly {
			s.unseen = []Unseen{{Blind: BlindFirst, Why: "it spins"}}
		}
		faults := Faults(s.observe())
		if len(faults) != 1 || strings.HasPrefix(faults[0].Evidence, "at least 90000 waits for ") != partly {
			t.Errorf("partly %v:\n%s", partly, describe(faults))
		}
	}
}

// TestCrowded: a guest that gets everything by one of its queues, from many of the NIC's.
func TestCrowded(t *testing.T) {
	o := &Observation{Seconds: 1, Watched: 1, Nodes: make([]int, 8), Devices: []Device{
		{Name: "vnet0", Kind: "tap", Guest: "vm0", TxQueues: 4, Lockless: true, Node: -1},
		{Name: "eth0", Kind: "nic", TxQueues: 8, Node: -1}}}
	for q := range 8 {
		in := Queue{"eth0", Rx, q}
		o.Rows = append(o.Rows, Row{Origin: in, From: in, To: in, FromCPU: -1, CPU: q, Frames: 2000, Packets: 2000},
			Row{Origin: in, From: in, To: Queue{"vnet0", Tx, 2}, FromCPU: q, CPU: q, Frames: 2000, Packets: 2000})
	}
	if faults := Faults(o); len(faults) != 1 || faults[0].Name() != "collision vnet0 tx 2" ||
		faults[0].Mend.Knob != "guest.xps" {
		t.Errorf("\n%s", describe(faults))
	}
	o.Rows = o.Rows[:4] // two flows on one of four queues: chance
	if faults := Faults(o); len(faults) != 0 {
		t.Errorf("\n%s", describe(faults))
	}
}
