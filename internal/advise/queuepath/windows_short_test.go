package queuepath

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func busy(queues int, packets float64) []float64 { return slices.Repeat([]float64{packets}, queues) }

// TestIdleTakeNothing: a guest with as many busy queues as the NIC has keeps them all, however many idle ones there are
// beside it.
func TestIdleTakeNothing(t *testing.T) {
	senders := []Sender{{Tap: "tap0", Queues: 8, Node: -1, Seen: busy(8, 10_000)}}
	for i := range 8 {
		senders = append(senders, Sender{Tap: fmt.Sprintf("tap%d", i+1), Queues: 1, Node: -1, Seen: []float64{3}})
	}
	lanes := Windows(senders, 8, nil, nil)
	must.Hold(t, lanes[0].Count == 8, "eight nearly idle guests: %v", lanes)
	two := []Sender{{Tap: "a", Queues: 8, Node: -1, Seen: busy(8, 10_000)},
		{Tap: "b", Queues: 8, Node: -1, Seen: busy(8, 0)}}
	if lanes := Windows(two, 8, nil, []setting.Lane{{Tap: "a", Base: 0, Count: 4},
		{Tap: "b", Base: 4, Count: 4}}); lanes[0].Count != 8 {
		t.Errorf("an idle guest keeps half of the queues: %v", lanes)
	}
	for i := range senders { // nothing was watched: 16 lanes, two on each queue
		senders[i].Seen = nil
	}
	must.Equal(t, fullest(senders, 8, Windows(senders, 8, nil, nil)), 2, "16 lanes on 8 queues: on one")
	// Each guest uses its first queue only.
	first := []Sender{{Tap: "a", Queues: 8, Node: -1, Seen: []float64{900}},
		{Tap: "b", Queues: 8, Node: -1, Seen: []float64{900}}}
	if n := fullest(first, 8, Windows(first, 8, nil, nil)); n > 900 {
		t.Errorf("two busy lanes meet: %.0f packets on one queue", n)
	}
}

// TestIdleHalveNobody: whoever comes and sends nothing, the busy ones have about what they had without; which of many
// divisions that are nearly as good is found depends on the order.
func TestIdleHalveNobody(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		queues := 1 + r.IntN(32)
		var working, all []Sender
		for i := range 1 + r.IntN(6) {
			s := Sender{Tap: fmt.Sprintf("b%d", i), Queues: 1 + r.IntN(16), Node: -1}
			for range s.Queues {
				s.Seen = append(s.Seen, float64(1000+r.IntN(100_000)))
			}
			working = append(working, s)
		}
		all = slices.Clone(working)
		for i := range 1 + r.IntN(20) {
			n := 1 + r.IntN(16)
			all = append(all, Sender{Tap: fmt.Sprintf("i%d", i), Queues: n, Node: -1, Seen: busy(n, 0)})
		}
		alone := fullest(working, queues, Windows(working, queues, nil, nil))
		lanes := Windows(all, queues, nil, nil)
		sound(t, all, queues, lanes)
		balanced(t, all, queues, lanes)
		if found := fullest(all, queues, lanes); found > 1.4*alone {
			t.Fatalf("%d queues, %+v: the fullest has %.0f, without idle guests %.0f: %v", queues, all, found, alone,
				lanes)
		}
		if again := Windows(all, queues, nil, lanes); !slices.Equal(again, lanes) {
			t.Fatalf("%v, and asked again %v", lanes, again)
		}
	}
}
