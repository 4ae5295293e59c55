package watch

import (
	"fmt"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/realtime"
	"mpps/internal/change/apply"
)

// AppliedFindings returns a finding for each applied value that is not as applied, as in 'mpps verify', and their
// number. mpps-restore.service may restore a reset value within seconds, so the finding needs two looks; kernel
// arguments and files are not restored, so one look suffices.
func AppliedFindings(s apply.Status) (all []Finding, off int) {
	for _, r := range s.Rows {
		hint := r.Why
		switch r.State {
		case apply.Drifted, apply.Owned:
			hint = fmt.Sprintf("%s; 'mpps restore --insist' puts values back that it keeps, 'mpps plan' plans the "+
				"rest again ('mpps explain %s')", r.Why, r.ID)
		case apply.ReadOnly, apply.Unsupported:
		default:
			continue
		}
		off++
		all = append(all, Finding{Source: Values, Code: "value." + string(r.State), Object: r.Address.String(),
			From: r.Wanted, To: r.Found, Hint: hint, Severity: knob.High, Twice: !r.Address.Kind.AtBoot()})
	}
	switch s.State {
	case apply.IsInterrupted, apply.IsInDoubt, apply.IsFailed:
		all = append(all, Finding{Source: Values, Code: "value." + string(s.State), Object: "transaction", To: s.Why,
			Hint: "'mpps rollback' completes it", Severity: knob.High})
	}
	return all, off
}

// nextBootCode is the kind of finding in package realtime that comes from the boot loader's files.
const nextBootCode = "lists.next_boot"

// transient reports whether a kind of finding is an observed event, which comes and goes.
func transient(id string) bool {
	switch id {
	case "irq.came", "irq.tick", "irq.calls", "irq.nmi", "house.busy":
		return true
	}
	return strings.HasPrefix(id, "threads.") && id != "threads.priority"
}

// RealtimeFindings returns the findings of a check of the isolated CPUs.
func RealtimeFindings(r *realtime.Report) []Finding {
	var all []Finding
	for _, f := range r.Findings {
		found := Finding{Source: Isolated, Code: f.ID, Object: f.Object, To: f.Found, Hint: f.Do, Severity: f.Severity}
		switch {
		case transient(f.ID):
			found.Source, found.Twice = Observed, true
		case f.ID == nextBootCode:
			found.Source = Boots
		// the kernel moves interrupts within their mask; a starting guest is pinned thread by thread
		case f.ID == "irq.aimed" || strings.HasPrefix(f.ID, "guest."):
			found.Twice = true
		}
		all = append(all, found)
	}
	return all
}
