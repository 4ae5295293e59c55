package watch

import (
	"fmt"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/realtime"
	"mpps/internal/change/apply"
)

// Rows are the applied values that are not as applied, of 'mpps verify'. A value that something has reset may be put
// back by mpps-restore.service within seconds: it must be off in two looks. Kernel arguments and files nobody puts
// back.
func Rows(s apply.Status) (all []Finding, off int) {
	for _, r := range s.Rows {
		f := Finding{Source: Values, Code: "value." + string(r.State), Object: r.Address.String(), From: r.Wanted,
			To: r.Found, Severity: knob.High, Twice: !r.Address.Kind.AtBoot()}
		switch r.State {
		case apply.Drifted, apply.Owned, apply.ReadOnly, apply.Unsupported:
			off++
			f.Hint = fmt.Sprintf("%s; 'mpps restore --insist' puts values back that it keeps, 'mpps plan' plans the "+
				"rest again ('mpps explain %s')", r.Why, r.ID)
			if r.State == apply.ReadOnly || r.State == apply.Unsupported {
				f.Hint = r.Why
			}
			all = append(all, f)
		}
	}
	switch s.State {
	case apply.IsInterrupted, apply.IsInDoubt, apply.IsFailed:
		all = append(all, Finding{Source: Values, Code: "value." + string(s.State), Object: "transaction", To: s.Why,
			Hint: "'mpps rollback' completes it", Severity: knob.High})
	}
	return all, off
}

// fromBoots are kinds of package realtime that the boot loader's files are judged by.
const fromBoots = "lists.next_boot"

// happens reports whether a kind of finding is of what was seen to happen: such things come and go.
func happens(id string) bool {
	switch id {
	case "irq.came", "irq.tick", "irq.calls", "irq.nmi", "house.busy":
		return true
	}
	return strings.HasPrefix(id, "threads.") && id != "threads.priority"
}

// Realtime are the findings of a check of the CPUs that should be quiet.
func Realtime(r *realtime.Report) []Finding {
	var all []Finding
	for _, f := range r.Findings {
		found := Finding{Source: Isolated, Code: f.ID, Object: f.Object, To: f.Found, Hint: f.Do, Severity: f.Severity}
		switch {
		case happens(f.ID):
			found.Source, found.Twice = Observed, true
		case f.ID == fromBoots:
			found.Source = Boots
		// the kernel moves one within its mask; a guest that is being started is pinned thread by thread
		case f.ID == "irq.aimed" || strings.HasPrefix(f.ID, "guest."):
			found.Twice = true
		}
		all = append(all, found)
	}
	return all
}
