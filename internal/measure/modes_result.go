package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"mpps/internal/strictjson"
)

// SchemaModes is the version of the format of a campaign's result.
const SchemaModes = "mpps.modes/1"

// Modes is the result of a campaign over NIC modes: a row for each mode and workload, and the runs behind them.
type Modes struct {
	Schema      string      `json:"schema"`
	Name        string      `json:"name,omitempty"` // a label for people
	Host        string      `json:"host"`
	Environment Environment `json:"environment"`
	Started     time.Time   `json:"started"`
	Seconds     float64     `json:"seconds"` // of measuring, without pauses between interruption and resumption
	Partial     bool        `json:"partial"` // ended early, or a mode could not be measured to the end
	Samples     int         `json:"samples"` // taken
	Missing     int         `json:"missing"` // samples below the planned minimum

	Native     string      `json:"native"` // the mode that is 100 %; empty: none
	Modes      []Mode      `json:"modes"`
	Workloads  []Workload  `json:"workloads"`
	Seed       uint64      `json:"seed"`
	Blocks     int         `json:"blocks"` // begun
	Order      []string    `json:"order"`  // the samples in the order taken: "vhost/rr"
	Notes      []string    `json:"notes"`  // what a reader must know of the set-up
	Conditions Conditions  `json:"conditions"`
	Rows       []ModeRow   `json:"rows"` // by workload, then by mode in the order given
	Runs       []Run       `json:"runs"` // of the rows, in the same order
	Failures   []ModeFault `json:"failures"`
	Warnings   []Warning   `json:"warnings"`
}

// ModeRow is one mode under one workload.
type ModeRow struct {
	Mode     string   `json:"mode"`
	Workload string   `json:"workload"`
	Kind     Kind     `json:"kind"`
	Unit     string   `json:"unit"`
	Median   Estimate `json:"median"`
	// Percent is the mode's result in percent of the native mode's: the Hodges–Lehmann estimate over blocks, with its
	// interval; nil if there is nothing to compare with.
	Percent *Estimate `json:"percent_of_native,omitempty"`
	Differs bool      `json:"differs"`          // from the native mode, significantly
	CPUIdle Estimate  `json:"cpu_idle_percent"` // of all CPUs of the near machine
	// CPUNs is the near machine's busy time per packet, transaction or byte.
	CPUNs       Estimate     `json:"cpu_ns_per_unit"`
	Loss        *float64     `json:"loss_ratio,omitempty"` // pps: share of packets lost, 0–1
	What        string       `json:"latency,omitempty"`    // what the percentiles are of: "round-trip"
	Percentiles []Percentile `json:"percentiles"`          // of all samples together, as far as their number allows
	Samples     []float64    `json:"samples"`              // in Unit, in the order taken
	Search      *ModeRates   `json:"search,omitempty"`     // where the samples are results of searches
	// the interval is as narrow as requested, or no width was requested
	Settled   bool  `json:"settled"`
	LimitedBy Limit `json:"limited_by"`
}

// ModeRates are the rates found by the searches of a row, in packets per second: medians over the searches that found
// one, null if none did. The lower bound of the NDR is the row's own value, in which a search without a loss-free rate
// counts as 0.
type ModeRates struct {
	NDRUpper *float64 `json:"ndr_upper_pps"`
	PDRLower *float64 `json:"pdr_lower_pps"`
	PDRUpper *float64 `json:"pdr_upper_pps"`
	// why there is no loss-free rate, from the last search that found none
	None    string  `json:"none,omitempty"`
	Seconds float64 `json:"seconds"` // of traffic, all searches together
}

// ModeFault is a sample that could not be taken.
type ModeFault struct {
	Turn
	Started time.Time `json:"started"`
	Error   string    `json:"error"`
}

// Result sums up the campaign so far. It is pure and may be called at any time.
func (c *ModesCampaign) Result() *Modes {
	p := &c.Plan
	m := &Modes{
		Schema: SchemaModes, Name: c.Name, Host: c.Host, Environment: c.Environment, Started: c.Started,
		Native: p.Native, Modes: p.Modes, Workloads: p.Workloads, Seed: p.Seed, Notes: p.Notes, Conditions: c.Before,
		Order: []string{}, Rows: []ModeRow{}, Runs: []Run{}, Failures: []ModeFault{}, Warnings: []Warning{},
	}
	for i := range c.Cells {
		cell := &c.Cells[i]
		m.Seconds += cell.Seconds
		m.Blocks = max(m.Blocks, cell.Block+1)
		if cell.Sample == nil {
			m.Failures = append(m.Failures, ModeFault{Turn: cell.Turn, Started: cell.Started, Error: cell.Error})
			continue
		}
		m.Samples++
		m.Order = append(m.Order, cell.Mode+"/"+cell.Workload)
	}
	for _, w := range p.Workloads {
		for _, mode := range p.Modes {
			run := c.run(mode, w)
			row := c.row(&run, w)
			m.Missing += max(p.Min-len(row.Samples), 0)
			m.Rows, m.Runs = append(m.Rows, row), append(m.Runs, run)
		}
	}
	m.Partial = !c.Ended || m.Missing > 0
	c.warn(m)
	return m
}

// run returns the samples of a series as a run.
func (c *ModesCampaign) run(mode Mode, w Workload) Run {
	r := Run{
		Schema: Schema, Kind: w.Kind, Name: mode.Name, Host: c.Host, Environment: c.Environment, Load: w.Load,
		Started: c.Started,
	}
	r.Load.Repeat = c.Plan.Min
	var deltas [][]Delta
	for _, cell := range c.series(mode.Name, w.Name) {
		if len(r.Samples) == 0 {
			r.Started = cell.Started
		}
		r.Samples, deltas = append(r.Samples, *cell.Sample), append(deltas, cell.Counters)
		r.Seconds += cell.Seconds
		r.From, r.To = cell.From, cell.To
		r.Environment.Generator, r.Environment.Sink = cell.Generator, cell.Sink
		r.Environment.FarHost, r.Environment.FarKernel = cell.FarHost, cell.FarKernel
		r.Environment.Engine = cell.Engine
		for _, warning := range cell.Warnings {
			r.Warn(warning)
		}
		if b := cell.Baseline; b != nil {
			r.Baseline = *b
		}
	}
	r.Baseline.BusyCPUs = c.Before.BusyCPUs
	r.Counters = sumDeltas(deltas)
	r.Load.Repeat = max(r.Load.Repeat, len(r.Samples))
	r.Partial = len(r.Samples) < c.Plan.Min
	r.Judge()
	if w.Search > 0 {
		c.limitSearches(&r, w)
	}
	return r
}

// limitSearches sets what limited a row of searches: the limit of the first search that the device did not limit.
func (c *ModesCampaign) limitSearches(r *Run, w Workload) {
	r.LimitedBy, r.Evidence = ByUnknown, []string{"no search was completed"}
	for _, cell := range c.series(r.Name, w.Name) {
		r.LimitedBy, r.Evidence = cell.LimitedBy, []string{"each sample is the lower bound of a search for the " +
			"highest rate without loss"}
		if cell.LimitedBy != ByDevice {
			return
		}
	}
}

// row returns the table row of a run.
func (c *ModesCampaign) row(r *Run, w Workload) ModeRow {
	row := ModeRow{
		Mode: r.Name, Workload: w.Name, Kind: w.Kind, Unit: w.Kind.Unit(), Median: MedianAt(r.Values(), c.Plan.Level),
		Samples: r.Values(), Settled: c.settled(r.Name, w.Name, len(r.Samples)), LimitedBy: r.LimitedBy,
		Percentiles: []Percentile{},
	}
	row.Median.Unit = row.Unit
	var idle, cost []float64
	for i := range r.Samples {
		s := &r.Samples[i]
		if share, known := s.idle(); known {
			idle = append(idle, share)
		}
		cost = append(cost, s.CPUNsPerUnit)
	}
	row.CPUIdle, row.CPUNs = MedianAt(idle, c.Plan.Level), MedianAt(cost, c.Plan.Level)
	row.CPUIdle.Unit, row.CPUNs.Unit = "%", "ns/"+countedUnit(w.Kind)
	if r.Kind == PPS && r.Sent > 0 {
		loss := float64(r.Lost) / float64(r.Sent)
		row.Loss = &loss
	}
	if l := r.Latency; l != nil {
		row.What, row.Percentiles = l.What, l.Percentiles
	}
	if w.Search > 0 {
		row.Loss = nil
		row.Search = c.rates(r.Name, w)
	}
	if c.Plan.Native != "" && r.Name != c.Plan.Native {
		row.compare(c.pairedBlocks(r.Name, w))
	}
	return row
}

// rates returns the median rates of the searches of a row.
func (c *ModesCampaign) rates(mode string, w Workload) *ModeRates {
	rates := &ModeRates{}
	var upper, pdr, pdrUpper []float64
	add := func(to *[]float64, pps *float64) {
		if pps != nil {
			*to = append(*to, *pps)
		}
	}
	for _, cell := range c.series(mode, w.Name) {
		if cell.Search == nil {
			continue
		}
		add(&upper, cell.Search.NDR.UpperPPS)
		add(&pdr, cell.Search.PDR.LowerPPS)
		add(&pdrUpper, cell.Search.PDR.UpperPPS)
		rates.Seconds += cell.Search.Seconds
		if cell.Search.NDR.None != "" {
			rates.None = cell.Search.NDR.None
		}
	}
	for to, values := range map[**float64][]float64{&rates.NDRUpper: upper, &rates.PDRLower: pdr,
		&rates.PDRUpper: pdrUpper} {
		if len(values) > 0 {
			median := Median(values).Value
			*to = &median
		}
	}
	return rates
}

// countedUnit returns what a sample of a kind counts, the unit of its CPU cost.
func countedUnit(k Kind) string {
	if k == Stream {
		return "byte"
	}
	return strings.TrimSuffix(k.Unit(), "/s")
}

// compare sets the percentage of the native mode.
func (row *ModeRow) compare(blocks []Block) {
	if len(blocks) == 0 {
		return
	}
	comparison := CompareBlocks(blocks)
	row.Differs = comparison.Significant
	if comparison.Ratio.N == 0 {
		return
	}
	e := comparison.Ratio
	e.Value, e.Lo, e.Hi, e.Unit = 100*e.Value, 100*e.Lo, 100*e.Hi, "%"
	row.Percent = &e
}

// pairedBlocks returns the values of the native mode (A) and of another mode (B) for the blocks that have both.
func (c *ModesCampaign) pairedBlocks(mode string, w Workload) []Block {
	native, other := map[int]float64{}, map[int]float64{}
	for _, cell := range c.series(c.Plan.Native, w.Name) {
		native[cell.Block] = cell.Sample.Value(w.Kind)
	}
	for _, cell := range c.series(mode, w.Name) {
		other[cell.Block] = cell.Sample.Value(w.Kind)
	}
	var blocks []Block
	for block := range c.Plan.Max {
		a, hasA := native[block]
		b, hasB := other[block]
		if hasA && hasB {
			blocks = append(blocks, Block{A: []float64{a}, B: []float64{b}})
		}
	}
	return blocks
}

// idle returns the idle share of the near machine's CPU time in percent, stolen time not counted.
func (s *Sample) idle() (percent float64, known bool) {
	if len(s.CPU) == 0 {
		return 0, false
	}
	total := s.CPU[0].Total()
	all := total.Busy() + total.Idle
	if all <= 0 {
		return 0, false
	}
	return 100 * total.Idle / all, true
}

// SchemaCampaign is the version of the format of an unfinished campaign: lines of JSON, first the plan, then one sample
// per line in the order taken. Each line is written in one go; a truncated last line is ignored.
const SchemaCampaign = "mpps.campaign/1"

// CampaignLine is one line of such a file.
type CampaignLine struct {
	Schema   string         `json:"schema"`
	Campaign *ModesCampaign `json:"campaign,omitempty"` // only in the first line
	Cell     *ModeCell      `json:"cell,omitempty"`     // in all others
}

// EncodeCampaign writes the first line.
func EncodeCampaign(w io.Writer, c *ModesCampaign) error {
	return encodeLine(w, CampaignLine{Schema: SchemaCampaign, Campaign: c})
}

// EncodeCell writes the line of one sample.
func EncodeCell(w io.Writer, cell *ModeCell) error {
	return encodeLine(w, CampaignLine{Schema: SchemaCampaign, Cell: cell})
}

func encodeLine(w io.Writer, line CampaignLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ErrNotACampaign is wrapped by every error about the content of a campaign file.
var ErrNotACampaign = errors.New("not a campaign file")

// DecodeCampaign reads an unfinished campaign. whole is the number of bytes in complete lines; whatever follows is
// truncated and to be overwritten.
func DecodeCampaign(r io.Reader) (c *ModesCampaign, whole int64, err error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, 0, err
	}
	if len(text) > maxFile {
		return nil, 0, fmt.Errorf("%w: larger than %d MiB", ErrNotACampaign, maxFile>>20)
	}
	for n := 1; ; n++ {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		if !complete {
			break
		}
		var l CampaignLine
		if err := strictjson.Unmarshal(line, &l); err != nil {
			return nil, 0, fmt.Errorf("%w: line %d: %w", ErrNotACampaign, n, err)
		}
		switch {
		case l.Schema != SchemaCampaign:
			return nil, 0, fmt.Errorf("%w: line %d: found schema %q, expected %q", ErrNotACampaign, n, l.Schema,
				SchemaCampaign)
		case n == 1 && l.Campaign != nil:
			c = l.Campaign
			if err := c.Plan.Check(); err != nil {
				return nil, 0, fmt.Errorf("%w: the plan: %w", ErrNotACampaign, err)
			}
		case n > 1 && l.Cell != nil:
			if err := c.add(*l.Cell); err != nil {
				return nil, 0, fmt.Errorf("%w: line %d: %w", ErrNotACampaign, n, err)
			}
		default:
			return nil, 0, fmt.Errorf("%w: line %d: expected the plan first, then samples", ErrNotACampaign, n)
		}
		whole += int64(len(line)) + 1
		text = rest
	}
	if c == nil {
		return nil, 0, fmt.Errorf("%w: found no whole line", ErrNotACampaign)
	}
	return c, whole, nil
}

// add adds a sample from a file if it belongs to the plan.
func (c *ModesCampaign) add(cell ModeCell) error {
	_, w, err := c.Plan.Of(cell.Turn)
	if err != nil {
		return err
	}
	if cell.Block < 0 || cell.Block >= c.Plan.Max {
		return fmt.Errorf("found a sample of block %d, expected 0 to %d", cell.Block, c.Plan.Max-1)
	}
	if s := cell.Sample; s != nil {
		if v := s.Value(w.Kind); !(v >= 0 && v <= 1e15) {
			return fmt.Errorf("found %g %s", v, w.Kind.Unit())
		}
	}
	c.Cells = append(c.Cells, cell)
	return nil
}

// ErrModes is wrapped if a campaign over NIC modes, which holds many runs, was found instead of a run.
var ErrModes = errors.New("a campaign over NIC modes, not a single run")

// DecodeModes reads a campaign's result: a bare one, or a --json answer of bench with it as the result.
func DecodeModes(reader io.Reader) (*Modes, error) {
	m, err := decode[Modes](reader, SchemaModes)
	if err != nil {
		return nil, err
	}
	if len(m.Runs) != len(m.Rows) {
		return nil, fmt.Errorf("%w: %d rows and %d runs: expected a run for each row", ErrNotARun, len(m.Rows),
			len(m.Runs))
	}
	for i := range m.Runs {
		if err := m.Runs[i].check(); err != nil {
			return nil, err
		}
	}
	return m, nil
}
