package placement

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// with changes the last guest of an ask.
func (a Ask) with(change func(g *Guest)) Ask {
	a.Guests = slices.Clone(a.Guests)
	change(&a.Guests[len(a.Guests)-1])
	return a
}

func (a Ask) isolated(cpus ...int) Ask {
	a.CPUs = markIsolated(a.CPUs, setting.CPUs(cpus...))
	return a
}

func (a Ask) quiet(cpus ...int) Ask {
	a.Quiet = setting.CPUs(cpus...)
	return a
}

// pools gives every node huge pages of 1 GiB.
func (a Ask) pools(counts ...uint64) Ask {
	for i, n := range counts {
		a.Nodes[i].Pages = []Pages{{Size: 1 << 30, Count: n}}
	}
	return a
}

// TestFoundingAlternatives checks the alternatives of the founding host and their costs: vhost stays on the NIC's node.
func TestFoundingAlternatives(t *testing.T) {
	p := Place(sized(2, 10, 2).nic(0).guest("vm", 9, 9)).Guest("vm")
	want := []Alternative{
		{What: "9 cores of node 1 (CPUs 11-19)", Cost: 99, Chosen: true},
		{What: "CPUs kept for the host", Cost: 360},
		{What: "sibling threads on node 0 (CPUs 21-29)", Cost: 540},
	}
	must.Need(t, len(p.Others) == len(want), "%+v", p.Others)
	for i, w := range want {
		if got := p.Others[i]; got.What != w.What || got.Cost != w.Cost || got.Chosen != w.Chosen || got.Why == "" {
			t.Errorf("found %+v, expected %+v", got, w)
		}
	}
	must.Contain(t, p.VhostWhy, "every packet crosses to node 0 (9 threads, distance 11 more); node 0 has no "+
		"cores left, and the sibling threads there would take half of the vCPUs' cores")
}

// TestRules checks the rules that always hold, each on a host where it decides.
func TestRules(t *testing.T) {
	fixed := sized(2, 4, 1).nic(0).guest("old", 3, 1).with(func(g *Guest) { g.Pins, g.Memory = []int{1, 2, 3}, 1<<30 })
	for _, c := range []struct {
		name            string
		ask             Ask
		want            string // the picture
		shortage, relax string // of the refused guest
	}{
		{name: "memory is not promised twice",
			ask: sized(1, 8, 1).nic(0).guest("a", 2, 1).with(func(g *Guest) { g.Memory = 40 << 30 }).guest("b", 2,
				1).with(func(g *Guest) { g.Memory = 30 << 30 }),
			want:     "b: 2-3 | vhost 4 | emulator 4; irq eth0 0-1,5-7; kept 0-1; relaxed 0; refused 1",
			shortage: "needs 40.0 GiB of memory, and beside other guests and the host's own node 0 has 30.0 GiB free",
			relax:    "give it 30 GiB of memory"},
		{name: "a guest with a device passed through goes where all its memory is",
			ask: sized(2, 4, 1).nic(0).guest("vf", 2, 1).with(func(g *Guest) {
				g.Passthrough, g.Memory = true, 62<<30
				g.NICs[0].VF, g.NICs[0].Node = true, 0
			}),
			want: "vf: 5-6 | vhost  | emulator 4; irq eth0 0-3; kept 0,4; relaxed 0; refused 0"},
		{name: "realtime on isolated CPUs, nobody else there",
			ask: sized(2, 4, 1).nic(0).isolated(2, 3).guest("rt", 2,
				1).with(func(g *Guest) { g.Realtime = true }).guest("web", 2, 1),
			want: "rt: 2-3 | vhost 1 | emulator 1; web: 5-6 | vhost 7 | emulator 7; irq eth0 0-1; kept 0,4; relaxed " +
				"0; refused 0"},
		{name: "too few isolated CPUs",
			ask:      sized(1, 8, 1).nic(0).isolated(6, 7).guest("rt", 4, 1).with(func(g *Guest) { g.Realtime = true }),
			want:     "irq eth0 2-5; kept 0-1; relaxed 0; refused 1",
			shortage: "needs 4 isolated CPUs, and 2 are isolated and free (6-7)", relax: "isolate 2 CPUs more (2-3), " +
				"or give it 2 vCPUs"},
		{name: "two realtime guests do not share cores",
			ask: sized(1, 6, 2).nic(0).isolated(2, 3, 8, 9).guest("rt", 2, 1).with(func(g *Guest) { g.Realtime = true }).
				guest("plc", 2, 1).with(func(g *Guest) { g.Realtime = true }),
			want:     "rt: 2-3 | vhost 1 | emulator 1; irq eth0 0,4-6; kept 0,6; relaxed 0; refused 1",
			shortage: "needs 2 isolated CPUs, and none is free; 3 that are not isolated are free",
			relax:    "isolate 2 CPUs more (4-5)"},
		{name: "nothing is isolated yet: the placement says what should be",
			ask:  sized(1, 8, 1).nic(0).guest("rt", 4, 1).with(func(g *Guest) { g.Realtime = true }),
			want: "rt: 2-5 | vhost 6 | emulator 6; irq eth0 0-1,6-7; kept 0-1; relaxed 1; refused 0"},
		{name: "what is to be isolated is left alone: by the host, by interrupts, and by vhost threads",
			ask: sized(2, 4, 1).nic(1).quiet(5, 6, 7).guest("rt", 1,
				1).with(func(g *Guest) { g.Realtime, g.Allowed = true, setting.CPUs(5, 6, 7) }),
			want: "rt: 5 | vhost 1 | emulator 1; irq eth0 4; kept 0,4; relaxed 1; refused 0"},
		{name: "what is isolated and given likewise",
			ask: sized(2, 4, 1).nic(1).isolated(5, 6, 7).guest("rt", 1,
				1).with(func(g *Guest) { g.Realtime, g.Allowed = true, setting.CPUs(5, 6, 7) }),
			want: "rt: 5 | vhost 1 | emulator 1; irq eth0 4; kept 0,4; relaxed 0; refused 0"},
		{name: "huge pages are counted by node",
			ask:  sized(2, 8, 2).nic(0).pools(8, 20).guest("a", 2, 1).with(func(g *Guest) { g.Hugepages = true }),
			want: "a: 9-10 | vhost 11 | emulator 11; irq eth0 1-7; kept 0,8,16,24; relaxed 0; refused 0"},
		{name: "no pool has enough",
			ask:  sized(2, 8, 2).nic(0).pools(8, 8).guest("a", 2, 1).with(func(g *Guest) { g.Hugepages = true }),
			want: "a: 1-2 | vhost 3 | emulator 3; irq eth0 4-7; kept 0,8,16,24; relaxed 1; refused 0"},
		{name: "a guest that sits well is not moved unasked",
			ask:      fixed.guest("new", 5, 1).with(func(g *Guest) { g.Memory = 1 << 30 }),
			want:     "old: 1-3 | vhost 5 | emulator 5; irq eth0 0; kept 0,4; relaxed 0; refused 1",
			shortage: "needs 5 dedicated CPUs, and 4 are left", relax: "give it 4 vCPUs"},
		{name: "given CPUs are too few",
			ask:      sized(1, 8, 1).nic(0).guest("a", 4, 1).with(func(g *Guest) { g.Allowed = setting.CPUs(2, 3, 4) }),
			want:     "irq eth0 2-7; kept 0-1; relaxed 0; refused 1",
			shortage: "needs 4 dedicated CPUs, and of those given to it (2-4) 3 are free", relax: "give it 3 vCPUs"},
	} {
		r := Place(c.ask)
		if got := picture(r); got != c.want {
			t.Errorf("%s:\n found    %s\n expected %s\n %q", c.name, got, c.want, r.Relaxed)
		}
		if c.shortage != "" && (len(r.Refused) != 1 || !strings.HasPrefix(r.Refused[0].Shortage, c.shortage) ||
			r.Refused[0].Relax != c.relax) {
			t.Errorf("%s: %+v", c.name, r.Refused)
		}
		for _, problem := range Check(c.ask, r) {
			t.Errorf("%s: %s", c.name, problem)
		}
	}
}

// TestMove checks that the refusal names a guest in the way, and that the guest moves if it may.
func TestMove(t *testing.T) {
	ask := sized(2, 6, 1).nic(0)
	for i, pins := range [][]int{{1, 2}, {7, 8}} {
		ask = ask.guest([]string{"a", "b"}[i], 2, 1).with(func(g *Guest) { g.Pins, g.Memory = pins, 30<<30 })
	}
	big := Guest{Name: "big", VCPUs: 1, Memory: 50 << 30, NICs: []Interface{{MAC: "new:0", NIC: "eth0"}}, Rate: 400e3}
	r := Add(ask, []Guest{big}, nil)
	if len(r.Refused) != 1 || !strings.HasPrefix(r.Refused[0].Relax, "move a (--move a) to CPUs ") {
		t.Fatalf("%s: %+v", picture(r), r.Refused)
	}
	r = Add(ask, []Guest{big}, []string{"a"})
	if r.Guest("big") == nil || !slices.Equal(r.Moved, []string{"a"}) || !r.Guest("b").Kept ||
		len(r.Guest("big").Vhost) != 1 {
		t.Errorf("%s: moved %v", picture(r), r.Moved)
	}
}

// TestStrict checks that no rule gives way, and that the refusal says which would have to.
func TestStrict(t *testing.T) {
	ask := sized(2, 4, 1).nic(0).guest("vm", 6, 1)
	ask.Strict = true
	r := Place(ask)
	must.Hold(t, len(r.Refused) == 1 &&
		strings.HasPrefix(r.Refused[0].Relax, "let a rule give way: vm is spread over nodes 0-1"), "%+v", r.Refused)
}

// TestReserves checks that the user's reserves are kept, and that daemons have their own CPUs.
func TestReserves(t *testing.T) {
	ask := sized(2, 8, 1).nic(0).guest("vm", 4, 2)
	ask.Daemons = []Daemon{{Name: "osd", Node: 0, CPUs: 2, Memory: 8 << 30}}
	ask.Reserves = []Reserve{{Node: 1, CPUs: 6, Memory: 60 << 30}}
	r := Place(ask)
	if want := "vm: 4-7 | vhost 14-15 | emulator 14-15; irq eth0 0-3; kept 0-3,8-13; relaxed 0; refused 0"; picture(
		r) != want {
		t.Errorf("found    %s\n expected %s", picture(r), want)
	}
	must.Hold(t, len(r.Daemons) == 1 && r.Daemons[0].CPUs.String() == "2-3", "%+v", r.Daemons)
	if n := r.Nodes[1]; n.Left != 4<<30 || n.Kept != 6 || n.Vhost != 2 {
		t.Errorf("%+v", n)
	}
}

// TestReserveTaken checks the report if guests that stay leave the host less than its default or the user's reserve.
func TestReserveTaken(t *testing.T) {
	for cpus, said := range map[int]bool{0: false, 3: false, 4: true} {
		ask := sized(1, 8, 1).nic(0).guest("vm", 5, 1)
		ask.Guests[0].Pins, ask.Guests[0].Fixed = []int{1, 2, 3, 4, 5}, true
		if cpus > 0 {
			ask.Reserves = []Reserve{{Node: 0, CPUs: cpus}}
		}
		r := Place(ask)
		found := slices.ContainsFunc(r.Relaxed,
			func(text string) bool { return strings.Contains(text, "guests stay that are pinned to 5 of its 8") })
		must.Hold(t, found == said,
			"%d CPUs: said %v, expected %v: %v, kept %s", cpus, found, said, r.Relaxed, r.Housekeeping)
	}
}
