package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"mpps/internal/measure"
)

type chart struct {
	Title, Note string
	Picture     template.HTML
}

// gallery collects the drawings that have something to show.
type gallery []chart

func (g *gallery) add(title, note string, picture template.HTML) {
	if picture != "" {
		*g = append(*g, chart{title, note, picture})
	}
}

// modeCharts are the modes of a NIC beside each other, and the rates that searches found.
func modeCharts(d *Document) []chart {
	var g gallery
	for i := range d.Modes {
		m := &d.Modes[i]
		note := m.Note
		if m.Native != "" {
			note = strings.TrimSpace("Percent of " + m.Native + ". " + note)
		}
		g.add(m.Title, note, modeBars(m))
	}
	return g
}

func rateCharts(d *Document) []chart {
	var g gallery
	if len(d.Rates) > 0 {
		g.add("Highest rates", "The filled part is carried for certain, the pale one between the bounds undecided.", rateBounds(d.Rates))
	}
	for i := range d.Rates {
		r := &d.Rates[i]
		title := "Loss against load"
		if len(d.Rates) > 1 {
			title += ": " + r.Label
		}
		g.add(title, "A circle is one trial, the larger the longer; loss on a logarithmic axis above none.", lossOverLoad(r))
	}
	return g
}

// wakeupCharts are histograms and percentiles of wake-ups, before and after in one picture.
func wakeupCharts(d *Document) []chart {
	var g gallery
	g.add("How long wake-ups took", "Both axes are logarithmic. A dot is the percentile beside it, the stroke at the bottom the longest.", wakeupHistograms(d.Wakeups))
	g.add("Wake-ups by percentile", "Lower is better. Each nine takes the same width; the band is where the runs lay. A curve ends where fewer than ten samples are left.", percentiles(d.wakeupRuns()))
	return g
}

func charts(d *Document) []chart {
	var g gallery
	if d.Compared != nil {
		g.add(fmt.Sprintf("%s → %s", d.Compared.From, d.Compared.To), "Ratio with its interval. One that holds 1 is no significant difference: ~.", ratios(d.Compared))
	}
	for _, kind := range d.kinds() {
		runs := d.runs(kind)
		title, note := titleOf(d, runs[0].Run)
		g.add(title, note, dots(runs, strings.ReplaceAll(kind.Unit(), "/s", "s/s")))
	}
	for _, what := range []struct{ name, title string }{{"round-trip", "Round-trip time"}, {"one-way", "One-way delay"}} {
		var runs []labeled
		for _, r := range distributions(d.runs("")) {
			if r.Latency.What == what.name {
				runs = append(runs, r)
			}
		}
		g.add(what.title, "Lower is better. Each nine of the percentile takes the same width; the band is where the trials lay. "+
			"A curve ends where fewer than ten samples are left.", percentiles(runs))
	}
	if packets := d.runs(measure.PPS); len(packets) > 0 {
		g.add("Where packets were lost", "Share of the packets sent, by the counter that saw them dropped.", lossBars(packets))
	}
	if runs := d.runs(firstKind(d)); len(runs) > 0 {
		g.add("Where the CPUs were", "A row a CPU of the near machine. Left, how busy it was in each trial; right, with what over all.", cpuStrip(runs))
	}
	return g
}

func firstKind(d *Document) measure.Kind {
	for _, k := range d.kinds() {
		return k
	}
	return measure.PPS
}

func titleOf(d *Document, r *measure.Run) (title, note string) {
	switch {
	case r.Kind == measure.Stream:
		from := ""
		if r.Load.Sendfile {
			from = " with sendfile"
		}
		return "Bits per second", fmt.Sprintf("TCP over %s%s, counted where they arrive.", count(max(r.Load.Connections, 1), "connection"), from)
	case r.Kind == measure.CRR:
		return "Transactions with a connection each, per second", fmt.Sprintf("A TCP connection, a request of %s and its answer of %s, and the close.",
			count(max(r.Load.Request, 1), "byte"), count(max(r.Load.Response, 1), "byte"))
	case transactional(r.Kind):
		loop := "closed loop"
		if r.Load.Rate > 0 {
			loop = "on a schedule"
		}
		return "Transactions per second", fmt.Sprintf("A request of %s and its answer of %s over %s, %s, %s.", count(max(r.Load.Request, 1), "byte"),
			count(max(r.Load.Response, 1), "byte"), strings.ToUpper(cmp.Or(r.Load.Protocol, "tcp")), count(max(r.Load.Connections, 1), "connection"), loop)
	}
	where := map[string]string{"af_packet": "behind the receiver's driver", "xdp": "in the receiver's driver", "xdp-skb": "behind the receiver's driver"}[r.Environment.Sink]
	title, note = "Packets per second", frameText(r.Load)
	if where != "" {
		note += ", counted " + where
	}
	note += "."
	if len(d.Path) > 0 {
		title += " into the guest"
	}
	return title, note
}

// frameText is what was sent: "64-byte frames", "IMIX frames of 354 bytes on average, both directions together".
func frameText(l measure.Load) string {
	text := fmt.Sprintf("%d-byte frames", l.FrameBytes)
	if l.Mix != "" {
		text = fmt.Sprintf("%s frames of %d bytes on average", strings.ToUpper(l.Mix), l.FrameBytes)
	}
	if l.TwoWay {
		text += ", both directions together"
	}
	return text
}

// distributions are the runs that have latency. One on a schedule counts its delays in two ways, and is there twice: from
// when a request was due, and from when it left.
func distributions(runs []labeled) []labeled {
	var all []labeled
	for _, r := range runs {
		if r.Latency == nil {
			continue
		}
		if r.LatencyRaw == nil {
			all = append(all, r)
			continue
		}
		raw := *r.Run
		raw.Latency, raw.Samples = r.LatencyRaw, slices.Clone(r.Samples)
		for i := range raw.Samples {
			raw.Samples[i].Latency = raw.Samples[i].LatencyRaw
		}
		all = append(all, labeled{r.Run, r.label + ", from the schedule", r.place}, labeled{&raw, r.label + ", from the sending", r.place + 2})
	}
	return all
}
