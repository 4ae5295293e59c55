package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"mpps/internal/facts"
	"mpps/internal/measure"
)

//go:embed page.html.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Parse(pageTemplate))

// HTML writes a document as one file that needs no network and no script: the style and the drawings are inline, and
// the document itself is embedded as JSON.
func HTML(w io.Writer, d *Document) error {
	data, err := json.Marshal(facts.Whole(d)) // escapes <, > and &: safe inside a script element
	if err != nil {
		return fmt.Errorf("embed the result in the page: %w", err)
	}
	view := pageView{
		Document: d,
		Style:    template.CSS(pageStyle),
		Data:     template.JS(data),
		Verdict:  verdict(d),
		Stops:    stops(d.Path),
		Charts:   charts(d),
		Numbers:  numbers(d.Series),
		Losses:   losses(d.Series),
		Facts:    environment(d),
		Groups:   groupRows(d.Changes),
		Date:     d.Made.UTC().Format("2 January 2006, 15:04 MST"),
	}
	if d.Rollback != nil {
		view.Rollback = &rollbackView{RollbackRow: d.Rollback, Took: seconds(d.Rollback.Seconds)}
	}
	return page.Execute(w, view)
}

// pageView is a document with everything that the template needs worked out.
type pageView struct {
	*Document
	Style    template.CSS
	Data     template.JS
	Verdict  verdictView
	Stops    []stopView
	Charts   []chart
	Numbers  []numberRow
	Losses   []lossRow
	Facts    []factRow
	Groups   []changeGroup
	Rollback *rollbackView
	Date     string
}

type rollbackView struct {
	*RollbackRow
	Took string
}

// changeGroup is a row of changes that follow each other and differ only in address, values and reason.
type changeGroup struct {
	ChangeRow // the first
	All       []ChangeRow
	Reasons   []string
}

func groupRows(all []ChangeRow) []changeGroup {
	var groups []changeGroup
	for _, c := range all {
		n := len(groups)
		if n == 0 || groups[n-1].ID != c.ID || groups[n-1].Risk != c.Risk || groups[n-1].Needs != c.Needs || groups[n-1].Lasts != c.Lasts {
			groups = append(groups, changeGroup{ChangeRow: c})
			n++
		}
		g := &groups[n-1]
		g.All = append(g.All, c)
		if !slices.Contains(g.Reasons, c.Because) {
			g.Reasons = append(g.Reasons, c.Because)
		}
	}
	return groups
}

type chart struct {
	Title, Note string
	Picture     template.HTML
}

type numberRow struct{ Label, Median, Interval, Sent, Received, Lost, CPU, Limit string }

type lossRow struct{ Label, Counter, Packets string }

type factRow struct{ Name, Value string }

type stopView struct {
	Stop
	Width int
	Loss  string
}

// stops gives each station the width of the line that leads on from it: what is left of the packets after its loss.
func stops(path []Stop) []stopView {
	var views []stopView
	share := 1.0
	var entered float64
	for _, s := range path {
		v := stopView{Stop: s}
		if entered == 0 {
			entered = float64(s.Packets)
		}
		if s.Lost > 0 && entered > 0 {
			share = math.Max(0, share-float64(s.Lost)/entered)
			v.Loss = fmt.Sprintf("%s of %s packets were lost here", grouped(s.Lost), grouped(uint64(entered)))
		}
		v.Width = 3 + int(math.Round(share*9))
		views = append(views, v)
	}
	return views
}

func charts(d *Document) []chart {
	var labels []string
	var packets, trips []*measure.Run
	var tripLabels []string
	var latencies []*measure.Latency
	var latencyLabels []string
	for _, s := range d.Series {
		if s.Run != nil {
			labels, packets = append(labels, s.Label), append(packets, s.Run)
		}
		if s.RR != nil {
			tripLabels, trips = append(tripLabels, s.Label), append(trips, s.RR)
			if s.RR.Latency != nil {
				latencies, latencyLabels = append(latencies, s.RR.Latency), append(latencyLabels, s.Label)
			}
		}
	}
	var all []chart
	add := func(title, note string, picture template.HTML) {
		if picture != "" {
			all = append(all, chart{title, note, picture})
		}
	}
	if len(packets) > 0 {
		add("Packets per second into the guest", fmt.Sprintf("%d-byte frames, counted in the guest, behind its driver.",
			packets[0].Load.FrameBytes), dots(labels, packets, "packets/s"))
	}
	if len(trips) > 0 {
		add("Transactions per second", "One TCP request and its answer, one connection, closed loop.",
			dots(tripLabels, trips, "transactions/s"))
	}
	if len(latencies) > 0 {
		add("Round-trip time", "Lower is better. Each nine of the percentile takes the same width, so the tail is visible.",
			percentiles(latencyLabels, latencies))
	}
	if len(packets) > 0 {
		add("Where the host's CPUs were", "One row a CPU, while packets were sent.", cpuStrip(labels, packets))
	}
	return all
}

func numbers(series []Series) []numberRow {
	var rows []numberRow
	for _, s := range series {
		r := s.Run
		if r == nil {
			continue
		}
		m := r.Median
		rows = append(rows, numberRow{
			Label: s.Label, Median: digits(m.Value, m.Lo, m.Hi),
			Interval: fmt.Sprintf("[%s, %s]", digits(m.Lo, m.Lo, m.Hi), digits(m.Hi, m.Lo, m.Hi)),
			Sent:     grouped(r.Sent), Received: grouped(r.Received),
			Lost: fmt.Sprintf("%s (%s)", grouped(r.Lost), percent(r.Lost, r.Sent)),
			CPU:  duration(r.CPUNsPerPacket), Limit: string(r.LimitedBy),
		})
	}
	return rows
}

func losses(series []Series) []lossRow {
	var rows []lossRow
	for _, s := range series {
		if s.Run == nil {
			continue
		}
		for _, l := range s.Run.Losses {
			rows = append(rows, lossRow{s.Label, counterName(l.Counter), grouped(l.Packets)})
		}
		if s.Run.UnexplainedLoss > 0 {
			rows = append(rows, lossRow{s.Label, "seen by no counter", grouped(s.Run.UnexplainedLoss)})
		}
	}
	return rows
}

func counterName(c measure.Counter) string {
	if c.Interface == "" {
		return c.Where + ": " + c.Name
	}
	return c.Where + ", " + c.Interface + ": " + c.Name
}

func environment(d *Document) []factRow {
	h := d.Host
	rows := []factRow{
		{"Host", h.Name}, {"Kernel", h.Kernel},
		{"CPUs", fmt.Sprintf("%s, %s on %s", h.CPU, count(h.CPUs, "CPU"), count(h.Nodes, "NUMA node"))},
		{"Memory", Bytes(h.Memory)},
	}
	switch {
	case h.Emulated:
		rows = append(rows, factRow{"Emulated", "yes: the whole host runs under software emulation. Rates and times say nothing about hardware; only the ratio and the settings carry over"})
	case h.Virtual != "":
		rows = append(rows, factRow{"Virtual", "the host is itself a guest of " + h.Virtual})
	}
	if d.Goal != "" {
		rows = append(rows, factRow{"Goal", d.Goal})
	}
	for _, s := range d.Series {
		if s.Run == nil {
			continue
		}
		l := s.Run.Load
		rows = append(rows, factRow{"Series " + s.Label, fmt.Sprintf("%d trials of %s, %d-byte frames, %s, generator %s, sink %s, kernel of the far end %s",
			len(s.Run.Samples), seconds(l.Duration.Seconds()), l.FrameBytes, count(max(l.Flows, 1), "flow"),
			s.Run.Environment.Generator, s.Run.Environment.Sink, s.Run.Environment.FarKernel)})
	}
	if d.Seconds > 0 {
		rows = append(rows, factRow{"Whole run", seconds(d.Seconds)})
	}
	return rows
}

func seconds(s float64) string {
	switch {
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 120:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// grouped writes a count with thin spaces between groups of three digits.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	var out []byte
	for i := range len(text) {
		if i > 0 && (len(text)-i)%3 == 0 {
			out = append(out, "\u2009"...)
		}
		out = append(out, text[i])
	}
	return string(out)
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "–"
	}
	share := float64(part) / float64(whole) * 100
	switch {
	case part == 0:
		return "0 %"
	case share < 0.1:
		return strconv.FormatFloat(share, 'g', 2, 64) + " %"
	}
	return strconv.FormatFloat(share, 'f', 1, 64) + " %"
}
