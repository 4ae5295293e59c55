//go:build netns

package lanes

import (
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// ways are the two ways to attach the programs.
func ways(t *testing.T, run func(t *testing.T, filters bool)) {
	for name, filters := range map[string]bool{"tcx": false, "clsact": true} {
		t.Run(name, func(t *testing.T) { run(t, filters) })
	}
}

// TestLanes: two guests send through a tunnel with one queue. Without the programs their queues share a few of the
// NIC's; with them each frame uses the queue of its lane; without them it is again as before.
func TestLanes(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	const each = 2000
	before := p.run(had, each)
	used := map[int]bool{}
	for at := range before {
		used[at[2]] = true
	}
	must.Hold(t, len(used) <= 2,
		"without steering: expected the tunnel to let the lanes run together, found %v", before)
	ways(t, func(t *testing.T, filters bool) {
		prog := program(t, filters)
		if found := prog.reads(t); found != "absent" {
			t.Fatalf("reads %s before", found)
		}
		windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}}
		must.Do(t, prog.Write(windows))
		must.Equal(t, prog.reads(t), "tap0=0+4 tap1=4+4", "reads")
		p.t = t
		p.run(had, each).exact(t, "steered", each, p.guests, windows)
		// Other windows, swapped and with too few queues.
		windows = []setting.Lane{{Tap: "tap0", Base: 5, Count: 3}, {Tap: "tap1", Base: 0, Count: 1}}
		must.Do(t, prog.Write(windows))
		m := p.run(had, each)
		for q := range 4 {
			at, n := 5+q%3, each
			must.Hold(t, m[[3]int{0, q, at}] == n && m[[3]int{1, q, 0}] == each, "with other windows: %v", m)
		}
		must.Do(t, prog.Remove())
		must.Equal(t, prog.reads(t), "absent", "removed, it reads")
		nothingLeft(t)
		if after := p.run(had, each); len(after) != len(before) {
			t.Errorf("after the programs were removed: %v, before %v", after, before)
		}
	})
}

// TestTwoNICs: taps that send by two NICs have a program for each; removing one NIC's keeps the other's lanes.
func TestTwoNICs(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	ip(t, "link add nic1 numtxqueues 4 numrxqueues 4 type veth peer name far1 numtxqueues 4 numrxqueues 4",
		"link set nic1 up", "link set far1 up")
	ways(t, func(t *testing.T, filters bool) {
		p.t = t
		first := program(t, filters)
		second := must.Get(programOf("nic1", filters))(t)
		windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 2, Count: 2}}
		for _, prog := range []Program{first, second} {
			must.Do(t, prog.Write(windows))
		}
		for _, prog := range []Program{first, second} {
			must.Equal(t, prog.reads(t), "tap0=0+4 tap1=2+2", "%s reads", prog.NIC.Name)
		}
		p.run(had, 300).exact(t, "by two NICs", 300, p.guests, windows)
		must.Do(t, second.Remove())
		if one, two := first.reads(t), second.reads(t); one != "tap0=0+4 tap1=2+2" || two != "absent" {
			t.Errorf("one of two removed: they read %s and %s", one, two)
		}
		p.run(had, 300).exact(t, "by the other one", 300, p.guests, windows)
		must.Do(t, first.Remove())
		nothingLeft(t)
	})
}
