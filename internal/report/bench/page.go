package bench

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"

	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/words"
)

//go:embed bench.html.tmpl
var files embed.FS

var write = page.New(files, template.FuncMap{
	"bounds": rateBounds, "cpuStrip": cpuStrip, "dots": dots, "frames": frameText, "histograms": wakeupHistograms,
	"load": loadText, "lossBars": lossBars, "lossOverLoad": lossOverLoad, "modeBars": modeBars, "part": shareText,
	"percentiles": percentiles, "places": places, "rate": rateCell, "ratios": ratios, "spent": durationCell,
	"transactional": transactional, "unit": unit, "worst": longestWakeups,
	"level": func(e measure.Estimate) string { return fmt.Sprintf("%.3g %%", e.Level*100) },
	"ours":  func(r measure.Role) bool { return r == measure.Ourselves },
})

// HTML writes a document as a page.
func HTML(w io.Writer, d *Document) error {
	with := func(all []labeled, has func(r labeled) bool) []labeled {
		return slices.DeleteFunc(slices.Clone(all), func(r labeled) bool { return !has(r) })
	}
	all, woken := d.runs(""), d.wakeupRuns()
	b := body{
		Document: d, Stops: stops(d.Path), Groups: groups(d.Changes), All: all, Packets: d.runs(measure.PPS),
		Woken: woken, Kinds: report.Group(all, func(r labeled) measure.Kind { return r.Kind }),
		Talks:   with(all, func(r labeled) bool { return r.Kind != measure.PPS }),
		Split:   with(all, func(r labeled) bool { return len(r.CPUParts()) > 0 }),
		Threads: with(all, func(r labeled) bool { return len(r.ThreadCosts()) > 0 }),
		Lossy:   with(all, func(r labeled) bool { return r.Kind == measure.PPS && len(places(r)) > 0 }),
		Delays:  distributions(slices.Concat(all, woken)),
	}
	b.Trips = with(b.Delays, func(r labeled) bool { return r.Latency.What == "round-trip" })
	b.OneWay = with(b.Delays, func(r labeled) bool { return r.Latency.What == "one-way" })
	b.Percentiles = percentilesOf(b.Delays)
	if len(d.Wakeups) > 1 {
		c := wakeup.Compare(d.Wakeups[0].File, d.Wakeups[1].File)
		b.Longest = &c.Longest
	}
	return write(w, page.Page{Title: d.Title, Verdict: Verdict(d), Lines: lines(d), Body: b, Warnings: d.Warnings,
		Version: d.Version, Made: d.Made, Data: d})
}

// body is a document with the derived values that its template shows.
type body struct {
	*Document
	Stops                        []stopView
	Groups                       []changeGroup
	All, Packets, Talks          []labeled
	Kinds                        [][]labeled         // All by kind
	Split, Threads, Lossy        []labeled           // those with such figures
	Delays, Trips, OneWay, Woken []labeled           // those with latency, and which
	Percentiles                  []float64           // that any of Delays has
	Longest                      *measure.Comparison // of wake-ups
}

// About says what the bars are.
func (m *Modes) About() string {
	return words.Join(" ", words.If(m.Native != "", "Percent of %s.", m.Native), m.Note)
}

// changeGroup is a row of changes that follow each other and differ only in address, values and reason.
type changeGroup struct {
	report.ChangeRow // the first
	All              []report.ChangeRow
	Reasons          []string
}

func groups(all []report.ChangeRow) []changeGroup {
	var groups []changeGroup
	for _, g := range report.Runs(all, func(a, b report.ChangeRow) bool {
		return a.ID == b.ID && a.Risk == b.Risk && a.Needs == b.Needs && a.Lasts == b.Lasts
	}) {
		groups = append(groups, changeGroup{g[0], g,
			report.Distinct(g, func(c report.ChangeRow) string { return c.Because })})
	}
	return groups
}

// stopView is a station with the width of the line that leads on from it: what is left of the packets after its loss.
type stopView struct {
	Stop
	Width   int
	Entered uint64 // of how many packets those were lost
}

func stops(path []Stop) []stopView {
	var views []stopView
	share, entered := 1.0, uint64(0)
	for _, s := range path {
		entered = cmp.Or(entered, s.Packets)
		if s.Lost > 0 && entered > 0 {
			share = math.Max(0, share-float64(s.Lost)/float64(entered))
		}
		views = append(views, stopView{s, 3 + int(math.Round(share*9)), entered})
	}
	return views
}

// loadText returns what a run asked for, and with what it was measured.
func loadText(r labeled) string {
	l, e := r.Load, r.Environment
	what := "TCP over " + words.Count(max(l.Connections, 1), "connection")
	if r.Kind == measure.PPS {
		pace := words.Either(l.Rate > 0, words.SI(l.Rate, 4)+" packets/s", "as fast as possible")
		flows := words.Count(max(l.Flows, 1), "flow")
		what = fmt.Sprintf("%s, %s, %s, generator %s, sink %s", frameText(l), flows, pace, e.Generator, e.Sink)
	}
	return fmt.Sprintf("%d trials of %s, %s%s; limited by %s", len(r.Samples), words.Seconds(l.Duration.Seconds()),
		what, words.If(e.FarKernel != "", ", kernel of the far end %s", e.FarKernel), r.LimitedBy)
}

// longestWakeups describes the five longest wake-ups: when each was, and what coincided.
func longestWakeups(w Wakeups) []string {
	var all []string
	for _, worst := range w.File.Worst[:min(len(w.File.Worst), 5)] {
		all = append(all, fmt.Sprintf("%s, %s, CPU %d%s", words.Duration(float64(worst.Ns)), worst.When(), worst.CPU,
			causeText(&worst, w.File)))
	}
	return all
}

var dash = page.Cell{Value: "–"}

// estimateCell returns an estimate with its interval; write formats a value.
func estimateCell(e measure.Estimate, write func(v float64) string) page.Cell {
	switch e.N {
	case 0:
		return dash
	case 1:
		return page.Cell{Value: write(e.Value)}
	}
	return page.Cell{Value: write(e.Value), Small: "[" + write(e.Lo) + ", " + write(e.Hi) + "]"}
}

func rateCell(e measure.Estimate) page.Cell {
	return estimateCell(e, func(v float64) string { return words.Digits(v, e.Lo, e.Hi) })
}

func durationCell(e measure.Estimate) page.Cell { return estimateCell(e, words.Duration) }

func shareText(n, of uint64) string { return words.Percent(float64(n) / float64(max(of, 1))) }

// Cost returns the CPU time of each packet, transaction or byte; a dash if it was not taken.
func (r labeled) Cost() page.Cell {
	if r.CPUNsPerUnit == 0 {
		return dash
	}
	return durationCell(measure.Median(r.Run.Costs()))
}

// LostShare returns the share of packets that a trial lost.
func (r labeled) LostShare() page.Cell {
	return estimateCell(measure.Median(lossRatios(r.Run)), words.Percent)
}

// Directions returns the directions of a run with traffic in both, as runs of their own.
func (r labeled) Directions() []labeled {
	var all []labeled
	for i, way := range r.Ways {
		one := &measure.Run{Sent: way.Sent, Received: way.Received, Lost: way.Lost}
		for _, s := range r.Samples {
			if i < len(s.Ways) {
				one.Samples = append(one.Samples, measure.Sample{PPS: s.Ways[i].PPS, Sent: s.Ways[i].Sent,
					Lost: s.Ways[i].Lost})
			}
		}
		one.Median = measure.Median(one.Values())
		all = append(all, labeled{one, r.Label + []string{" →", " ←"}[i%2], r.place})
	}
	return all
}

// Retransmits returns how often a stream sent something again.
func (r labeled) Retransmits() string {
	var n uint64
	for _, s := range r.Samples {
		n += s.Retransmits
	}
	return words.Either(r.Kind == measure.Stream, words.Grouped(n), "")
}

// Columns returns the CPU time of each unit by the columns of /proc/stat, in the order of the page.
func (r labeled) Columns() []page.Cell {
	cells := []page.Cell{dash, dash, dash, dash, dash}
	for _, p := range r.CPUParts() {
		if at := slices.Index([]string{"user", "system", "softirq", "irq", "guest"}, p.Name); at >= 0 {
			cells[at] = durationCell(p.Each)
		}
	}
	return cells
}

// percentilesOf returns the percentiles that any run has, ascending.
func percentilesOf(runs []labeled) []float64 {
	var all []float64
	for _, r := range runs {
		for _, p := range r.Latency.Percentiles {
			all = append(all, p.P)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Delay returns a percentile of all samples together. It has the interval of the trials where each of them has samples
// enough.
func (r labeled) Delay(p float64) page.Cell {
	ns, ok := r.Latency.Percentile(p)
	if !ok {
		return dash
	}
	c := page.Cell{Value: words.Duration(float64(ns))}
	var trials []float64
	for _, s := range r.Samples {
		if v, ok := s.Latency.Percentile(p); ok {
			trials = append(trials, float64(v))
		}
	}
	if len(trials) > 1 && len(trials) == len(r.Samples) {
		c.Small = durationCell(measure.Median(trials)).Small
	}
	return c
}

// place is where packets were lost.
type place struct {
	Name    string
	Packets uint64
	Share   float64 // of the packets sent, 0–1
	class   string
}

// places returns where a run's packets were lost, the unexplained rest last. Counters see other traffic too, so the
// shares can add up to more than was lost.
func places(r labeled) []place {
	if r.Sent == 0 || r.Lost == 0 {
		return nil
	}
	var all []place
	for _, l := range r.Losses {
		counter := words.Join(", ", l.Counter.Where, l.Counter.Interface) + ": " + l.Counter.Name
		name := words.Join(" – ", string(l.Place), counter) // runs of earlier versions have no place
		all = append(all, place{name, l.Packets, float64(l.Packets) / float64(r.Sent), "s0"})
	}
	if n := r.UnexplainedLoss; n > 0 {
		all = append(all, place{"seen by no counter", n, float64(n) / float64(r.Sent), "idlebar"})
	}
	return all
}

// Path makes the stations of a packet's way from a sender on the host's bridge into a guest's first NIC, as they were
// before and are after. A station that looks the same has no After. The losses are those that a run located.
func Path(before, after *facts.Host, guest string, sender string, run *measure.Run) []Stop {
	was, is := guestStops(before, guest), guestStops(after, guest)
	stops := []Stop{{Stage: "sender", Name: "mpps", Before: sender}}
	for i, s := range was {
		if i < len(is) && is[i].Before != s.Before {
			s.After = is[i].Before
		}
		stops = append(stops, s)
	}
	if run == nil {
		return stops
	}
	stops[0].Packets = run.Sent
	for _, loss := range run.Losses {
		if at := slices.IndexFunc(stops, func(s Stop) bool { return s.Name == loss.Interface }); at >= 0 {
			stops[at].Lost += loss.Packets
		}
	}
	return stops
}

// guestStops returns bridge, tap, back end and guest of a guest's first NIC. The back end has one stage whatever it is.
func guestStops(h *facts.Host, name string) []Stop {
	var stops []Stop
	for _, s := range report.GuestPath(h, name) {
		stop := Stop{Stage: s.Kind, Name: s.Name, Before: s.Text}
		if s.BackEnd {
			stop = Stop{Stage: "vhost", Name: "back end", Before: s.Name + ": " + s.Text}
		}
		stops = append(stops, stop)
	}
	return stops
}
