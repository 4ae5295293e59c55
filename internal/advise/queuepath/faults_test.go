package queuepath

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/words"
)

func random(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 15)) }

func describe(faults []Fault) string {
	var b strings.Builder
	for _, f := range faults {
		fmt.Fprintf(&b, "  %s (%s, %s): %s\n    %s\n    follows %q\n", f.Name(), f.Severity, words.Share(f.Share),
			f.Evidence, f.Cause, f.Follows)
	}
	return b.String()
}

// TestHealthy: random hosts whose lanes stay apart, with the noise that every host has, have no fault.
func TestHealthy(t *testing.T) {
	for seed := range 300 {
		s := healthy(random(seed))
		if seed%3 == 0 {
			s.twoNodes()
		}
		o := s.observe()
		if seed%4 == 1 {
			drained(o)
		}
		if faults := Faults(o); len(faults) > 0 {
			t.Errorf("seed %d: %d guests of %d queues, tunnel %v, NIC of %d queues, carried %v:\n%s", seed, s.guests,
				s.queues, s.tunnel, s.nic.TxQueues, s.carried, describe(faults))
		}
	}
}

// drained has a third of the packets handed to the devices by another CPU of the node than the one that chose the
// queue, as where rings are full now and then.
func drained(o *Observation) {
	for i := range o.Rows {
		r := &o.Rows[i]
		if r.First() || r.To.Direction != Tx || r.CPU < 0 || r.CPU >= len(o.Nodes) {
			continue
		}
		for cpu, node := range o.Nodes {
			if cpu != r.CPU && node == o.Nodes[r.CPU] {
				late := *r
				late.CPU, late.Packets, late.Frames, late.Bytes, late.Moves = cpu, r.Packets/3, r.Frames/3, r.Bytes/3, 0
				r.Packets, r.Frames, r.Bytes = r.Packets-late.Packets, r.Frames-late.Frames, r.Bytes-late.Bytes
				o.Rows = append(o.Rows, late)
				break
			}
		}
	}
}

// TestSteered: what the lane program makes of random guests has no fault, also where there are more queues of guests
// than of the NIC and they are shared by weight.
func TestSteered(t *testing.T) {
	for seed := range 150 {
		r := random(seed)
		s := healthy(r)
		s.nic.XPS, s.guests = nil, 1+r.IntN(20)
		s.nodes = make([]int, max(4, s.guests*s.queues))
		var senders []Sender
		for g := range s.guests {
			senders = append(senders, Sender{Tap: tapName(g), Guest: tapName(g), Queues: s.queues,
				Weight: float64(1 + r.IntN(5)), Node: -1})
		}
		s.windows = Windows(senders, s.nic.TxQueues, nil, nil)
		s.nic.Lanes = s.windows
		if faults := Faults(s.observe()); len(faults) > 0 {
			t.Errorf("seed %d: %d guests of %d queues, NIC of %d queues, windows %v:\n%s", seed, s.guests, s.queues,
				s.nic.TxQueues, s.windows, describe(faults))
		}
	}
}

// TestQuiet: a host on which next to nothing happens has no fault, however its queues are chosen.
func TestQuiet(t *testing.T) {
	for seed := range 100 {
		s := healthy(random(seed))
		s.flows, s.nic.XPS, s.carried = 0, nil, false
		if faults := Faults(s.observe()); len(faults) > 0 {
			t.Errorf("seed %d:\n%s", seed, describe(faults))
		}
	}
	if faults := Faults(&Observation{}); faults == nil || len(faults) > 0 {
		t.Errorf("of nothing: %v", faults)
	}
}

// planted is a fault that can be built into a healthy host, with what must be named first.
type planted struct {
	name  string
	plant func(s *scene, r *rand.Rand)
	first string // name of the first fault
	cause string // in its cause
	knob  string
}

// crowd makes a host of several guests with several queues each.
func crowd(s *scene, queues int) {
	s.guests, s.queues, s.carried, s.tunnel = 3, queues, false, nil
	s.flows, s.packets = max(s.flows, 4), max(s.packets, 1000)
	s.nic.TxQueues, s.nic.RxQueues = 16, 16
	s.nodes = make([]int, 3*queues)
	s.cpu = func(g, q, _ int) int { return g*queues + q }
	s.spread()
}

var plants = []planted{
	{"locked tunnel of one queue", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.tunnel = &Device{Name: "gre0", Kind: "gretap", TxQueues: 1, Node: -1, Qdisc: "fq_codel",
			Lower: []string{"eth0"}}
	}, "funnel gre0", "one transmit queue|1 transmit queue", "overlay.queues"},
	{"lockless tunnel with a queue discipline", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.tunnel = &Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, Lockless: true, Node: -1, Qdisc: "pfifo",
			Lower: []string{"eth0"}}
	}, "funnel vxlan0", "queue discipline pfifo", "overlay.queues"},
	{"lockless tunnel of one queue, no XPS", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.XPS = nil
		s.tunnel = &Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, Lockless: true, Node: -1, Qdisc: "noqueue",
			Lower: []string{"eth0"}}
	}, "funnel vxlan0", "does not keep", "overlay.queue_mapping"},
	{"many guests, lockless tunnel of one queue, no XPS", func(s *scene, r *rand.Rand) {
		crowd(s, 8)
		s.guests, s.nodes, s.nic.TxQueues = 16, make([]int, 128), 64
		s.nic.XPS = nil
		s.tunnel = &Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, Lockless: true, Node: -1, Qdisc: "noqueue",
			Lower: []string{"eth0"}}
	}, "funnel vxlan0", "does not keep", "overlay.queue_mapping"},
	{"NIC of one queue", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.TxQueues, s.nic.XPS = 1, nil
	}, "funnel eth0", "1 transmit queue", "nic.channels"},
	{"lockless NIC of one queue", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.TxQueues, s.nic.XPS, s.nic.Lockless, s.nic.Qdisc = 1, nil, true, "noqueue"
	}, "funnel eth0", "share one ring", "nic.channels"},
	{"XPS of two busy CPUs on one queue", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.XPS[7], s.nic.XPS[2] = setting.CPUs(7, 2), nil
	}, "collision eth0 tx 7", "tx-7/xps_cpus has CPUs 2, 7", "nic.xps"},
	{"XPS of all CPUs on one queue", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		q := r.IntN(16)
		for i := range s.nic.XPS {
			s.nic.XPS[i] = nil
		}
		s.nic.XPS[q] = setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	}, "collision eth0 tx", "/sys/class/net/eth0/queues/tx-", "nic.xps"},
	{"XPS of all CPUs on two queues, while one CPU sends", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		for i := range s.nic.XPS {
			s.nic.XPS[i] = nil
		}
		s.nic.XPS[0], s.nic.XPS[1] = setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
			setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
		s.cpu = func(g, q, _ int) int { return 5 }
	}, "collision eth0", "XPS sends them there", "nic.xps"},
	{"XPS of all CPUs on one queue, below a lockless tunnel of one queue", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.tunnel = &Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, Lockless: true, Node: -1, Qdisc: "noqueue",
			Lower: []string{"eth0"}}
		for i := range s.nic.XPS {
			s.nic.XPS[i] = nil
		}
		s.nic.XPS[3] = setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	}, "collision eth0 tx 3", "/sys/class/net/eth0/queues/tx-3/xps_cpus", "nic.xps"},
	{"guests on the same NIC queues while others idle", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.XPS = nil
	}, "collision eth0", "number at the tap", "overlay.queue_mapping"},
	{"two guests of one queue on one NIC queue", func(s *scene, r *rand.Rand) {
		crowd(s, 1)
		s.guests, s.nic.XPS = 2, nil
	}, "collision eth0 tx 0", "number at the tap", "overlay.queue_mapping"},
	{"a guest whose flows change queues", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.flap = func(g, q, f int) bool { return g == 1 }
	}, "flapping vnet1 rx", "the guest sends a flow by several", "guest.xps"},
	{"CPUs wait at one queue discipline", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.Qdisc = "htb"
		s.contention = []Contention{{Device: "eth0", Queue: -1, Lock: "qdisc", Waits: 40000, WaitNS: 60e6}}
	}, "contention eth0", "one queue discipline (htb)", ""},
	{"vhost threads on the wrong node", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.nic.TxQueues, s.nic.RxQueues = 32, 32
		s.twoNodes()
		n := len(s.nodes) / 2
		s.cpu = func(g, q, _ int) int {
			if g == 2 {
				return n + g*4 + q
			}
			return g*4 + q
		}
	}, "remote vhost of vm2", "far from the memory", "vhost.threads"},
	{"a guest far from the NIC", func(s *scene, r *rand.Rand) {
		crowd(s, 4)
		s.twoNodes()
		n := len(s.nodes) / 2
		s.memory, s.guests = 1, 1
		s.cpu = func(g, q, _ int) int { return n + g*4 + q }
	}, "remote vhost of vm0", "the guest itself", "nic.numa"},
}

// TestPlanted: each fault is found on random hosts and named first, with its cause and what mends it.
func TestPlanted(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			for seed := range 25 {
				r := random(seed)
				s := healthy(r)
				p.plant(s, r)
				o := s.observe()
				faults := Faults(o)
				if len(faults) == 0 || !strings.HasPrefix(faults[0].Name(), p.first) {
					t.Fatalf("seed %d: %q is not first:\n%s", seed, p.first, describe(faults))
				}
				f := faults[0]
				if f.Follows != "" || f.Mend.Knob != p.knob || f.Evidence == "" || f.Mend.Text == "" || f.Share <= 0 ||
					f.Share > 1 || len(f.Queues) == 0 {
					t.Fatalf("seed %d: %+v", seed, f)
				}
				if !slices.ContainsFunc(strings.Split(p.cause, "|"),
					func(c string) bool { return strings.Contains(f.Cause, c) }) {
					t.Fatalf("seed %d: no %q in %q", seed, p.cause, f.Cause)
				}
				for _, more := range faults[1:] {
					if more.Follows == "" {
						t.Fatalf("seed %d: another cause beside %s:\n%s", seed, p.first, describe(faults))
					}
				}
				if again := Faults(shuffled(o, r)); !reflect.DeepEqual(faults, again) {
					t.Fatalf("seed %d: the order of rows matters:\n%s\n%s", seed, describe(faults), describe(again))
				}
			}
		})
	}
}

func shuffled(o *Observation, r *rand.Rand) *Observation {
	other := *o
	other.Rows = slices.Clone(o.Rows)
	r.Shuffle(len(other.Rows), func(i, k int) { other.Rows[i], other.Rows[k] = other.Rows[k], other.Rows[i] })
	return &other
}
