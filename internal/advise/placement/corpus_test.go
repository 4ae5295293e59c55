package placement

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"mpps/internal/machine"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestRecordedMachines places guests on every recorded machine (MPPS_CORPUS has more than the tree): as few as one, as
// many as fill it, and more than it holds.
func TestRecordedMachines(t *testing.T) {
	treetest.EachTopology(t, "../../machine/cpu/testdata/topology", func(t *testing.T, root string) {
		m := must.Get(machine.Open(root))(t)
		defer m.Close()
		onMachine(t, m.Inventory(t.Context()))
	})
}

func onMachine(t *testing.T, h *facts.Host) {
	bare := From(h, goal.Unlimited())
	must.Need(t, len(bare.CPUs) != 0, "no CPU online")
	for _, r := range []*Result{Place(bare), Place(From(h, goal.Goal{Latency: 20000}))} {
		must.Hold(t, len(r.Housekeeping) != 0, "without guests the host keeps %q", r.Housekeeping)
	}
	for seed := range uint64(4) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		ask := bare
		ask.NICs = []NIC{{Name: "eth0", Node: ask.Nodes[rnd.IntN(len(ask.Nodes))].ID}}
		demand := len(ask.CPUs) * (1 + 40*int(seed)) / 100 // up to 121 %
		for i := 0; demand > 0 && i < 64; i++ {
			vcpus := min(demand, 1+rnd.IntN(8), 64)
			demand -= vcpus
			ask = ask.guest(fmt.Sprintf("vm%02d", i), vcpus, 1+rnd.IntN(2))
			ask.Guests[i].Memory = uint64(1+rnd.IntN(3)) << 28
		}
		r := Place(ask)
		for _, problem := range Check(ask, r) {
			t.Errorf("seed %d: %s", seed, problem)
		}
		t.Logf("%d CPUs, %d cells, %d guests: proved %v, %+v", len(ask.CPUs), len(newTable(ask).cells), len(ask.Guests),
			r.Proved, r.Cost)
	}
}
