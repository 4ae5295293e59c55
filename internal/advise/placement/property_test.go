package placement

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// random returns a host of any shape with guests of any size, some of them pinned, with daemons and reserves.
func random(seed uint64) Ask {
	rnd := rand.New(rand.NewPCG(seed, 7))
	ask := sized(1+rnd.IntN(4), 1+rnd.IntN(12), 1+rnd.IntN(2)).nic(rnd.IntN(5) - 1)
	ask.NICs[0].Queues = int(seed%4) * 5
	for i := range ask.Nodes {
		ask.Nodes[i].Memory = uint64(rnd.IntN(5)) * (24 << 30)
		if rnd.IntN(3) == 0 && ask.Nodes[i].Memory > 0 {
			ask.Nodes[i].Pages = []Pages{{Size: 1 << 30, Count: uint64(rnd.IntN(20))},
				{Size: 2 << 20, Count: uint64(rnd.IntN(2000))}}
		}
	}
	for i := range ask.CPUs {
		ask.CPUs[i].Alike = ask.CPUs[i].Core / 4
	}
	if rnd.IntN(3) == 0 {
		for range 1 + rnd.IntN(4) {
			core := rnd.IntN(len(ask.CPUs))
			for i := range ask.CPUs {
				ask.CPUs[i].Isolated = ask.CPUs[i].Isolated || ask.CPUs[i].Core == core && core > 0
			}
		}
	}
	if rnd.IntN(4) == 0 {
		ask.CPUs = slices.DeleteFunc(ask.CPUs, func(CPU) bool { return rnd.IntN(6) == 0 }) // offline
	}
	if rnd.IntN(4) == 0 {
		ask.Daemons = []Daemon{{Name: "osd", Node: rnd.IntN(len(ask.Nodes)), CPUs: 1 + rnd.IntN(4)}}
	}
	if rnd.IntN(4) == 0 {
		ask.Reserves = []Reserve{{Node: rnd.IntN(len(ask.Nodes)), CPUs: 1 + rnd.IntN(4), Memory: 1 << 30}}
	}
	ask.Strict = rnd.IntN(8) == 0
	for i := range rnd.IntN(6) {
		ask = ask.guest(fmt.Sprintf("vm%d", i), 1+rnd.IntN(12), rnd.IntN(9))
		last := &ask.Guests[i]
		last.Memory = uint64(1+rnd.IntN(24)) << 30
		last.Hugepages, last.Realtime, last.Rate = rnd.IntN(3) == 0, rnd.IntN(6) == 0, float64(rnd.IntN(3))*1e6
		last.NICs[0].VF, last.NICs[0].Node = rnd.IntN(6) == 0, rnd.IntN(3)-1
		switch rnd.IntN(6) {
		case 0, 1:
			for range last.VCPUs {
				last.Pins = append(last.Pins, rnd.IntN(len(ask.CPUs)+4))
			}
			last.Fixed = rnd.IntN(4) == 0
		case 2:
			for range 1 + rnd.IntN(12) {
				last.Allowed = last.Allowed.Or(setting.CPUs(rnd.IntN(16)))
			}
		}
	}
	return ask
}

// TestProperties checks the invariants of placements on random hosts.
func TestProperties(t *testing.T) {
	for seed := range uint64(120) {
		ask := random(seed)
		r := Place(ask)
		for _, problem := range Check(ask, r) {
			t.Errorf("seed %d: %s", seed, problem)
		}
		if again := Place(ask); !reflect.DeepEqual(r, again) {
			t.Errorf("seed %d: placed otherwise the second time", seed)
		}
	}
}

// Check lists what is wrong with a placement: what is assigned twice, not allowed, or has no reason.
func Check(ask Ask, r *Result) (problems []string) {
	wrong := func(format string, a ...any) { problems = append(problems, fmt.Sprintf(format, a...)) }
	online := map[int]CPU{}
	isolation := false
	for _, c := range ask.CPUs {
		online[c.ID] = c
		isolation = isolation || c.Isolated
	}
	if len(r.Guests)+len(r.Refused)+len(r.Left) != len(ask.Guests) {
		wrong("%d guests placed, %d left and %d refused of %d", len(r.Guests), len(r.Left), len(r.Refused),
			len(ask.Guests))
	}
	for _, f := range r.Refused {
		if f.Shortage == "" || f.Relax == "" {
			wrong("%s is refused: %q, %q", f.Guest, f.Shortage, f.Relax)
		}
	}
	taken := map[int]string{}
	for _, g := range r.Guests {
		asked := ask.guestNamed(g.Name)
		if len(g.VCPUs) != asked.VCPUs || g.Why == "" || g.MemoryWhy == "" || len(g.Vhost) > 0 && g.VhostWhy == "" {
			wrong("%s has %d of %d vCPUs, reasons %q, %q, %q", g.Name, len(g.VCPUs), asked.VCPUs, g.Why, g.MemoryWhy,
				g.VhostWhy)
		}
		for _, v := range g.VCPUs {
			c, on := online[v.CPU]
			if owner := taken[v.CPU]; owner != "" && !g.Kept && !r.Guest(owner).Kept {
				wrong("CPU %d is given to %s and %s", v.CPU, owner, g.Name)
			}
			taken[v.CPU] = g.Name
			switch {
			case g.Kept: // it stays, well or not
			case !on:
				wrong("%s sits on CPU %d, which is offline", g.Name, v.CPU)
			case len(asked.Allowed) > 0 && !asked.Allowed.Has(v.CPU):
				wrong("%s sits on CPU %d, which was not given to it", g.Name, v.CPU)
			case len(asked.Allowed) == 0 && asked.Realtime && isolation && !c.Isolated, asked.Shared && c.Isolated:
				wrong("%s (realtime: %v) sits on CPU %d (isolated: %v)", g.Name, asked.Realtime, v.CPU, c.Isolated)
			}
			if r.Housekeeping.Has(v.CPU) {
				wrong("%s sits on CPU %d, which is kept for the host", g.Name, v.CPU)
			}
		}
		sum := uint64(0)
		for _, m := range g.Memory {
			sum += m.Bytes
			if g.PageSize > 0 && m.Bytes != m.Pages*g.PageSize || !g.Nodes.Has(m.Node) {
				wrong("%s has memory %+v on nodes %s", g.Name, m, g.Nodes)
			}
		}
		if sum != asked.Memory && !asked.Fixed && len(g.Nodes) > 0 {
			wrong("%s has %d of %d bytes", g.Name, sum, asked.Memory)
		}
		if len(g.Emulator) == 0 {
			wrong("%s has no CPU for its emulator", g.Name)
		}
		if n := vhostCount(asked); len(g.Vhost) != n {
			wrong("%s has %d of %d vhost threads", g.Name, len(g.Vhost), n)
		}
	}
	workers := map[int]string{}
	for _, g := range r.Guests {
		for _, w := range g.Vhost {
			owner, shared := taken[w.CPU], workers[w.CPU]
			if _, on := online[w.CPU]; !g.Kept && (!on || owner != "" && owner != g.Name) {
				wrong("vhost of %s on CPU %d, which is %q's", g.Name, w.CPU, owner)
			}
			if shared != "" && shared != g.Name && !r.Housekeeping.Has(w.CPU) && !(g.Kept && r.Guest(shared).Kept) {
				wrong("vhost threads of %s and %s share CPU %d", g.Name, shared, w.CPU)
			}
			workers[w.CPU] = g.Name
			if len(w.Stays) == 0 && !g.Emulator.Has(w.CPU) {
				wrong("a vhost thread of %s on CPU %d, outside its emulator's %s", g.Name, w.CPU, g.Emulator)
			}
		}
	}
	for _, n := range r.NICs {
		for _, cpu := range n.CPUs {
			if taken[cpu] != "" || online[cpu].Isolated {
				wrong("an interrupt of %s on CPU %d of %q", n.Name, cpu, taken[cpu])
			}
		}
	}
	return append(problems, overbooked(ask, r)...)
}

// overbooked lists nodes whose movable guests have more memory or pages than the node.
func overbooked(ask Ask, r *Result) (problems []string) {
	for _, n := range ask.Nodes {
		ordinary, pages, fixed := uint64(0), map[uint64]uint64{}, false
		for _, g := range r.Guests {
			for _, m := range g.Memory {
				if m.Node != n.ID {
					continue
				}
				fixed = fixed || g.Kept
				if g.PageSize == 0 {
					ordinary += m.Bytes
				}
				pages[g.PageSize] += m.Pages
			}
		}
		room := n.Memory
		for _, p := range n.Pages {
			room -= min(room, p.Size*p.Count)
			if pages[p.Size] > p.Count {
				problems = append(problems, fmt.Sprintf("node %d has %d pages of %d, and %d are given", n.ID, p.Count,
					p.Size, pages[p.Size]))
			}
		}
		if n.Memory > 0 && ordinary > room && !fixed {
			problems = append(problems, fmt.Sprintf("node %d has %d bytes, and %d are given", n.ID, room, ordinary))
		}
	}
	return problems
}

// TestStable checks on random hosts that an added guest moves no other guest, nor their threads, and that a guest that
// may move does so only for a lower cost.
func TestStable(t *testing.T) {
	fitted := 0
	for seed := range uint64(60) {
		ask := random(seed)
		base := Place(ask)
		more := Guest{Name: "new", VCPUs: 1 + int(seed%4), Memory: 2 << 30,
			NICs: []Interface{{MAC: "new:0", NIC: "eth0", Queues: 1}}}
		r := Add(ask, []Guest{more}, nil)
		if r.Guest("new") != nil {
			fitted++
		}
		for _, g := range base.Guests {
			now := r.Guest(g.Name)
			must.Hold(t, now != nil && reflect.DeepEqual(now.VCPUs, g.VCPUs) && reflect.DeepEqual(now.Vhost, g.Vhost) &&
				now.Emulator.Equal(g.Emulator) && now.Nodes.Equal(g.Nodes) && reflect.DeepEqual(now.Memory, g.Memory),
				"seed %d: %s was %+v and is %+v", seed, g.Name, g, now)
		}
		must.Hold(t, len(base.Moved) >= len(r.Moved), "seed %d: %v move", seed, r.Moved)
		for _, problem := range Check(Ask{CPUs: ask.CPUs, Nodes: ask.Nodes, NICs: ask.NICs,
			Guests: append(slices.Clone(ask.Guests), more)}, r) {
			t.Errorf("seed %d: %s", seed, problem)
		}
		// where there is too little memory, maybe
		pinned := slices.ContainsFunc(ask.Guests, func(g Guest) bool { return len(g.Pins) > 0 })
		if all := Add(ask, []Guest{more}, []string{"all"}); !pinned && len(all.Refused) > len(r.Refused) {
			t.Errorf("seed %d: %d refused where all may move, %d where none may", seed, len(all.Refused),
				len(r.Refused))
		}
	}
	must.Hold(t, fitted >= 20, "the new guest fitted in %d of 60 cases", fitted)
	t.Logf("the new guest fitted in %d of 60 cases", fitted)
}

// uneven reports whether some cores have more threads online than others.
func uneven(ask Ask) bool {
	threads := map[int]int{}
	for _, c := range ask.CPUs {
		threads[c.Core]++
	}
	for _, n := range threads {
		if n != threads[ask.CPUs[0].Core] {
			return true
		}
	}
	return false
}

// TestApplied checks that a placement that was carried out is placed the same way again.
func TestApplied(t *testing.T) {
	for seed := range uint64(80) {
		ask := random(seed)
		first := Place(ask)
		if !first.Proved || first.Cost.Sharing > 0 || first.Cost.Spread > 0 {
			continue // such pins are never good enough to stay
		}
		if uneven(ask) {
			continue // the search counts on the fewest threads of a node's cores, later their own are known
		}
		done := ask
		done.Guests = slices.Clone(ask.Guests)
		for i := range done.Guests {
			g := &done.Guests[i]
			if p := first.Guest(g.Name); p != nil {
				g.Pins = nil
				for _, v := range p.VCPUs {
					g.Pins = append(g.Pins, v.CPU)
				}
				g.Emulator = p.Emulator
				g.Workers = nil
				for _, w := range p.Vhost {
					g.Workers = append(g.Workers, Worker{NIC: w.NIC, Queue: w.Queue, CPUs: setting.CPUs(w.CPU)})
				}
			}
		}
		again := Place(done)
		for _, p := range first.Guests {
			now := again.Guest(p.Name)
			for i := range now.Vhost {
				now.Vhost[i].Stays = nil
			}
			if now == nil || !reflect.DeepEqual(now.VCPUs, p.VCPUs) || !reflect.DeepEqual(now.Vhost, p.Vhost) ||
				!now.Emulator.Equal(p.Emulator) {
				t.Errorf("seed %d: %s was on %s, vhost %v, emulator %s, and is now %+v", seed, p.Name, p.VCPUSet(),
					p.Vhost, p.Emulator, now)
			}
		}
		must.Empty(t, again.Moved, "seed %d: move", seed)
	}
}
