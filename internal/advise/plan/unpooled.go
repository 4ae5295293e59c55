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

// dropUnpooled removes huge pages from the definitions of guests for which no pool has room: such a guest would not
// start again. If this plan or the next boot makes the pool, they are planned after that boot, otherwise skipped. What
// the site file asks for stays.
func (p *Plan) dropUnpooled(h *facts.Host, report audit.Report) {
	if !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.ID == pagesKnob }) {
		return
	}
	v := knob.NewView(h, p.Goal).WithPlacement(report.Place)
	made, own := p.poolComes(h, report)
	var waiting []string
	fits := func(c Change) bool {
		g := guestNamed(h, c.Address.Object())
		return c.ID != pagesKnob || g == nil || askedBySite(report, c) || v.PoolHolds(g)
	}
	if made {
		p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
			if fits(c) {
				return false
			}
			waiting = append(waiting, c.Address.Object())
			return true
		})
	}
	p.skip(func(c Change) string {
		if fits(c) {
			return ""
		}
		return fmt.Sprintf("no pool of huge pages has room for its memory (%s), and boot.hugepages makes no other "+
			"('mpps audit' says why): it would not start again",
			v.PoolWords(guestNamed(h, c.Address.Object()).MemoryNodes))
	})
	// Memory that the pool will hold is not locked before that boot either: next to the pool there may be too little.
	locked := map[string]int{}
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		name := c.Address.Object()
		out := c.ID == lockKnob && slices.Contains(waiting, name) && !askedBySite(report, c)
		if out {
			locked[name]++
		}
		return out
	})
	for _, name := range waiting {
		later := Later{After: setting.Reboot().String(), IDs: []string{pagesKnob}}
		for range locked[name] {
			later.IDs = append(later.IDs, lockKnob)
		}
		later.Why = "the pool comes with that boot, and guest " + name + " could not be started until then if its " +
			"definition asked for it: go on then with 'mpps apply --resume'"
		g := guestNamed(h, name)
		if left, starts := v.OrdinaryLeft(g); own && !starts {
			later.Why += fmt.Sprintf(". Beside the pool %.1f GiB of ordinary memory are left for its %.1f GiB: do "+
				"not let it start by itself before (virsh autostart --disable %s)",
				float64(left)/(1<<30), float64(g.Memory)/(1<<30), name)
		}
		p.Later = append(p.Later, later)
	}
}

// poolComes reports whether the next boot makes a pool that is not there now, and whether its size is the catalogue's
// own.
func (p *Plan) poolComes(h *facts.Host, report audit.Report) (comes, own bool) {
	at := slices.IndexFunc(report.Findings, func(f audit.Finding) bool {
		return f.ID == poolKnob && f.Address == poolArgument
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

// dropRefusedRT removes realtime priorities from the definitions of guests if the kernel refuses them in the cgroups
// that libvirt makes, and this plan does not lift the limit that causes it: the guest would not start again.
func (p *Plan) dropRefusedRT(h *facts.Host, report audit.Report) {
	limit := setting.Of(setting.Sysctl, "kernel.sched_rt_runtime_us")
	lifted := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Address == limit && c.To.Value == "-1" })
	if lifted || !knob.NewView(h, p.Goal).RefusesRTGroups() {
		return
	}
	p.skip(func(c Change) string {
		if c.ID != "domain.vcpusched" || c.To.State != setting.Known || askedBySite(report, c) {
			return ""
		}
		return "the kernel gives control groups shares of realtime (CONFIG_RT_GROUP_SCHED), libvirt's have none, and " +
			"this plan does not set kernel.sched_rt_runtime_us to -1 (rt.throttling): the guest would not start again"
	})
}

func guestNamed(h *facts.Host, name string) *facts.Guest {
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == name })
	if at < 0 {
		return nil
	}
	return &h.Guests[at]
}

// askedBySite reports whether the site file asks for a change.
func askedBySite(report audit.Report, c Change) bool {
	return slices.ContainsFunc(report.Findings, func(f audit.Finding) bool {
		return f.ID == c.ID && f.Address == c.Address && f.Site != ""
	})
}
