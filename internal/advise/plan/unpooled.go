package plan

import (
	"fmt"
	"slices"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

const (
	poolKnob  = "boot.hugepages"
	pagesKnob = "domain.hugepages"
	lockKnob  = "domain.locked"
)

var poolArgument = setting.Of(setting.KernelArg, "hugepagesz+hugepages")

// unpooled takes huge pages out of the definitions of guests for which no pool has room: such a guest would not start
// again. Where this plan or what waits for the next boot makes the pool, they are planned after that boot; else they
// are left out. What a person asked for in the site file stays.
func (p *Plan) unpooled(h *facts.Host, report audit.Report) {
	v := knob.NewView(h, p.Goal)
	made, own := p.poolComes(h, report)
	var waiting []string
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		g := named(h, c.Address.Object())
		if c.ID != pagesKnob || g == nil || asked(report, c) || v.PoolHolds(g) {
			return false
		}
		if made {
			waiting = append(waiting, g.Name)
			return true
		}
		p.Skipped = append(p.Skipped, Skipped{
			ID: c.ID, Address: c.Address, Found: c.From.String(), Wanted: c.To.String(),
			Why: fmt.Sprintf("no pool of huge pages has room for its memory (%s), and boot.hugepages makes no other "+
				"('mpps audit' says why): it would not start again", v.PoolWords(g.MemoryNodes)),
		})
		return true
	})
	for _, name := range waiting {
		later := Later{After: setting.Reboot().String(), IDs: []string{pagesKnob}}
		// Nor is memory locked before that which the pool will hold: beside the pool there may be too little of it.
		p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
			out := c.ID == lockKnob && c.Address.Object() == name && !asked(report, c)
			if out {
				later.IDs = append(later.IDs, lockKnob)
			}
			return out
		})
		later.Why = "the pool comes with that boot, and guest " + name + " could not be started until then if its " +
			"definition asked for it: go on then with 'mpps apply --resume'"
		g := named(h, name)
		if left, starts := v.OrdinaryLeft(g); own && !starts {
			later.Why += fmt.Sprintf(". Beside the pool %.1f GiB of ordinary memory are left for its %.1f GiB: do "+
				"not let it start by itself before (virsh autostart --disable %s)",
				float64(left)/(1<<30), float64(g.Memory)/(1<<30), name)
		}
		p.Later = append(p.Later, later)
	}
}

// poolComes reports whether the next boot makes a pool that is not there now, and whether as the catalogue wants it.
func (p *Plan) poolComes(h *facts.Host, report audit.Report) (comes, own bool) {
	at := slices.IndexFunc(report.Findings, func(f audit.Finding) bool {
		return f.ID == poolKnob &&
			f.Address == poolArgument
	})
	if at < 0 {
		return false, false
	}
	f := report.Findings[at]
	if slices.ContainsFunc(p.Changes, func(c Change) bool { return c.ID == poolKnob && c.Address == poolArgument }) {
		return true, f.Site == ""
	}
	running := setting.ParseCommandLine(h.Kernel.CommandLine).Get(poolArgument.Path)
	return f.State == audit.OK && f.Reading.State == setting.Known && !running.Same(f.Reading), f.Site == ""
}

// shareless takes realtime priorities out of the definitions of guests where the kernel refuses them to the groups that
// libvirt makes, and this plan does not take away the limit because of which it does: the guest would not start again.
func (p *Plan) shareless(h *facts.Host, report audit.Report) {
	limit := setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")
	lifted := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address == limit && c.To.Value == "-1" })
	if lifted || !knob.NewView(h, p.Goal).RefusesRTGroups() {
		return
	}
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		if c.ID != "domain.vcpusched" || c.To.State != setting.Known || asked(report, c) {
			return false
		}
		p.Skipped = append(p.Skipped, Skipped{
			ID: c.ID, Address: c.Address, Found: c.From.String(), Wanted: c.To.String(),
			Why: "the kernel gives control groups shares of realtime (CONFIG_RT_GROUP_SCHED), libvirt's have none, " +
				"and this plan does not set kernel.sched_rt_runtime_us to -1 (rt.throttling): the guest would not " +
				"start again",
		})
		return true
	})
}

// named is the guest of a name; nil where there is none.
func named(h *facts.Host, name string) *facts.Guest {
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == name })
	if at < 0 {
		return nil
	}
	return &h.Guests[at]
}

// asked reports whether the site file asks for a change.
func asked(report audit.Report, c Change) bool {
	return slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
		return f.ID == c.ID &&
			f.Address == c.Address && f.Site != ""
	})
}
