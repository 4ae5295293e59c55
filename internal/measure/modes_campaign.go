package measure

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mpps/internal/measure/search"
)

// ModeCell is one sample of a campaign and its circumstances, or the error that prevented it.
type ModeCell struct {
	Turn
	Started time.Time `json:"started"`
	Seconds float64   `json:"seconds"` // wall clock, set-up and teardown included
	Error   string    `json:"error,omitempty"`
	Sample  *Sample   `json:"sample,omitempty"`
	// Search is the search that the sample comes from, if the workload searches, and LimitedBy what limited its result.
	Search    *search.Result `json:"search,omitempty"`
	LimitedBy Limit          `json:"limited_by,omitempty"`
	Counters  []Delta        `json:"counters,omitempty"`
	Baseline  *Baseline      `json:"baseline,omitempty"` // of a mode's first cell with this workload
	From      Endpoint       `json:"from"`
	To        Endpoint       `json:"to"`
	Generator string         `json:"generator,omitempty"` // how test frames were sent: xdp, af_packet
	Sink      string         `json:"sink,omitempty"`
	Engine    string         `json:"engine,omitempty"` // name and version of another program that made a conversation
	FarHost   string         `json:"far_host,omitempty"`
	FarKernel string         `json:"far_kernel,omitempty"`
	Warnings  []Warning      `json:"warnings,omitempty"`
}

// ModesCampaign is a campaign so far.
type ModesCampaign struct {
	Name        string      `json:"name,omitempty"` // a label for people
	Host        string      `json:"host"`
	Environment Environment `json:"environment"`
	Started     time.Time   `json:"started"`
	Plan        ModesPlan   `json:"plan"`
	Before      Conditions  `json:"conditions_before"`
	Cells       []ModeCell  `json:"-"` // in the order taken
	Ended       bool        `json:"-"` // everything was measured, or given up
	After       *Conditions `json:"-"`
}

// tries is how often a turn is tried before its block goes on without it. maxFailures is how many failures in a row end
// a mode's part in the campaign: its guest is gone.
const (
	tries       = 2
	maxFailures = 4
)

// series returns the cells of a mode and workload that have a sample, in order.
func (c *ModesCampaign) series(mode, workload string) []*ModeCell {
	var cells []*ModeCell
	for i := range c.Cells {
		if cell := &c.Cells[i]; cell.Mode == mode && cell.Workload == workload && cell.Sample != nil {
			cells = append(cells, cell)
		}
	}
	return cells
}

// settled reports whether a series needs no more samples, given those of the blocks below before.
func (c *ModesCampaign) settled(mode, workload string, before int) bool {
	var values []float64
	w, _ := c.Plan.workload(workload)
	for _, cell := range c.series(mode, workload) {
		if cell.Block < before {
			values = append(values, cell.Sample.Value(w.Kind))
		}
	}
	p := &c.Plan
	switch {
	case before < p.Min:
		return false
	case before >= p.Max || p.Width == 0:
		return true
	}
	e := MedianAt(values, p.Level)
	return e.Level >= p.Level && e.Hi-e.Lo <= p.Width*e.Value
}

// GivenUp reports whether a mode failed so often in a row that it is no longer measured.
func (c *ModesCampaign) GivenUp(mode string) bool {
	row := 0
	for i := range c.Cells {
		switch cell := &c.Cells[i]; {
		case cell.Mode != mode:
		case cell.Sample == nil:
			row++
		default:
			row = 0
		}
	}
	return row >= maxFailures
}

// due returns the turns of a block, done or not: those of every series that needs more samples, and the native mode's
// as long as another mode is compared with it.
func (c *ModesCampaign) due(block int) []Turn {
	open := map[string]bool{} // workloads with a series that is not settled
	for _, w := range c.Plan.Workloads {
		for _, m := range c.Plan.Modes {
			if !c.GivenUp(m.Name) && !c.settled(m.Name, w.Name, block) {
				open[w.Name] = true
			}
		}
	}
	return slices.DeleteFunc(c.Plan.Block(block), func(t Turn) bool {
		if c.GivenUp(t.Mode) || !open[t.Workload] {
			return true
		}
		return t.Mode != c.Plan.Native && c.settled(t.Mode, t.Workload, block)
	})
}

// Next returns the next turn, and false if the campaign is over. A turn that failed is tried again at the end of its
// block.
func (c *ModesCampaign) Next() (Turn, bool) {
	for block := range c.Plan.Max {
		due := c.due(block)
		if len(due) == 0 {
			break
		}
		for try := range tries {
			for _, t := range due {
				if good, failed := c.attempts(t); !good && failed <= try {
					return t, true
				}
			}
		}
	}
	return Turn{}, false
}

// attempts returns whether a turn has a sample, and how often it failed.
func (c *ModesCampaign) attempts(t Turn) (good bool, failed int) {
	for i := range c.Cells {
		if cell := &c.Cells[i]; cell.Turn == t {
			if cell.Sample != nil {
				return true, failed
			}
			failed++
		}
	}
	return false, failed
}

// Forgive drops failed cells, so that they are tried again: the user says that the cause is gone.
func (c *ModesCampaign) Forgive() {
	c.Cells = slices.DeleteFunc(c.Cells, func(cell ModeCell) bool { return cell.Sample == nil })
}

// ModesProgress is how far a campaign has got.
type ModesProgress struct {
	Turn    Turn // that is about to begin
	Done    int  // samples taken
	AtLeast int  // samples in total if every series settles as early as it can …
	AtMost  int  // … and if none does
	Left    time.Duration
	LeftMax time.Duration
}

// Progress returns how far the campaign has got. It estimates the time left from the turns of each workload so far.
func (c *ModesCampaign) Progress() ModesProgress {
	p := ModesProgress{}
	p.Turn, _ = c.Next()
	spent, count := map[string]float64{}, map[string]int{}
	for i := range c.Cells {
		cell := &c.Cells[i]
		spent[cell.Workload], count[cell.Workload] = spent[cell.Workload]+cell.Seconds, count[cell.Workload]+1
		if cell.Sample != nil {
			p.Done++
		}
	}
	p.AtLeast, p.AtMost = p.Done, p.Done
	for _, w := range c.Plan.Workloads {
		each := w.Guess()
		if count[w.Name] > 0 {
			each = time.Duration(spent[w.Name] / float64(count[w.Name]) * float64(time.Second))
		}
		for _, m := range c.Plan.Modes {
			have := len(c.series(m.Name, w.Name))
			if c.GivenUp(m.Name) || c.settled(m.Name, w.Name, have) {
				continue
			}
			least := max(c.Plan.Min-have, 1)
			most := least
			if c.Plan.Width > 0 {
				most = max(c.Plan.Max-have, least)
			}
			p.AtLeast, p.AtMost = p.AtLeast+least, p.AtMost+most
			p.Left, p.LeftMax = p.Left+time.Duration(least)*each, p.LeftMax+time.Duration(most)*each
		}
	}
	return p
}

// Run takes turns until the campaign is over or ctx ends. take measures one turn: it records a failed sample in the
// cell's Error, and its own error ends the campaign. So does an error of save, which is called after each turn. A turn
// that ctx cut short does not count.
func (c *ModesCampaign) Run(ctx context.Context, take func(context.Context, Turn) (ModeCell, error),
	save func(ModeCell) error, progress func(ModesProgress)) error {
	for ctx.Err() == nil {
		turn, more := c.Next()
		if !more {
			c.Ended = true
			return nil
		}
		progress(c.Progress())
		cell, err := take(ctx, turn)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("%s of mode %s: %w", turn.Workload, turn.Mode, err)
		}
		cell.Turn = turn
		if cell.Sample == nil && cell.Error == "" {
			cell.Error = "no sample and no reason"
		}
		c.Cells = append(c.Cells, cell)
		if err := save(cell); err != nil {
			return fmt.Errorf("save the campaign: %w", err)
		}
	}
	return nil
}
