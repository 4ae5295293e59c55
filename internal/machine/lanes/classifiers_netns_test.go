//go:build netns

package lanes

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestClassifiers: another program's classifier at a tap erases the lane of its packets, even if it sets no class, so
// the tap does not read as steered. Without the classifier the lane is there again.
func TestClassifiers(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	tc := func(command string) {
		t.Helper()
		if out, err := exec.Command("tc", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("tc %s: %v\n%s", command, err, out)
		}
	}
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}}
	for _, c := range []struct{ qdisc, filter, kind string }{
		{"handle ffff: ingress", "parent ffff: protocol all u32 match u32 0 0 flowid :1", "u32"},
		{"clsact", "ingress bpf da bytecode 1,6\x000\x000\x000", "bpf"},
	} {
		prog := program(t, false)
		must.Do(t, prog.Write(windows))
		tc("qdisc add dev tap1 " + c.qdisc)
		if kinds, err := Classifiers(find(t, prog, "tap1")); err != nil || len(kinds) != 0 {
			t.Errorf("%s without a filter: %v, %v", c.qdisc, kinds, err)
		}
		must.Equal(t, prog.reads(t), setting.LanesText(windows), "%s without a filter reads", c.qdisc)
		words := strings.Fields("filter add dev tap1 " + c.filter)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", " ")
		}
		if out, err := exec.Command("tc", words...).CombinedOutput(); err != nil {
			t.Fatalf("tc %q: %v\n%s", words, err, out)
		}
		if kinds, err := Classifiers(find(t, prog, "tap1")); err != nil || !slices.Equal(kinds, []string{c.kind}) {
			t.Errorf("%s: %v, %v", c.kind, kinds, err)
		}
		must.Equal(t, prog.reads(t), "tap0=0+4", "with a classifier (%s) at tap1 it reads", c.kind)
		m, planned := p.run(had, 200), 0
		for q := range 4 {
			planned += m[[3]int{1, q, 4 + q}]
		}
		must.Hold(t, planned != 800, "%s: lanes come through, and are said not to", c.kind)
		tc("qdisc del dev tap1 " + strings.TrimPrefix(c.qdisc, "handle ffff: "))
		must.Equal(t, prog.reads(t), setting.LanesText(windows), "%s is gone: it reads", c.kind)
		p.run(had, 200).exact(t, "without a classifier", 200, p.guests, windows)
		must.Do(t, prog.Remove())
		nothingLeft(t)
	}
}

// TestClassifierBetween: a classifier at the egress of a tunnel on the path erases lanes too, and the taps that use the
// tunnel do not read as steered.
func TestClassifierBetween(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	p := newPath(t, true, 4, 4)
	had := map[[3]int]bool{}
	windows := []setting.Lane{{Tap: "tap0", Base: 0, Count: 4}, {Tap: "tap1", Base: 4, Count: 4}}
	ways(t, func(t *testing.T, filters bool) {
		p.t = t
		prog := program(t, filters)
		prog.Between = func(Device) []Device { return []Device{find(t, prog, "vx0")} }
		must.Do(t, prog.Write(windows))
		p.run(had, 200).exact(t, "without a classifier", 200, p.guests, windows)
		must.Do(t, errors.Join(tc(t, "qdisc add dev vx0 clsact"), tc(t, "filter add dev vx0 egress"+sayOK)))
		must.Equal(t, prog.reads(t), "idle", "with a classifier at the tunnel it reads")
		planned := 0
		for key, n := range p.run(had, 200) {
			if key[2] == 4*key[0]+key[1] {
				planned += n
			}
		}
		must.Hold(t, planned != 1600, "lanes come through, and are said not to")
		must.Do(t, tc(t, "qdisc del dev vx0 clsact"))
		must.Equal(t, prog.reads(t), setting.LanesText(windows), "the classifier is gone: it reads")
		must.Do(t, prog.Remove())
		nothingLeft(t)
	})
}

// TestIngressInTheWay: when filters are used, a NIC with an ingress qdisc is refused with the reason, and not changed.
func TestIngressInTheWay(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, false, 2)
	if out, err := exec.Command("tc", "qdisc", "add", "dev", "nic0", "handle", "ffff:",
		"ingress").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	prog := program(t, true)
	if err := prog.Write([]setting.Lane{{Tap: "tap0", Base: 0, Count: 2}}); err == nil ||
		!strings.Contains(err.Error(), "nic0 has the queue discipline ingress") {
		t.Errorf("written: %v; it reads %s", err, prog.reads(t))
	}
	nothingLeft(t)
}

// TestRedirects: filters at a tap's ingress that send packets out by another device, or let them arrive at one, are
// found; one that does neither is none.
func TestRedirects(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	newPath(t, true, 4, 4)
	prog := program(t, false)
	tap, other := find(t, prog, "tap1"), find(t, prog, "tap0")
	for _, c := range []struct {
		command string
		out, in []int
	}{
		{"qdisc add dev tap1 handle ffff: ingress", nil, nil},
		{"filter add dev tap1 parent ffff: prio 1 protocol ip u32 match u32 0 0 flowid :1", nil, nil},
		{"filter add dev tap1 parent ffff: protocol all prio 2 u32 match u32 0 0 action mirred egress redirect dev tap0",
			[]int{other.Index}, nil},
		{"filter add dev tap1 parent ffff: protocol all prio 3 u32 match u32 0 0 action mirred ingress redirect dev tap0",
			[]int{other.Index}, []int{other.Index}},
	} {
		if out, err := exec.Command("tc", strings.Fields(c.command)...).CombinedOutput(); err != nil {
			t.Fatalf("tc %s: %v\n%s", c.command, err, out)
		}
		if out, in, err := Redirects(tap); err != nil || !slices.Equal(out, c.out) || !slices.Equal(in, c.in) {
			t.Errorf("%s: %v and %v, %v; expected %v and %v", c.command, out, in, err, c.out, c.in)
		}
	}
}
