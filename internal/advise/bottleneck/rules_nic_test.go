package bottleneck

import (
	"math"
	"testing"

	"mpps/internal/model/facts"
)

// TestVFRateInside checks that a guest's rate is computed with its own interval, which is longer than the host's.
func TestVFRateInside(t *testing.T) {
	t.Parallel()
	const inside, limit = 1.6 * seconds, 500e6 // seconds, bit/s
	for _, c := range []struct {
		full  float64 // of the limit
		named bool
	}{{0.99, true}, {0.7, false}} {
		s := newScene(1)
		s.offered, s.taken = 0.1e6, 0.1e6
		s.flow()
		s.h.VFs = []facts.VF{{PF: "eth0", Index: 3, Guest: "vm2", MaxTxRate: limit / 1e6}}
		packets := uint64(c.full * limit * inside / 8 / (60 + frameOverhead))
		s.l.Guests = []facts.GuestLoad{{Name: "vm2", Seconds: inside,
			CPUs:    []facts.CPULoad{{CPU: 0, Softirq: 0.3, Idle: 0.7}},
			Devices: []facts.DeviceLoad{{Name: "ens4", Kind: "nic", TxPackets: packets, TxBytes: packets * 60}}}}
		b := Find(s.h, s.l).Bottleneck
		if (b != nil && b.Kind == VFRate) != c.named {
			t.Errorf("at %g of the limit: found %+v", c.full, b)
			continue
		}
		if b != nil && math.Abs(b.Evidence[0].Value-c.full*limit) > limit/1000 {
			t.Errorf("a rate of %g bit/s, expected %g", b.Evidence[0].Value, c.full*limit)
		}
	}
}
