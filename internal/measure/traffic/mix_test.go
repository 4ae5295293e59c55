package traffic

import (
	"errors"
	"math"
	"testing"
)

// TestIMIX: 28 of 64, 16 of 570 and 4 of 1518 bytes, and so for every flow.
func TestIMIX(t *testing.T) {
	f := Frame{Sizes: IMIX()}
	counts := map[int]int{}
	for _, size := range f.Sizes {
		counts[size] += 4
	}
	if counts[64] != 28 || counts[570] != 16 || counts[1518] != 4 || len(counts) != 3 {
		t.Errorf("of 48 frames %v", counts)
	}
	if got := f.MeanSize(); math.Abs(got-(28*64+16*570+4*1518)/48.0) > 1e-9 {
		t.Errorf("mean size %g", got)
	}
	for _, flows := range []uint32{1, 7, 16, 48} {
		f.SrcPort = PortRange{1, flows}
		m := f.mix()
		byFlow := make([]map[int]int, flows)
		rounds := 12 * int(m.every)
		for i := range rounds {
			flow := i % int(flows)
			if byFlow[flow] == nil {
				byFlow[flow] = map[int]int{}
			}
			byFlow[flow][m.kinds[m.next()].Size]++
		}
		each := rounds / int(flows) / 12
		for flow, counts := range byFlow {
			if counts[64] != 7*each || counts[570] != 4*each || counts[1518] != each {
				t.Errorf("flow %d of %d has %v, want 7, 4 and 1 of 12", flow, flows, counts)
			}
		}
	}
}

func TestMixBytes(t *testing.T) {
	for _, f := range []Frame{
		{}, {Size: 1518}, {Sizes: IMIX()}, {Sizes: IMIX(), SrcPort: PortRange{1, 16}},
		{Sizes: []int{64, 100}, SrcPort: PortRange{1, 3}},
		{Sizes: []int{64, 65, 66, 67, 68}, SrcPort: PortRange{1, 5}},
	} {
		m := f.mix()
		var want uint64
		for n := range uint64(5000) {
			if got := f.bytes(n); got != want {
				t.Fatalf("%v, %d flows: %d frames have %d bytes, want %d", f.Sizes, f.Flows(), n, got, want)
			}
			want += uint64(m.kinds[m.next()].Size)
		}
	}
}

func TestMixRefused(t *testing.T) {
	many := make([]int, maxOrder+1)
	for i := range many {
		many[i] = 64
	}
	for name, c := range map[string]struct {
		sizes []int
		mtu   int
	}{
		"a runt":                  {[]int{64, 63}, 1500},
		"a giant":                 {[]int{64, 1519}, 0},
		"too many":                {many, 1500},
		"too many different ones": {[]int{64, 65, 66, 67, 68, 69, 70, 71, 72}, 1500},
		"one over the MTU":        {[]int{64, 1518}, 1499},
	} {
		f := Frame{Sizes: c.sizes}.withDefaults()
		f.SrcMAC, f.DstMAC = make([]byte, 6), make([]byte, 6)
		if err := f.check(c.mtu); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
