package queuepath

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// users are who uses which queue of the NIC.
func users(lanes []setting.Lane, queues int) [][]string {
	used := make([][]string, queues)
	for _, l := range lanes {
		for q := range l.Count {
			used[l.Base+q] = append(used[l.Base+q], l.Tap)
		}
	}
	return used
}

// sound checks what must hold for every division.
func sound(t *testing.T, senders []Sender, queues int, lanes []setting.Lane) {
	t.Helper()
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\n%d queues, %+v\n%v", fmt.Sprintf(format, args...), queues, senders, lanes)
	}
	if len(lanes) != len(senders) {
		fail("%d windows", len(lanes))
	}
	demand, given := 0, 0
	for i, l := range lanes {
		if l.Tap != senders[i].Tap || l.Count < 1 || l.Count > max(1, senders[i].Queues) || l.Base < 0 ||
			l.Base+l.Count > queues {
			fail("window %v", l)
		}
		demand += max(1, senders[i].Queues)
		given += l.Count
	}
	shared, idle := 0, 0
	for _, who := range users(lanes, queues) {
		switch {
		case len(who) == 0:
			idle++
		case len(who) > 1:
			shared++
		}
	}
	if shared > 0 && idle > 0 {
		fail("%d queues are shared while %d are idle", shared, idle)
	}
	if demand <= queues && (shared > 0 || given != demand) {
		fail("%d queues are shared, %d given out of %d that are asked for, and there are enough", shared, given, demand)
	}
	// The queues of one guest share only where it has fewer windows than queues, and then evenly.
	for i, s := range senders {
		load := map[int]int{}
		for q := range s.Queues {
			load[QueueOf(lanes[i], q)]++
		}
		for _, n := range load {
			if n > (s.Queues+lanes[i].Count-1)/lanes[i].Count {
				fail("%d queues of %s on one", n, s.Tap)
			}
		}
	}
}

// fair checks that nobody could be given a queue by one who would still have more for its weight.
func fair(t *testing.T, senders []Sender, queues int, lanes []setting.Lane) {
	t.Helper()
	if laneCount(senders) > queues && !senders[0].Weighed {
		balanced(t, senders, queues, lanes)
		return
	}
	if len(senders) > queues {
		loads := make([]float64, queues)
		for i, l := range lanes {
			loads[l.Base] += weight(senders[i])
		}
		least := slices.Min(loads)
		for i, l := range lanes {
			if weight(senders[i]) < loads[l.Base]-least-1e-6 {
				t.Fatalf("%s would be better on another queue: %v", l.Tap, loads)
			}
		}
		return
	}
	for i, poor := range lanes {
		if poor.Count >= senders[i].Queues {
			continue
		}
		for j, rich := range lanes {
			if rich.Count > 1 && float64(rich.Count-1)/weight(senders[j]) > float64(poor.Count)/weight(
				senders[i])+1e-9 {
				t.Fatalf("%v has more than its share beside %v: %+v", rich, poor, senders)
			}
		}
	}
}

// fullest is what the fullest queue has: packets where they were seen, else lanes.
func fullest(senders []Sender, queues int, lanes []setting.Lane) float64 {
	on := make([]float64, queues)
	for i, s := range senders {
		for q := range max(1, s.Queues) {
			switch {
			case s.Seen == nil:
				on[QueueOf(lanes[i], q)]++
			case q < len(s.Seen):
				on[QueueOf(lanes[i], q)] += s.Seen[q]
			}
		}
	}
	return slices.Max(on)
}

// balanced checks that no queue is fuller than with windows of one's own, nor much fuller than the fairest division of
// lanes.
func balanced(t *testing.T, senders []Sender, queues int, lanes []setting.Lane) {
	t.Helper()
	d := division{queues: queues, before: map[string]setting.Lane{}}
	found, own := fullest(senders, queues, lanes), fullest(senders, queues, d.ownWindows(senders))
	if found > stayLimit*own+1e-6 {
		t.Fatalf("%d queues, %+v: %v: the fullest queue has %.1f, with windows of one's own %.1f", queues, senders,
			lanes, found, own)
	}
	if even := (laneCount(senders) + queues - 1) / queues; senders[0].Seen == nil && found > stayLimit*float64(even+1) {
		t.Fatalf("%d queues, %+v: %v: the fullest queue has %.0f lanes, %d would do", queues, senders, lanes, found,
			even)
	}
}

func randomSenders(r *rand.Rand, most int) []Sender {
	senders := make([]Sender, 1+r.IntN(most))
	for i := range senders {
		senders[i] = Sender{Tap: fmt.Sprintf("t%d", i), Queues: 1 << r.IntN(5),
			Weight: []float64{0, 1, 1, 2, 3, 10, 0.5}[r.IntN(7)], Node: r.IntN(3) - 1}
	}
	return senders
}

func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		queues := 1 + r.IntN(64)
		senders := randomSenders(r, 40)
		if r.IntN(2) == 0 {
			for i := range senders {
				senders[i].Weighed = true
			}
		}
		var nodes []int
		if r.IntN(2) == 0 {
			for q := range queues {
				nodes = append(nodes, q*2/queues)
			}
		}
		var lanes []setting.Lane
		for range 4 { // guests come, go and grow
			lanes = Windows(senders, queues, nodes, lanes)
			sound(t, senders, queues, lanes)
			fair(t, senders, queues, lanes)
			if again := Windows(senders, queues, nodes, lanes); !slices.Equal(again, lanes) {
				t.Fatalf("%d queues, %+v: %v, and asked again %v", queues, senders, lanes, again)
			}
			switch r.IntN(3) {
			case 0:
				senders = slices.Delete(slices.Clone(senders), 0, r.IntN(len(senders)))
			case 1:
				senders = append(slices.Clone(senders), Sender{Tap: fmt.Sprintf("n%d", r.Int()), Queues: 1 + r.IntN(8),
					Node: -1, Weighed: len(senders) > 0 && senders[0].Weighed})
			case 2:
				senders = slices.Clone(senders)
				senders[r.IntN(len(senders))].Queues = 1 + r.IntN(16)
			}
		}
	}
}

// TestSixteenGuests: 16 guests with 8 queues each on a NIC with 64.
func TestSixteenGuests(t *testing.T) {
	var senders []Sender
	for i := range 16 {
		senders = append(senders, Sender{Tap: fmt.Sprintf("vnet%d", i), Queues: 8, Node: -1})
	}
	lanes := Windows(senders, 64, nil, nil)
	sound(t, senders, 64, lanes)
	for _, l := range lanes {
		must.Hold(t, l.Count == 4, "%v: expected 4 queues each", l)
	}
	for i := range senders {
		senders[i].Weighed = true
	}
	senders[0].Weight = 3
	lanes = Windows(senders, 64, nil, nil)
	sound(t, senders, 64, lanes)
	if lanes[0].Count != 8 { // 64 × 3/18 is 10.7, and it has 8
		t.Errorf("with three times the weight: %v", lanes[0])
	}
	if lanes := Windows(senders, 256, nil, nil); lanes[15].Count != 8 {
		t.Errorf("with enough queues: %v", lanes)
	}
	// Half of them on each node, as the NIC's interrupts are.
	nodes := make([]int, 128)
	for i := range nodes {
		nodes[i] = i / 64
	}
	for i := range senders {
		senders[i].Node = (i + 1) % 2
	}
	for i, l := range Windows(senders, 128, nodes, nil) {
		must.Hold(t, nodes[l.Base] == senders[i].Node && nodes[l.Base+l.Count-1] == senders[i].Node,
			"%v of a guest on node %d", l, senders[i].Node)
	}
}

func moved(before, after []setting.Lane) int {
	n := 0
	for _, l := range after {
		i := slices.IndexFunc(before, func(b setting.Lane) bool { return b.Tap == l.Tap })
		if i >= 0 && before[i] != l {
			n++
		}
	}
	return n
}

// TestWindowsStay: where one goes, or one comes and there is room, nobody moves; otherwise as few as any division
// needs.
func TestWindowsStay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	enough, tight := 0, 0
	for range 3000 {
		queues := 4 + r.IntN(9)
		var senders []Sender
		left := queues
		for left > 0 && len(senders) < 5 {
			n := 1 + r.IntN(min(left, 4))
			senders = append(senders, Sender{Tap: fmt.Sprintf("t%d", len(senders)), Queues: n, Node: -1})
			left -= n
		}
		lanes := Windows(senders, queues, nil, nil)
		at := r.IntN(len(senders))
		fewer := slices.Delete(slices.Clone(senders), at, at+1)
		after := Windows(fewer, queues, nil, lanes)
		if moved(lanes, after) != 0 {
			t.Fatalf("%v, without %s: %v", lanes, senders[at].Tap, after)
		}
		if len(fewer) > 1 && r.IntN(2) == 0 {
			fewer = slices.Delete(slices.Clone(fewer), 0, 1)
			after = Windows(fewer, queues, nil, after)
		}
		free := queues
		for _, l := range after {
			free -= l.Count
		}
		if free == 0 {
			continue
		}
		more := append(slices.Clone(fewer), Sender{Tap: "new", Queues: 1 + r.IntN(free), Node: -1})
		found := Windows(more, queues, nil, after)
		sound(t, more, queues, found)
		least := fewest(more, queues, after)
		if n := moved(after, found); n != least {
			t.Fatalf("%d queues, %v, and then %v: %d moved, %d would do", queues, after, found, n, least)
		}
		if least == 0 {
			enough++
		} else {
			tight++
		}
	}
	must.Hold(t, enough >= 100 && tight >= 100,
		"%d cases with room in one piece and %d without: too few to prove anything", enough, tight)
}

// fewest is the least number of windows that move in any division, by trying all.
func fewest(senders []Sender, queues int, before []setting.Lane) int {
	best := len(senders) + 1
	taken := make([]bool, queues)
	var try func(i, n int)
	try = func(i, n int) {
		if n >= best {
			return
		}
		if i == len(senders) {
			best = n
			return
		}
		s := senders[i]
		at := slices.IndexFunc(before, func(b setting.Lane) bool { return b.Tap == s.Tap })
		for base := 0; base+s.Queues <= queues; base++ {
			if slices.Contains(taken[base:base+s.Queues], true) {
				continue
			}
			occupy(taken, base, s.Queues, true)
			cost := 0
			if at >= 0 && before[at].Base != base {
				cost = 1
			}
			try(i+1, n+cost)
			occupy(taken, base, s.Queues, false)
		}
	}
	try(0, 0)
	return best
}

// TestSharedStays: with more guests than queues nobody moves where one goes, unless queues come out clearly more even.
func TestSharedStays(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	stayed := 0
	for range 500 {
		queues := 2 + r.IntN(8)
		var senders []Sender
		for i := range queues + 2 + r.IntN(20) {
			senders = append(senders, Sender{Tap: fmt.Sprintf("t%d", i), Queues: 4, Node: -1})
		}
		lanes := Windows(senders, queues, nil, nil)
		at := r.IntN(len(senders))
		fewer := slices.Delete(slices.Clone(senders), at, at+1)
		left := slices.Delete(slices.Clone(lanes), at, at+1)
		after := Windows(fewer, queues, nil, lanes)
		sound(t, fewer, queues, after)
		n, was, is := moved(lanes, after), fullest(fewer, queues, left), fullest(fewer, queues, after)
		if n == 0 {
			stayed++
		} else if is >= was && n > 1 { // one, where a queue would idle
			t.Fatalf("%v, without %s: %v, %d moved, and the fullest queue has %.0f, before %.0f", lanes,
				senders[at].Tap, after, n, is, was)
		}
	}
	must.Hold(t, stayed >= 400, "in %d of 500 cases nobody moved", stayed)
}

func TestNoWindows(t *testing.T) {
	if l := Windows(nil, 8, nil, nil); l != nil {
		t.Errorf("nobody sends: %v", l)
	}
	if l := Windows([]Sender{{Tap: "a", Queues: 1}}, 0, nil, nil); l != nil {
		t.Errorf("no queues: %v", l)
	}
	if l := Windows([]Sender{{Tap: "a", Queues: 0}}, 4, nil, []setting.Lane{{Tap: "a", Base: 7,
		Count: 1}}); l[0] != (setting.Lane{Tap: "a", Base: 0, Count: 1}) {
		t.Errorf("a window that the NIC has no more: %v", l)
	}
}

// BenchmarkWindows: 256 taps onto 256 queues with one that comes into a NIC whose free queues lie scattered.
func BenchmarkWindows(b *testing.B) {
	var senders []Sender
	for i := range 127 {
		senders = append(senders, Sender{Tap: fmt.Sprintf("t%d", i), Queues: 1 + i%2, Node: -1})
	}
	lanes := Windows(senders, 256, nil, nil)
	senders = append(slices.Delete(senders, 10, 14), Sender{Tap: "new", Queues: 70, Node: -1})
	for b.Loop() {
		Windows(senders, 256, nil, lanes)
	}
}
