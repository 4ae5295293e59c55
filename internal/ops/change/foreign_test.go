package change

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/site"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// untuned is a host on which much is off, and what is made to last is allowed.
func untuned() *ops.Host {
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 2, Queues: 4, Guests: 2})
	h.Lasting = &facts.Lasting{Systemd: true, Program: "/usr/bin/mpps"}
	h.Readings = facts.Readings{}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Value("1")
	}
	for _, a := range lasting.Addresses() {
		h.Readings[a] = setting.Missing("not there")
	}
	return &ops.Host{Facts: h, Site: new(site.File)}
}

// TestForgedPlan: a change is made only if this version plans it for the host and the plan's goal, whatever the file
// calls it. A plan as it was made, a part of it, and one whose changes are made already pass.
func TestForgedPlan(t *testing.T) {
	env := &ops.Env{Root: t.TempDir(), Out: ops.Deaf{}}
	target := Target{Goal: goal.Unlimited()}
	udev := plan.Change{ID: "net.backlog", Address: setting.Of(setting.File, "etc/udev/rules.d/99-x.rules"),
		To: setting.Value(`RUN+="/tmp/x"`), Want: setting.Exact(`RUN+="/tmp/x"`), Risk: goal.None}
	rooted := func(id string, a setting.Address, value string) plan.Change {
		return plan.Change{ID: id, Address: a, To: setting.Value(value), Want: setting.Exact(value), Risk: goal.None}
	}
	for name, c := range map[string]struct {
		forge func(*plan.Plan)
		names string // in the refusal; empty: none
	}{
		"as it was made":     {func(*plan.Plan) {}, ""},
		"without what lasts": {func(p *plan.Plan) { lasting.Strip(p) }, ""},
		"a udev rule":        {func(p *plan.Plan) { p.Changes = append(p.Changes, udev) }, "99-x.rules"},
		"a sysctl of no knob": {func(p *plan.Plan) {
			p.Changes = append(p.Changes, rooted("net.backlog", setting.Of(setting.Sysctl, "kernel.core_pattern"), "|/tmp/x"))
		}, "kernel.core_pattern"},
		"a kernel argument": {func(p *plan.Plan) {
			p.Changes = append(p.Changes, rooted("boot.args", setting.Of(setting.KernelArg, "init"), "/tmp/x"))
		}, "init"},
		"an unknown ID": {func(p *plan.Plan) { p.Changes[0].ID = "net.new" }, "net.new"},
		"another value": {func(p *plan.Plan) {
			i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Address.Kind == setting.Sysctl })
			p.Changes[i].To, p.Changes[i].Want = setting.Value("7"), setting.Exact("7")
		}, "sysctl:"},
		"more than the value shows": {func(p *plan.Plan) { p.Changes[0].To.Verbatim = "<qemu:arg value='x'/>" }, ":"},
		"less risk than it has": {func(p *plan.Plan) {
			i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Risk != goal.None })
			p.Changes[i].Risk = goal.None
		}, ":"},
		"a line more in a file": {func(p *plan.Plan) {
			i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Address.Path == lasting.SysctlFile })
			text := p.Changes[i].To.Value + "kernel.core_pattern = |/tmp/x\n"
			p.Changes[i].To, p.Changes[i].Want = setting.Value(text), setting.Exact(text)
		}, lasting.SysctlFile},
		"another program in the service": {func(p *plan.Plan) {
			i := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Address.Path == lasting.UnitFile })
			text := strings.ReplaceAll(p.Changes[i].To.Value, "/usr/bin/mpps", "/tmp/mpps")
			p.Changes[i].To, p.Changes[i].Want = setting.Value(text), setting.Exact(text)
		}, lasting.UnitFile},
	} {
		h := untuned()
		p := must.Get(Plan(env, h, target))(t)
		c.forge(p)
		p.Seal()
		switch err := CheckForeign(env, p, h); {
		case (err == nil) != (c.names == ""):
			t.Errorf("%s: %v", name, err)
		case err != nil && !strings.Contains(err.Error(), c.names):
			t.Errorf("%s: %v does not name %s", name, err, c.names)
		}
	}
}

// TestPartOfAPlan: each half of a plan passes, with files that make that half last.
func TestPartOfAPlan(t *testing.T) {
	env := &ops.Env{Root: t.TempDir(), Out: ops.Deaf{}}
	h := untuned()
	for half := range 2 {
		p := must.Get(Plan(env, h, Target{Goal: goal.Unlimited(), RuntimeOnly: true}))(t)
		n := 0
		p.Changes = slices.DeleteFunc(p.Changes, func(plan.Change) bool { n++; return n%2 == half })
		must.Do(t, lasting.Add(p, h.Facts))
		must.Succeed(t, CheckForeign(env, p, h), "half %d", half)
	}
}

// TestMadeAlready: a change that writes nothing is let through, whoever planned it.
func TestMadeAlready(t *testing.T) {
	env := &ops.Env{Root: t.TempDir(), Out: ops.Deaf{}}
	h := untuned()
	p := must.Get(Plan(env, h, Target{Goal: goal.Unlimited()}))(t)
	for _, c := range p.Changes {
		h.Facts.Readings[c.Address] = c.To
	}
	p.Changes[0].ID = "net.new"
	must.Try(t, CheckForeign(env, p, h))
}

// TestPlanOfLosses: a plan made of watched counters passes on the host where nobody watches them now, and the same
// changes without them are foreign.
func TestPlanOfLosses(t *testing.T) {
	env := &ops.Env{Root: t.TempDir(), Out: ops.Deaf{}}
	quiet := untuned()
	losing := *quiet.Facts
	losing.Interval = &facts.Interval{Seconds: 2, Devices: map[string]map[string]uint64{},
		Softnet: []facts.Softnet{{CPU: 0, Processed: 2_000_000, Dropped: 30_000, Squeezed: 9_000, Rounds: 10_000}}}
	for _, n := range losing.NICs {
		losing.Interval.Devices[n.Name] = map[string]uint64{"rx_missed_errors": 5_000, "rx_dropped": 5_000, "rx_errors": 0}
	}
	p := must.Get(Plan(env, &ops.Host{Facts: &losing, Site: quiet.Site}, Target{Goal: goal.Unlimited()}))(t)
	if at := p.Watched.Devices[losing.NICs[0].Name]; len(at) != 2 {
		t.Errorf("found %v, want the two counters that increased", at)
	}
	must.Succeed(t, CheckForeign(env, p, quiet), "refused its own plan")
	must.Hold(t, quiet.Facts.Interval == nil, "the host's facts were changed")
	p.Watched = nil
	must.Refuse(t, CheckForeign(env, p, quiet), "changes by losses that nobody saw passed")
}
