package plan

import (
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// threadKnobs are about kernel threads that only some kernels have.
var threadKnobs = []string{"rt.ksoftirqd", "rt.rcuc", "rt.rcub", "rt.ktimers"}

// awaitBoot lists the realtime knobs that have nothing to set on the kernel that runs and may have on the one that is
// booted next: threads of RCU's callbacks and of timers exist only where its kind and its arguments make them.
func (p *Plan) awaitBoot(h *facts.Host, catalogue []*knob.Knob) {
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
}
