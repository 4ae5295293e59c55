package watch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
)

// Metrics returns the state in Prometheus's text format, for node_exporter's textfile collector or an HTTP listener.
func (w *Watcher) Metrics(version string) string {
	var b strings.Builder
	family := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	one := func(name, kind, help string, value float64) {
		family(name, kind, help)
		fmt.Fprintf(&b, "%s %s\n", name, number(value))
	}
	l := w.last
	one("mpps_realtime_ok", "gauge", "Whether CPUs are set aside, the last look saw everything and nothing of "+
		"severity medium or worse stands: 1 if so, 0 if not.", boolValue(w.OK()))
	one("mpps_realtime_cpus", "gauge", "Number of CPUs that should be quiet: set aside now, or at an earlier look.",
		float64(len(w.isolated)))
	family("mpps_realtime_findings", "gauge", "Number of findings that stand, by code and severity.")
	type class struct {
		code     string
		severity knob.Severity
	}
	counts := map[class]int{}
	for _, f := range w.Standing() {
		counts[class{f.Code, f.Severity}]++
	}
	keys := slices.SortedFunc(maps.Keys(counts),
		func(a, b class) int { return cmp.Or(cmp.Compare(a.code, b.code), cmp.Compare(a.severity, b.severity)) })
	for _, c := range keys {
		fmt.Fprintf(&b, "mpps_realtime_findings{code=%q,severity=%q} %d\n", c.code, c.severity.String(), counts[c])
	}
	one("mpps_applied_values", "gauge", "Number of values that were applied and stand in the journal.",
		float64(l.Values))
	one("mpps_drifted_values", "gauge", "Number of applied values that are not as applied.", float64(l.Drifted))
	family("mpps_watch_source_success", "gauge", "Whether a part of the last look could be seen: 1 if so, 0 if not.")
	for _, source := range []Source{Values, Isolated, Observed, Boots, Services} {
		if _, failed := l.Unseen[source]; failed || l.Saw[source] {
			fmt.Fprintf(&b, "mpps_watch_source_success{source=%q} %s\n", source, number(boolValue(!failed)))
		}
	}
	family("mpps_watch_events_total", "counter", "Events that were told, what began or changed, by code.")
	for _, code := range slices.Sorted(maps.Keys(w.events)) {
		fmt.Fprintf(&b, "mpps_watch_events_total{code=%q} %d\n", code, w.events[code])
	}
	one("mpps_watch_pause_seconds", "gauge", "How long it is to the next look.", l.Pause.Seconds())
	one("mpps_watch_looks_total", "counter", "Looks that were taken.", float64(w.looks))
	one("mpps_watch_failed_looks_total", "counter", "Looks of which a part could not be seen.", float64(w.failed))
	one("mpps_watch_last_look_timestamp_seconds", "gauge", "When the last look ended, in seconds since 1970.",
		float64(l.At.UnixMilli())/1000)
	one("mpps_watch_look_duration_seconds", "gauge", "How long the last look took, without watching threads and "+
		"interrupts.", l.Took.Seconds())
	one("mpps_watch_cpu_seconds_total", "counter", "CPU time that all looks took, with the programs that they started.",
		w.cost.Seconds())
	family("mpps_build_info", "gauge", "The version of mpps that watches; always 1.")
	fmt.Fprintf(&b, "mpps_build_info{version=%q} 1\n", version)
	return b.String()
}

func boolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// number formats a value for Prometheus, without trailing zeros.
func number(v float64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.6f", v), "0"), ".")
}
