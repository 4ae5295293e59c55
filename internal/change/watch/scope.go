package watch

import (
	"fmt"
	"slices"

	"mpps/internal/advise/knob"
	"mpps/internal/model/setting"
)

// IsolatedCPUs returns the CPUs that should be quiet: those isolated now and those isolated at an earlier look. Former
// realtime CPUs are still checked, so that no finding ends just because nobody looks any more.
func (w *Watcher) IsolatedCPUs(now setting.CPUSet) setting.CPUSet { return w.isolated.Or(now) }

// checkIsolation adds a finding for CPUs that are no longer isolated, and returns an event for new ones.
func (w *Watcher) checkIsolation(l *Look) []Event {
	if !l.Saw[Isolated] {
		return nil
	}
	var events []Event
	before, from := w.isolated, w.from
	if come := l.Isolated.Minus(before); len(come) > 0 {
		w.isolated, w.from = before.Or(l.Isolated), l.From
		if w.judged {
			events = append(events, l.changed("isolation.came", "CPUs set aside", withSource(before, from),
				withSource(l.Isolated, l.From), "", knob.Info))
		}
	}
	w.judged = true
	if gone := w.isolated.Minus(l.Isolated); len(gone) > 0 {
		l.Findings = append(slices.Clip(l.Findings), Finding{
			Source: Isolated, Code: "isolation.lost", Object: "CPUs set aside", From: withSource(w.isolated, w.from),
			To: withSource(l.Isolated, l.From), Severity: knob.High,
			Hint: fmt.Sprintf("nothing keeps other work off %s any more: 'mpps realtime check --cpus %s' says what "+
				"is missing, 'mpps plan --latency 20us --cpus %s' mends it; a watch that is restarted takes the "+
				"host as it is", cpuText(gone), gone, gone),
		})
	}
	return events
}

// withSource returns a CPU set and what isolated it.
func withSource(cpus setting.CPUSet, from string) string {
	if len(cpus) == 0 {
		return "none"
	}
	if from == "" {
		return cpus.String()
	}
	return cpus.String() + " (" + from + ")"
}

func cpuText(cpus setting.CPUSet) string {
	if len(cpus) == 1 {
		return "CPU " + cpus.String()
	}
	return "CPUs " + cpus.String()
}
