package plan

import (
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// threadKnobs are about kernel threads that not every kernel has.
var threadKnobs = []string{"rt.ksoftirqd", "rt.rcuc", "rt.rcub", "rt.ktimers"}

// addAfterBoot lists realtime knobs that have nothing to set on the running kernel but may have on the next: RCU
// callback and timer threads depend on the kernel's build and arguments, and limits of realtime threads stay until
// their CPUs are set aside.
func (p *Plan) addAfterBoot(h *facts.Host, catalogue []*knob.Knob) {
	if p.Tier != goal.Realtime || !slices.ContainsFunc(p.Changes,
		func(c Change) bool { return c.Address.Kind.AtBoot() && c.Needs.Kind == setting.HostReboot }) {
		return
	}
	var ids []string
	for _, k := range catalogue {
		if slices.Contains(threadKnobs, k.ID) && len(k.Where(h)) == 0 {
			ids = append(ids, k.ID)
		}
	}
	if len(ids) > 0 {
		p.Later = append(p.Later, Later{After: setting.Reboot().String(), IDs: ids, Why: "the kernel that runs has " +
			"nothing of them, the next one may: go on then with 'mpps apply --resume'"})
	}
	if len(knob.Exposed(h)) > 0 {
		p.Later = append(p.Later, Later{After: setting.Reboot().String(), IDs: []string{"rt.throttling",
			"rt.fair_server"}, Why: "realtime vCPUs run on CPUs that are not set aside yet, where this limit is all " +
			"that lets the host run: go on then with 'mpps apply --resume'"})
	}
}
