package plan

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// pools gives a host and its nodes the same pools.
func pools(h *facts.Host, all ...facts.Hugepages) {
	h.Topology.Hugepages = all
	for i := range h.Topology.Nodes {
		h.Topology.Nodes[i].Hugepages = all
	}
}

// TestHugePagesNeedAPool: a guest's definition gets huge pages where a pool has room now. Where the next boot makes the
// pool they come after it, and memory is not locked before; where nothing makes one the plan says why it leaves them
// out.
func TestHugePagesNeedAPool(t *testing.T) {
	at, lock := setting.Of(setting.Domain, "rt1", "memoryBacking/hugepages"),
		setting.Of(setting.Domain, "rt1", "memoryBacking/locked")
	booted := func(h *facts.Host) { h.Readings[poolArgument] = setting.Value("hugepagesz=1G hugepages=0:5") }
	for name, c := range map[string]struct {
		change func(*facts.Host)
		want   string // planned, later, left out
		to     string
		why    string
	}{
		"the plan makes the pool":                     {func(*facts.Host) {}, "later", "", "--resume"},
		"the pool waits for the boot already":         {booted, "later", "", "--resume"},
		"that boot is over, and others have the pool": {func(h *facts.Host) { booted(h); h.Kernel.CommandLine += " hugepagesz=1G hugepages=0:5" }, "left out", "", "no pool"},
		"little memory beside the pool that will be": {func(h *facts.Host) { h.Topology.Nodes[0].Memory = 10 << 30 },
			"later", "", "3.0 GiB of ordinary memory are left for its 4.0 GiB"},
		"the processor has no such pages, and no pool": {func(h *facts.Host) {
			pools(h, facts.Hugepages{Size: 2 << 20})
		}, "left out", "", "no pool"},
		"the memory is too small for a pool": {func(h *facts.Host) { h.Topology.Nodes[0].Memory = 1 << 30 }, "left out",
			"", "no pool"},
		"a kernel that spreads pages over small nodes": {func(h *facts.Host) {
			h.Kernel.Release = "5.14.0-1"
			h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{ID: 7, Memory: 4 << 30})
		}, "left out", "", ""},
		"a newer kernel beside a small node": {func(h *facts.Host) {
			h.Kernel.Release = "5.16.0-1"
			h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{ID: 7, Memory: 4 << 30})
		}, "later", "", ""},
		"small pages, and enough of them": {func(h *facts.Host) {
			pools(h, facts.Hugepages{Size: 2 << 20, Total: 1 << 16, Free: 1 << 16})
		}, "planned", "default", ""},
		"the pool is not of the default size": {func(h *facts.Host) {
			h.Topology.DefaultPage = 2 << 20
			pools(h, facts.Hugepages{Size: 2 << 20}, facts.Hugepages{Size: 1 << 30, Total: 5, Free: 5})
		}, "planned", "1GiB", ""},
		"the larger of two pools is of the default one": {func(h *facts.Host) {
			h.Topology.DefaultPage = 1 << 30
			pools(h, facts.Hugepages{Size: 2 << 20, Total: 1 << 12, Free: 1 << 12},
				facts.Hugepages{Size: 1 << 30, Total: 5, Free: 5})
		}, "planned", "default", ""},
	} {
		h := realtimeHost()
		c.change(h)
		p := must.Get(Make(h, realtimeGoal(), knob.Catalogue(), nil))(t)
		got, why := "", ""
		if i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Address == at }); i >= 0 {
			got = "planned"
			must.Equal(t, p.Changes[i].To.Value, c.to, "%s", name)
		}
		if i := slices.IndexFunc(p.Skipped, func(s Skipped) bool { return s.Address == at }); i >= 0 {
			got, why = got+"left out", p.Skipped[i].Why
		}
		if i := slices.IndexFunc(p.Later, func(l Later) bool { return slices.Contains(l.IDs, pagesKnob) }); i >= 0 {
			got, why = got+"later", p.Later[i].Why
			if l := p.Later[i]; l.After != "reboot of the host" || !slices.Contains(l.IDs, lockKnob) ||
				slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address == lock }) {
				t.Errorf("%s: later %+v; locked memory waits too", name, l)
			}
		}
		must.Hold(t, got == c.want && strings.Contains(why, c.why),
			"%s: %q (%s), expected %q with %q", name, got, why, c.want, c.why)
	}
}

// TestRealtimeGroups: a kernel with shares of realtime for control groups refuses a priority to libvirt's new groups
// unless realtime threads as a whole have no limit: without that in force or in the plan, the priority is left out.
func TestRealtimeGroups(t *testing.T) {
	at := setting.Of(setting.Domain, "rt1", "vcpusched/1-3")
	limit := setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")
	for name, c := range map[string]struct {
		groups  facts.Answer
		limit   setting.Reading
		planned bool
		warned  bool
	}{
		"no such shares":                {facts.No, setting.Missing("not there"), true, false},
		"not known":                     {"", setting.Missing("not there"), true, false},
		"the plan takes the limit away": {facts.Yes, setting.Value("950000"), true, true},
		"there is no limit":             {facts.Yes, setting.Value("-1"), true, false},
		"the limit cannot be set": {facts.Yes, setting.Reading{State: setting.Known, Value: "950000",
			ReadOnly: true, Why: "a container"}, false, false},
		"the limit is not known":             {facts.Yes, setting.CouldNotTell("not read"), false, false},
		"no shares, and a limit that stands": {facts.No, setting.CouldNotTell("not read"), true, false},
	} {
		h := realtimeHost()
		h.Kernel.RTGroups, h.Readings[limit] = c.groups, c.limit
		p := must.Get(Make(h, realtimeGoal(), knob.Catalogue(), nil))(t)
		i := slices.IndexFunc(p.Changes, func(c Change) bool { return c.Address == at })
		skipped := slices.ContainsFunc(p.Skipped, func(s Skipped) bool {
			return s.Address == at && strings.Contains(s.Why, "CONFIG_RT_GROUP_SCHED")
		})
		if planned := i >= 0; planned != c.planned || skipped == c.planned {
			t.Errorf("%s: planned %v, left out with a reason %v", name, planned, skipped)
			continue
		}
		if i >= 0 && (p.Changes[i].Warning != "") != c.warned {
			t.Errorf("%s: warning %q", name, p.Changes[i].Warning)
		}
	}
}
