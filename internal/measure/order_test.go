package measure

import (
	"slices"
	"testing"
	"time"
)

func TestOrderAcrossFlowsIsNamed(t *testing.T) {
	named := func(flows int, reordered uint64) bool {
		s := sampleOf(Load{Flows: flows}, Sent{Frames: 100, Elapsed: time.Second},
			Arrived{Frames: 100, Reordered: reordered, Exact: true}, 0)
		return slices.ContainsFunc(s.Warnings, func(w Warning) bool { return w.Code == "order-across-flows" })
	}
	if !named(16, 40) {
		t.Error("frames out of order over 16 flows pass without a word")
	}
	if named(1, 40) || named(16, 0) {
		t.Error("order across flows is named where one flow was out of order, or none")
	}
}

func TestDifferentSinksAreNamed(t *testing.T) {
	before, after := &Run{Kind: PPS}, &Run{Kind: PPS}
	before.Environment.Sink, after.Environment.Sink = "xdp-skb", "xdp"
	warnings, err := Comparable(before, after)
	if err != nil || !slices.ContainsFunc(warnings, func(w Warning) bool { return w.Code == "different-sink" }) {
		t.Errorf("runs counted in different ways compare with %v, %v", warnings, err)
	}
}
