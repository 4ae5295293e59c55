package export

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/measure"
)

// prometheus writes the text exposition format 0.0.4 for node_exporter's textfile collector or a push gateway: base
// units (seconds, bytes, ratios of 1), and names starting with mpps_bench_. A measurement is over when it is read, so
// everything is a gauge or, for latency, a summary of the run. Bounds of an interval are separate metrics that end in
// _lower and _upper.
func prometheus(w io.Writer, s *Set) error {
	p := &exposition{families: map[string]*family{}}
	for _, l := range s.Runs {
		p.run(l, s.Version)
	}
	for _, r := range s.Ratios {
		p.ratio(r)
	}
	b := bufio.NewWriter(w)
	for _, name := range p.order {
		f := p.families[name]
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(f.help),
			name, f.kind)
		for _, line := range f.lines {
			b.WriteString(line)
		}
	}
	return b.Flush()
}

type exposition struct {
	families map[string]*family
	order    []string
}

type family struct {
	kind, help string
	lines      []string
}

// label is the name and value of a label.
type label struct{ name, value string }

// add adds a series to the family of a metric. suffix is _sum or _count of a summary.
func (p *exposition) add(name, suffix, kind, help string, labels []label, value float64) {
	f := p.families[name]
	if f == nil {
		f = &family{kind: kind, help: help}
		p.families[name] = f
		p.order = append(p.order, name)
	}
	var b strings.Builder
	b.WriteString(name + suffix)
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	separator := "{"
	for _, l := range labels {
		if l.value == "" {
			continue
		}
		b.WriteString(separator + l.name + `="` + escape.Replace(strings.ToValidUTF8(l.value, "\uFFFD")) + `"`)
		separator = ","
	}
	if separator == "," {

		b.WriteString("}")
	}
	f.lines = append(f.lines, b.String()+" "+number(value)+"\n")
}

func (p *exposition) gauge(name, help string, labels []label, value float64) {
	p.add("mpps_bench_"+name, "", "gauge", help, labels, value)
}

// with returns labels and more in a new slice.
func with(labels []label, more ...label) []label { return append(slices.Clone(labels), more...) }

func (p *exposition) run(l Labeled, version string) {
	r := l.Run
	labels := []label{{"kind", string(r.Kind)}, {"run", l.Label}, {"side", l.Side}, {"host", r.Host},
		{"from", place(r.From)}, {"to", place(r.To)}}
	if r.Kind == measure.PPS {
		labels = append(labels, label{"frame", frames(r)})
		if r.Load.TwoWay {
			labels = append(labels, label{"ways", "2"})
		}
	}
	p.gauge("info", "What was measured with what; always 1.",
		with(labels, label{"version", version}, label{"kernel", r.Environment.Kernel},
			label{"generator", r.Environment.Generator}, label{"sink", r.Environment.Sink},
			label{"limited_by", string(r.LimitedBy)}), 1)
	p.gauge("start_time_seconds", "When the run began, in seconds since the epoch.", labels,
		float64(r.Started.UnixMilli())/1000)
	p.gauge("valid", "1 where neither generator nor receiver was the limit.", labels, truth(r.Valid()))
	p.gauge("partial", "1 where the run ended early.", labels, truth(r.Partial))
	p.gauge("emulated", "1 where everything ran under full emulation.", labels, truth(r.Environment.Emulated))
	rate, each, unit, scale := "packets_per_second", "cpu_seconds_per_packet", "Packets that arrived per second", 1.0
	switch {
	case transactional(r.Kind):
		rate, each, unit = "transactions_per_second", "cpu_seconds_per_transaction", "Transactions per second"
	case r.Kind == measure.Stream:
		rate, each, unit, scale = "bytes_per_second", "cpu_seconds_per_byte", "Bytes per second that arrived", 1./8
	}
	m := r.Median
	p.gauge(rate, unit+": median of the trials.", labels, m.Value*scale)
	if m.N > 1 {
		p.gauge(rate+"_lower", unit+": lower bound of the median's interval.", labels, m.Lo*scale)
		p.gauge(rate+"_upper", unit+": upper bound of the median's interval.", labels, m.Hi*scale)
		p.gauge("confidence_ratio", "Confidence of the median's interval.", labels, m.Level)
	}
	p.gauge("trials", "Trials that were completed.", labels, float64(len(r.Samples)))
	p.gauge(each, "CPU time of the near machine, softirq and guests included, median of the trials.", labels,
		r.CPUNsPerUnit/1e9)
	if transactional(r.Kind) && r.Sent > 0 {
		p.gauge("sent_requests", "Requests sent in all trials.", labels, float64(r.Sent))
		p.gauge("lost_requests", "Requests that were not answered in time.", labels, float64(r.Lost))
	}
	if r.Kind == measure.PPS {
		p.gauge("offered_packets_per_second", "Rate that was offered.", labels, r.OfferedPPS)
		p.gauge("sent_packets", "Packets sent in all trials.", labels, float64(r.Sent))
		p.gauge("received_packets", "Packets received in all trials, duplicates counted.", labels, float64(r.Received))
		p.gauge("lost_packets", "Packets lost in all trials.", labels, float64(r.Lost))
		p.gauge("duplicated_packets", "Packets that arrived more than once.", labels, float64(r.Duplicated))
		p.gauge("reordered_packets", "Packets that arrived out of order.", labels, float64(r.Reordered))
		p.gauge("loss_ratio", "Share of the packets sent that was lost.", labels, loss(r.Lost, r.Sent)/100)
		for _, at := range r.Losses {
			p.gauge("located_lost_packets", "Packets that a counter on the way saw dropped.",
				with(labels, label{"place", string(at.Place)}, label{"where", at.Where}, label{"device", at.Interface},
					label{"counter", at.Name}), float64(at.Packets))
		}
	}
	if r.Kind == measure.Stream {
		p.gauge("retransmitted_segments", "TCP segments sent again in all trials.", labels, float64(retransmits(r)))
	}
	p.latency(labels, r.Latency)
	p.latency(labels, r.LatencyRaw)
	p.cpus(labels, r)
	p.threads(labels, r)
}

// threads writes what ran on the near machine, by role and guest, over all trials.
func (p *exposition) threads(labels []label, r *measure.Run) {
	type group struct {
		role  measure.Role
		guest string
	}
	var order []group
	ran, waited := map[group]float64{}, map[group]float64{}
	for _, s := range r.Samples {
		for _, u := range s.Threads {
			g := group{u.Role, u.Guest}
			if _, known := ran[g]; !known {
				order = append(order, g)
			}
			ran[g], waited[g] = ran[g]+u.Seconds, waited[g]+u.Waited
		}
	}
	for _, g := range order {
		of := with(labels, label{"role", string(g.role)}, label{"guest", g.guest})
		p.gauge("thread_seconds", "Time that threads ran in the trials, guest time and softirqs in their context "+
			"included.", of, ran[g])
		if g.role == measure.Ourselves { // its clock does not have it
			continue
		}
		p.gauge("thread_waiting_seconds", "Time that they were ready to run and had no CPU.", of, waited[g])
	}
}

func (p *exposition) latency(labels []label, l *measure.Latency) {
	if l == nil {
		return
	}
	const help = "Delays of all trials; percentiles as far as the number of samples allows."
	labels = with(labels, label{"what", l.What}, label{"loop", l.Loop}, label{"since", l.Since})
	for _, q := range l.Percentiles {
		p.add("mpps_bench_latency_seconds", "", "summary", help,
			with(labels, label{"quantile", decimal(float64(int64(q.P*1e6+0.5)) / 1e8)}), float64(q.ValueNs)/1e9)
	}
	p.add("mpps_bench_latency_seconds", "_sum", "summary", help, labels, l.MeanNs*float64(l.Count)/1e9)
	p.add("mpps_bench_latency_seconds", "_count", "summary", help, labels, float64(l.Count))
	p.gauge("latency_min_seconds", "Shortest delay.", labels, float64(l.MinNs)/1e9)
	p.gauge("latency_max_seconds", "Longest delay.", labels, float64(l.MaxNs)/1e9)
}

// cpus writes the modes of node_exporter. Guest time is separate, as in node_cpu_guest_seconds_total.
func (p *exposition) cpus(labels []label, r *measure.Run) {
	for i := range 2 {
		m := use(r, i)
		if m == nil {
			continue
		}
		for _, u := range m.CPUs {
			for _, mode := range []struct {
				name    string
				seconds float64
			}{{"guest", u.Guest}, {"idle", u.Idle}, {"irq", u.IRQ}, {"nice", u.Nice}, {"softirq", u.SoftIRQ},
				{"steal", u.Steal}, {"system", u.System}, {"user", u.User}} {
				p.gauge("cpu_seconds", "How each CPU spent the trials; user and nice without guest.",
					with(labels, label{"machine", m.Where}, label{"cpu", strconv.Itoa(u.CPU)},
						label{"mode", mode.name}), mode.seconds)
			}
		}
	}
}

func (p *exposition) ratio(r Ratio) {
	labels := []label{{"kind", string(r.Kind)}, {"run", r.Label}, {"test", r.Comparison.Test}}
	p.gauge("difference_p_value", "Probability of a difference as large where there is none.", labels, r.Comparison.P)
	p.gauge("difference_significant", "1 where the sides differ at the level of 5 %.", labels,
		truth(r.Comparison.Significant))
	if q := r.Comparison.Ratio; q.N > 0 {
		p.gauge("ratio", "After divided by before: Hodges-Lehmann estimate.", labels, q.Value)
		p.gauge("ratio_lower", "Lower bound of the ratio's interval.", labels, q.Lo)
		p.gauge("ratio_upper", "Upper bound of the ratio's interval.", labels, q.Hi)
	}
}

func truth(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
