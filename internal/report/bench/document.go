// Package bench renders measurements as text and as a page: what was compared, the result, and the changes in between.
package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/search"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/report"
	"mpps/internal/words"
)

// Document is the content of one page. Empty parts are left out of the page.
type Document struct {
	Schema   string             `json:"schema"` // mpps.report/1
	Title    string             `json:"title"`
	Made     time.Time          `json:"made"`
	Version  string             `json:"mpps"`
	Seconds  float64            `json:"seconds,omitempty"` // how long the work took that is reported on
	Host     HostLine           `json:"host"`
	Goal     string             `json:"goal,omitempty"`
	Path     []Stop             `json:"path"`
	Series   []Series           `json:"series"` // in the order in which they were measured
	Compared *Compared          `json:"compared,omitempty"`
	Modes    []Modes            `json:"modes,omitempty"`
	Rates    []Rates            `json:"rates,omitempty"`
	Wakeups  []Wakeups          `json:"wakeups,omitempty"`
	Changes  []report.ChangeRow `json:"changes"`
	Refused  []report.ChangeRow `json:"not_changed"` // what the plan left out, and why
	Rollback *RollbackRow       `json:"rollback,omitempty"`
	Warnings []report.Caveat    `json:"warnings"`
	Method   []string           `json:"method"` // sentences
}

// DocumentSchema is the version of the data embedded in a page.
const DocumentSchema = "mpps.report/1"

// HostLine is which host was measured.
type HostLine struct {
	Name     string `json:"name"`
	Kernel   string `json:"kernel"`
	CPU      string `json:"cpu_model"`
	CPUs     int    `json:"cpus"`
	Nodes    int    `json:"numa_nodes"`
	Memory   uint64 `json:"memory_bytes"`
	Emulated bool   `json:"emulated"`
	Virtual  string `json:"virtual,omitempty"`
}

// HostOf returns the line of a host.
func HostOf(h *facts.Host) HostLine {
	line := HostLine{
		Name: h.Name, Kernel: h.Kernel.Release, CPU: h.Topology.Model, CPUs: h.Topology.Counts.CPUsOnline,
		Nodes: h.Topology.Counts.NUMANodes, Emulated: h.Emulated, Virtual: h.Virtual,
	}
	for _, n := range h.Topology.Nodes {
		line.Memory += n.Memory
	}
	return line
}

// Stop is one station of the drawn packet path.
type Stop struct {
	Stage   string `json:"stage"`
	Name    string `json:"name"`
	Before  string `json:"before"`
	After   string `json:"after,omitempty"` // empty: as before
	Packets uint64 `json:"packets"`         // that passed in the last series that changed it; 0: not known
	Lost    uint64 `json:"lost"`            // seen to be lost here before
}

// Changed reports whether the station differs after the changes.
func (s Stop) Changed() bool { return s.After != "" && s.After != s.Before }

// Series is one set of samples of the same thing.
type Series struct {
	Label string       `json:"label"` // before, after, rolled back
	Run   *measure.Run `json:"run"`
	RR    *measure.Run `json:"rr,omitempty"` // transactions measured in the same state
}

// Compared is the verdict over two series.
type Compared struct {
	From       string              `json:"from"`
	To         string              `json:"to"`
	Kind       measure.Kind        `json:"kind,omitempty"` // of the throughput; empty: pps
	Throughput measure.Comparison  `json:"throughput"`
	RoundTrips *measure.Comparison `json:"round_trips,omitempty"`
	Cost       *measure.Comparison `json:"cpu_ns_per_unit,omitempty"` // of the throughput's unit
}

// RollbackRow is the proof that everything was put back.
type RollbackRow struct {
	Identical   bool     `json:"identical"`
	Compared    int      `json:"settings_compared"`
	Differences []string `json:"differences"`
	Seconds     float64  `json:"seconds"`
}

// Wakeups is a measurement of wake-up latency. What the host counted meanwhile is left out: the file has it.
type Wakeups struct {
	Label string       `json:"label"` // before, after
	File  *wakeup.File `json:"file"`
}

// Modes is one quantity measured in several modes of a NIC: a group of bars for each mode.
type Modes struct {
	Title  string    `json:"title"`            // "TCP stream", "TCP transactions", "packets of 64 bytes"
	Unit   string    `json:"unit"`             // of the values: "bit/s", "transaction/s", "packet/s"
	Note   string    `json:"note,omitempty"`   // a sentence for people
	Native string    `json:"native,omitempty"` // the mode that is 100 %; empty: none, the bars are values
	Bars   []ModeBar `json:"bars"`
}

// ModeBar is one mode.
type ModeBar struct {
	Mode  string  `json:"mode"` // "e1000", "vhost-net", "native"
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"` // of the value's interval
	Hi    float64 `json:"hi"`
	N     int     `json:"n"` // trials
	// Percent is the value as percent of native's, with its interval; 0 if there is no native.
	Percent   float64 `json:"percent_of_native,omitempty"`
	PercentLo float64 `json:"percent_lo,omitempty"`
	PercentHi float64 `json:"percent_hi,omitempty"`
	// CPUIdle is the share of the host's CPU time that was left, 0–100; nil if it is not known.
	CPUIdle *Percentage `json:"cpu_idle,omitempty"`
	Same    bool        `json:"no_difference,omitempty"` // from native, that is significant
	Missing string      `json:"missing,omitempty"`       // why there is no value: "the kernel has no vhost_net"
	Caveat  string      `json:"caveat,omitempty"`        // what to know of the value: "limited by the generator"
	tooFew  bool        // samples for a difference from native to be significant
}

// Percentage is a share with its interval, 0–100. Lo and Hi are equal if there is none.
type Percentage struct {
	Value float64 `json:"value"`
	Lo    float64 `json:"lo"`
	Hi    float64 `json:"hi"`
}

// Rates is what a search found: the highest rates without loss and within a loss.
type Rates struct {
	Label      string      `json:"label"`
	FrameBytes int         `json:"frame_bytes,omitempty"` // with the FCS; 0: not known
	NDR        *RateBounds `json:"ndr,omitempty"`         // no loss
	PDR        *RateBounds `json:"pdr,omitempty"`         // no more loss than PDRLoss
	PDRLoss    float64     `json:"pdr_loss_ratio,omitempty"`
	Floor      float64     `json:"loss_floor_ratio,omitempty"` // least loss of any rate, 0–1; more than 0: no NDR
	Trials     []RateTrial `json:"trials,omitempty"`
	Caveat     string      `json:"caveat,omitempty"`
}

// RateBounds are the relevant bounds of a goal, in packets per second. An UpperPPS of 0 says that none was found: the
// rate is at least the lower one.
type RateBounds struct {
	LowerPPS      float64 `json:"lower_pps"`
	UpperPPS      float64 `json:"upper_pps"`
	ThroughputPPS float64 `json:"throughput_pps,omitempty"` // conditional throughput at the lower bound
}

// RateTrial is one trial of a search.
type RateTrial struct {
	OfferedPPS float64 `json:"offered_pps"`
	LossRatio  float64 `json:"loss_ratio"` // 0–1
	Seconds    float64 `json:"seconds"`
}

// Warn adds a caveat unless it is already there.
func (d *Document) Warn(w report.Warning) {
	if c := (report.Caveat{Warning: w, Hint: w.Hint}); !slices.Contains(d.Warnings, c) {
		d.Warnings = append(d.Warnings, c)
	}
}

// addSource adds a result's host, unless the document has one, and its warnings, prefixed with its label.
func (d *Document) addSource(label, host string, e measure.Environment, warnings []measure.Warning) {
	if d.Host.Name == "" {
		d.Host = HostLine{Name: host, Kernel: e.Kernel, CPU: e.CPU, CPUs: e.CPUs, Virtual: e.Virtual}
	}
	d.Host.Emulated = d.Host.Emulated || e.Emulated
	d.addWarnings(label, warnings)
}

func (d *Document) addWarnings(label string, warnings []measure.Warning) {
	for _, w := range warnings {
		w.Text = words.Join(": ", label, w.Text)
		d.Warn(w)
	}
}

// addMethod adds a sentence to the method.
func (d *Document) addMethod(format string, args ...any) {
	d.Method = append(d.Method, fmt.Sprintf(format, args...))
}

// Add puts a run into the document: packets and streams as a series, transactions into the series of the same label.
func (d *Document) Add(label string, r *measure.Run) {
	d.addSource(label, r.Host, r.Environment, r.Warnings)
	for i := range d.Series {
		if slot := d.Series[i].slot(r.Kind); d.Series[i].Label == label && *slot == nil {
			*slot = r
			return
		}
	}
	s := Series{Label: label}
	*s.slot(r.Kind) = r
	d.Series = append(d.Series, s)
}

// slot returns where a series keeps a run of a kind.
func (s *Series) slot(k measure.Kind) **measure.Run {
	if transactional(k) {
		return &s.RR
	}
	return &s.Run
}

func transactional(k measure.Kind) bool { return k.Unit() == measure.RR.Unit() }

// AddAB adds both sides of an interleaved comparison, and its verdict where the document has none yet.
func (d *Document) AddAB(ab *measure.AB) {
	if len(d.Series) == 0 {
		d.Compared = &Compared{From: ab.BeforeRun.Name, To: ab.AfterRun.Name, Kind: ab.Kind,
			Throughput: ab.Comparison, Cost: ab.Cost}
	}
	d.Add(ab.BeforeRun.Name, &ab.BeforeRun)
	d.Add(ab.AfterRun.Name, &ab.AfterRun)
}

// CompareFirstTwo compares the first two runs of a kind: of packets or streams, and of the same two series'
// transactions.
func (d *Document) CompareFirstTwo() {
	for _, kind := range d.kinds() {
		runs := d.runs(kind)
		if len(runs) < 2 {
			continue
		}
		c := measure.Compare(runs[0].Values(), runs[1].Values())
		switch {
		case d.Compared == nil:
			cost := measure.Compare(runs[0].Run.Costs(), runs[1].Run.Costs())
			if caveats, err := measure.Comparable(runs[0].Run, runs[1].Run); err == nil { // of one kind they can be
				c.Warnings = append(c.Warnings, caveats...)
			}
			d.addWarnings("", c.Warnings)
			d.Compared = &Compared{From: runs[0].Label, To: runs[1].Label, Kind: kind, Throughput: c, Cost: &cost}
		case transactional(kind) && !transactional(d.Compared.Kind) && d.Compared.RoundTrips == nil &&
			runs[0].Label == d.Compared.From && runs[1].Label == d.Compared.To:
			d.Compared.RoundTrips = &c
		}
	}
}

// AddModes adds a campaign over NIC modes: a group of bars for each workload, and its runs.
func (d *Document) AddModes(m *measure.Modes) {
	d.addWarnings("", m.Warnings)
	d.Method = append(d.Method, m.Notes...)
	d.addMethod("%d samples of %s and %s were taken in turns, in %s by seed %d, so that drift falls on all modes "+
		"alike. The percentage is the Hodges–Lehmann estimate over blocks.", m.Samples, words.Count(len(m.Modes),
		"mode"), words.Count(len(m.Workloads), "workload"), words.Count(m.Blocks, "block"), m.Seed)
	d.Seconds += m.Seconds
	for _, w := range m.Workloads {
		title, note := workloadTitle(w)
		chart := Modes{Title: title, Unit: w.Kind.Unit(), Note: note}
		for _, row := range m.Rows {
			if row.Workload != w.Name {
				continue
			}
			chart.Bars = append(chart.Bars, barOf(m, row))
			if row.Mode == m.Native && row.Median.Value > 0 {
				chart.Native = m.Native
			}
		}
		d.Modes = append(d.Modes, chart)
	}
	for i, r := range m.Runs {
		if len(r.Samples) == 0 || m.Rows[i].Search != nil { // a search's trials are no samples of a run
			continue
		}
		r.Warnings = nil // the campaign has them, once for all runs
		w := m.Rows[i].Workload
		d.Add(r.Name+words.If(w != string(r.Kind), ", %s", w), &r)
	}
}

// workloadTitle returns what a workload measures.
func workloadTitle(w measure.Workload) (title, note string) {
	switch {
	case w.Search > 0:
		return "Packets without loss (NDR)", frameText(w.Load) + ", lower bounds of searches."
	case w.Kind == measure.Stream:
		title = "TCP stream"
	case transactional(w.Kind):
		title = "Transactions"
	default:
		title, note = "Packets", frameText(w.Load)+"."
	}
	return title + words.If(w.Name != string(w.Kind), " (%s)", w.Name), note
}

func barOf(m *measure.Modes, row measure.ModeRow) ModeBar {
	e := row.Median
	b := ModeBar{Mode: row.Mode, Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: e.N}
	if len(row.Samples) == 0 {
		b.Missing = "not measured"
		for _, f := range m.Failures {
			if f.Mode == row.Mode {
				b.Missing = "not measured: " + f.Error
			}
		}
		return b
	}
	switch {
	case row.Percent != nil:
		b.Percent, b.PercentLo, b.PercentHi = row.Percent.Value, row.Percent.Lo, row.Percent.Hi
		b.tooFew = row.Percent.N < 4 // no difference can be significant
		b.Same = !b.tooFew && !row.Differs
	case row.Mode == m.Native && e.Value > 0: // the interval of its own median
		b.Percent, b.PercentLo, b.PercentHi = 100, 100*e.Lo/e.Value, 100*e.Hi/e.Value
	}
	if idle := row.CPUIdle; idle.N > 0 {
		b.CPUIdle = &Percentage{idle.Value, idle.Lo, idle.Hi}
	}
	if row.LimitedBy == measure.ByGenerator || row.LimitedBy == measure.ByReceiver {
		b.Caveat = "limited by the " + string(row.LimitedBy)
	}
	return b
}

// AddSearch adds what a search found.
func (d *Document) AddSearch(label string, s *measure.Search) {
	d.addSource("", s.Host, s.Environment, s.Warnings)
	for _, remark := range s.Remarks {
		d.Warn(report.Warning{Code: "irregular", Text: label + ": " + remark,
			Hint: "search again when the machine is quiet, or with a larger --budget"})
	}
	r := Rates{Label: label, FrameBytes: s.FrameBytes, NDR: boundsOf(&s.NDR), PDR: boundsOf(&s.PDR),
		PDRLoss: s.PDR.LossRatio, Floor: s.FloorRate}
	for _, t := range s.Tried {
		o := t.Outcome
		r.Trials = append(r.Trials, RateTrial{float64(o.Sent) / o.Seconds, t.LossRate, o.Seconds})
	}
	switch {
	case s.Partial:
		r.Caveat = "ended early"
	case !s.Valid():
		r.Caveat = "limited by the " + s.LimitedBy
	}
	d.Rates = append(d.Rates, r)
	basis := fmt.Sprintf("lower bounds passed a trial of %.4g s; %s, %.4g s of traffic",
		s.NDR.FinalSeconds, s.Mode, s.Seconds)
	if s.NDR.Confidence > 0 {
		basis = fmt.Sprintf("the bounds hold with %.0f %% confidence for a typical second; %s and %.4g s of traffic",
			s.NDR.Confidence*100, s.Mode, s.Seconds)
	}
	d.addMethod("%s: %s.", label, basis)
}

// boundsOf returns the bounds of a goal; nil if no rate meets it.
func boundsOf(f *search.Found) *RateBounds {
	if f.LowerPPS == nil {
		return nil
	}
	b := &RateBounds{LowerPPS: *f.LowerPPS}
	if f.UpperPPS != nil {
		b.UpperPPS = *f.UpperPPS
	}
	if f.ThroughputPPS != nil {
		b.ThroughputPPS = *f.ThroughputPPS
	}
	return b
}

// AddWakeups adds a measurement of wake-up latency.
func (d *Document) AddWakeups(label string, f *wakeup.File) {
	d.addSource(label, f.Host, f.Environment, f.Warnings)
	loads := words.Join(", ", words.Each(f.Loads, func(l wakeup.Load) string {
		return words.If(l.Error == "", "%s on %s", l.What, l.Where)
	})...)
	asked := f.Asked
	d.addMethod("%s: %s by %s %s: %s. Every %v at SCHED_FIFO %d, %d × %v in slices of %v; meanwhile ran: %s.", label,
		f.Where(),
		f.Tool.Name, f.Tool.Version, f.Tool.What, asked.Interval, asked.Priority, len(f.Runs), asked.For, asked.Slice,
		cmp.Or(loads, "nothing"))
	quiet := *f
	quiet.Counted = nil
	d.Wakeups = append(d.Wakeups, Wakeups{label, &quiet})
	if len(d.Wakeups) == 2 {
		d.addWarnings("", wakeup.Compare(d.Wakeups[0].File, d.Wakeups[1].File).Warnings)
	}
}

// labeled is a run of a document with its series' label and place, which give it its colour.
type labeled struct {
	*measure.Run
	Label string
	place int
}

// kinds returns the kinds of runs in the document, in the order of its series.
func (d *Document) kinds() []measure.Kind {
	var kinds []measure.Kind
	for _, l := range d.runs("") {
		if !slices.Contains(kinds, l.Kind) {
			kinds = append(kinds, l.Kind)
		}
	}
	return kinds
}

// runs returns the document's runs of a kind; of all for an empty one.
func (d *Document) runs(kind measure.Kind) []labeled {
	var all []labeled
	var labels []string // series of one label have one colour
	for _, s := range d.Series {
		if !slices.Contains(labels, s.Label) {
			labels = append(labels, s.Label)
		}
		for _, r := range []*measure.Run{s.Run, s.RR} {
			if r != nil && (kind == "" || r.Kind == kind) {
				all = append(all, labeled{r, s.Label, slices.Index(labels, s.Label)})
			}
		}
	}
	return all
}

// wakeupRuns returns the measurements of wake-ups as runs whose samples are runs of wake-ups: percentiles are drawn of
// them.
func (d *Document) wakeupRuns() []labeled {
	var all []labeled
	for i, w := range d.Wakeups {
		r := &measure.Run{Latency: w.File.Total.Latency}
		for k := range w.File.Runs {
			r.Samples = append(r.Samples, measure.Sample{Latency: w.File.Runs[k].Latency})
		}
		all = append(all, labeled{r, w.Label, i})
	}
	return all
}

// distributions returns the runs that have latency. One on a schedule counts its delays in two ways, and is there
// twice: from when a request was due, and from when it left.
func distributions(runs []labeled) []labeled {
	var all []labeled
	for _, r := range runs {
		switch {
		case r.Latency == nil:
		case r.LatencyRaw == nil:
			all = append(all, r)
		default:
			raw := *r.Run
			raw.Latency, raw.Samples = r.LatencyRaw, slices.Clone(r.Samples)
			for i := range raw.Samples {
				raw.Samples[i].Latency = raw.Samples[i].LatencyRaw
			}
			all = append(all, labeled{r.Run, r.Label + ", from the schedule", r.place},
				labeled{&raw, r.Label + ", from the sending", r.place + 2})
		}
	}
	return all
}

func lossRatios(r *measure.Run) []float64 {
	values := make([]float64, len(r.Samples))
	for i := range r.Samples {
		values[i] = r.Samples[i].LossRatio()
	}
	return values
}
