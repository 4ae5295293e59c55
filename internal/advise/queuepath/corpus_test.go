package queuepath

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mpps/internal/machine"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestSteerRecordedMachines steers 16 guests of 8 queues onto 64 NIC queues, and random others, on the CPUs and nodes
// of every recorded machine (MPPS_CORPUS has more than the tree): no queue of the NIC is shared while one is idle, by
// either means.
func TestSteerRecordedMachines(t *testing.T) {
	treetest.EachTopology(t, "../../machine/cpu/testdata/topology", func(t *testing.T, root string) {
		m := must.Get(machine.Open(root))(t)
		defer m.Close()
		topology := m.Inventory(t.Context()).Topology
		steerOn(t, topology, 16, 8, 64, false)
		steerOn(t, topology, 16, 8, 64, true)
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 8))
			steerOn(t, topology, 1+r.IntN(40), 1<<r.IntN(5), 2+r.IntN(127), r.IntN(2) == 0)
		}
	})
}

// steerOn steers guests on a machine's CPUs, where their vhost threads have a CPU each as far as there are enough, or
// float.
func steerOn(t *testing.T, topology facts.Topology, guests, queues, nicQueues int, floating bool) {
	t.Helper()
	h := steerHost(guests, queues, nicQueues)
	h.Topology = topology
	through(h, 1, true)
	for q := range nicQueues {
		cpu := topology.Online[q%len(topology.Online)]
		h.NICs[0].IRQs = append(h.NICs[0].IRQs, facts.IRQ{Number: 100 + q, On: fmt.Sprintf("TxRx-%d", q),
			Effective: setting.CPUs(cpu)})
	}
	next, own := 0, len(topology.Online) >= guests*queues && !floating
	for i := range h.Guests {
		for j := range h.Guests[i].Threads {
			h.Guests[i].Threads[j].Affinity = setting.CPUs(topology.Online...)
			if own {
				h.Guests[i].Threads[j].Affinity = setting.CPUs(topology.Online[next])
				next++
			}
		}
	}
	s := mustSteer(t, h, nil, SteerOptions{})
	g := s.Groups[0]
	senders := make([]Sender, len(g.Lanes))
	for i, l := range g.Lanes {
		senders[i] = Sender{Tap: l.Tap, Queues: queues}
	}
	sound(t, senders, nicQueues, g.Lanes)
	if len(topology.Online) == 1 && queues*guests == 1 {
		return // a thread that floats over one CPU has it
	}
	if want := map[bool]Means{true: ByXPS, false: ByProgram}[own]; g.Means != want {
		t.Fatalf("%d guests of %d queues on %d CPUs: %s (%s), expected %s", guests, queues, len(topology.Online),
			g.Means, g.Why, want)
	}
	if !own {
		return
	}
	load := make([]int, nicQueues)
	for cpu := range guests * queues {
		load[queueOfCPU(t, s.Changes, "eth0", topology.Online[cpu])]++
	}
	idle, shared := 0, 0
	for _, n := range load {
		switch {
		case n == 0:
			idle++
		case n > 1:
			shared++
		}
	}
	if idle > 0 && shared > 0 {
		t.Fatalf("%d queues serve several vhost threads while %d serve none", shared, idle)
	}
}
