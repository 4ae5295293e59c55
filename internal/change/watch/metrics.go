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
		fmt.Fprintf(&b, "mpps_realtime_findings{code=%s,severity=%s} %d\n", label(c.code), label(c.severity.String()),
			counts[c])
	}
	one("mpps_applied_values", "gauge", "Number of values that were applied and stand in the journal.",
		float64(l.Values))
	one("mpps_drifted_values", "gauge", "Number of applied values that are not as applied.", float64(l.Drifted))
	family("mpps_values", "gauge", "Number of applied values, by state as in 'mpps verify': waiting for a restart, "+
		"unknown if it could not be read.")
	for _, state := range slices.Sorted(maps.Keys(l.States)) {
		fmt.Fprintf(&b, "mpps_values{state=%s} %d\n", label(state), l.States[state])
	}
	family("mpps_findings", "gauge", "Number of problems that stand, by severity.")
	for _, severity := range knob.Severities() {
		n := 0
		for _, f := range w.Standing() {
			if f.Severity.String() == severity {
				n++
			}
		}
		fmt.Fprintf(&b, "mpps_findings{severity=%s} %d\n", label(severity), n)
	}
	if l.Path != nil {
		l.Path.metrics(&b, family, one)
	}
	family("mpps_watch_source_success", "gauge", "Whether a part of the last look could be seen: 1 if so, 0 if not.")
	for _, source := range []Source{Values, Isolated, Observed, Boots, Services} {
		if _, failed := l.Unseen[source]; failed || l.Saw[source] {
			fmt.Fprintf(&b, "mpps_watch_source_success{source=%s} %s\n", label(string(source)),
				number(boolValue(!failed)))
		}
	}
	family("mpps_watch_events_total", "counter", "Events that were told, what began or changed, by code.")
	for _, code := range slices.Sorted(maps.Keys(w.events)) {
		fmt.Fprintf(&b, "mpps_watch_events_total{code=%s} %d\n", label(code), w.events[code])
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
	fmt.Fprintf(&b, "mpps_build_info{version=%s} 1\n", label(version))
	return b.String()
}

// metrics writes what a look saw of the packet path. A guest has at most 9 series.
func (p *Path) metrics(b *strings.Builder, family func(name, kind, help string),
	one func(name, kind, help string, value float64)) {
	guests := unique(p.Guests)
	one("mpps_guests", "gauge", "Number of running guests.", float64(len(guests)))
	one("mpps_unseen_parts", "gauge", "Parts of the host that could not be read.", float64(p.Unseen))
	family("mpps_guest_info", "gauge", "A running guest, who runs it and its ID there; always 1.")
	for _, g := range guests {
		fmt.Fprintf(b, "mpps_guest_info{guest=%s,platform=%s,id=%s} 1\n", label(g.Name), label(g.Platform), label(g.ID))
	}
	counts := func(name, help string, to, from func(PlaceCount) uint64) {
		family(name, "counter", help)
		for _, g := range guests {
			for _, c := range g.Places {
				fmt.Fprintf(b, "%s{guest=%s,place=%s,direction=\"to_guest\"} %d\n", name, label(g.Name),
					label(c.Place), to(c))
				fmt.Fprintf(b, "%s{guest=%s,place=%s,direction=\"from_guest\"} %d\n", name, label(g.Name),
					label(c.Place),
					from(c))
			}
		}
	}
	counts("mpps_guest_packets_total", "Packets of a guest, over all of its taps or functions.",
		func(c PlaceCount) uint64 { return c.ToGuest }, func(c PlaceCount) uint64 { return c.FromGuest })
	counts("mpps_guest_dropped_packets_total", "Packets of a guest that were dropped at its taps or functions.",
		func(c PlaceCount) uint64 { return c.ToGuestDropped }, func(c PlaceCount) uint64 { return c.FromGuestDropped })
	family("mpps_nic_lost_packets_total", "counter", "Packets that a NIC lost, by the kernel's counter.")
	for _, n := range p.NICs {
		for _, c := range n.Counts {
			fmt.Fprintf(b, "mpps_nic_lost_packets_total{device=%s,counter=%s} %d\n", label(n.Name), label(c.Name),
				c.Value)
		}
	}
	if p.Softnet != nil {
		one("mpps_softnet_dropped_packets_total", "counter", "Packets dropped because a CPU's backlog was full.",
			float64(p.Softnet.Dropped))
		one("mpps_softnet_squeezed_total", "counter", "Times that packets were left when a CPU's budget ended.",
			float64(p.Softnet.Squeezed))
	}
	one("mpps_bottleneck_judged", "gauge", "Whether the last look judged the packet path: 1 if so, 0 if not.",
		boolValue(p.Judged))
	family("mpps_bottleneck_info", "gauge", "What holds the packet path back now; always 1, absent if nothing does.")
	if p.Limit != nil {
		fmt.Fprintf(b, "mpps_bottleneck_info{stage=%s,kind=%s,object=%s} 1\n", label(p.Limit.Stage),
			label(p.Limit.Kind),
			label(p.Limit.Object))
	}
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
