package watch

import (
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

// Aside are the CPUs that should be quiet: those that are set aside at one look, and those that were at an earlier one.
// What was realtime is judged on as if it still were, so that nothing is said to end because nobody looks any more.
func (w *Watcher) Aside(now setting.CPUSet) setting.CPUSet { return w.aside.Or(now) }

// scope adds the finding that CPUs are not set aside any more, and tells of those that came.
func (w *Watcher) scope(l *Look) []Event {
	if !l.Saw[Isolated] {
		return nil
	}
	var events []Event
	before, from := w.aside, w.from
	if come := l.Aside.Minus(before); len(come) > 0 {
		w.aside, w.from = before.Or(l.Aside), l.From
		if w.judged {
			events = append(events, Event{
				Schema: Schema, Time: l.At, Host: l.Host, Event: Changed, Code: "isolation.came",
				Object: "CPUs set aside",
				From:   setBy(before, from), To: setBy(l.Aside, l.From), Severity: knob.Info,
			})
		}
	}
	w.judged = true
	if gone := w.aside.Minus(l.Aside); len(gone) > 0 {
		l.Findings = append(slices.Clip(l.Findings), Finding{
			Source: Isolated, Code: "isolation.lost", Object: "CPUs set aside", From: setBy(w.aside, w.from),
			To: setBy(l.Aside, l.From), Severity: knob.High,
			Hint: fmt.Sprintf("nothing keeps other work off %s any more: 'mpps realtime check --cpus %s' says what "+
				"is missing, 'mpps plan --latency 20us --cpus %s' mends it; a watch that is started anew takes the "+
				"host as it is", named(gone), gone, gone),
		})
	}
	return events
}

// setBy is a set of CPUs with who set it aside.
func setBy(cpus setting.CPUSet, from string) string {
	if len(cpus) == 0 {
		return "none"
	}
	if from == "" {
		return cpus.String()
	}
	return cpus.String() + " (" + from + ")"
}

func named(cpus setting.CPUSet) string {
	if len(cpus) == 1 {
		return "CPU " + cpus.String()
	}
	return "CPUs " + cpus.String()
}
