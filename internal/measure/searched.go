package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"mpps/internal/measure/search"
)

// SchemaSearch is the version of the format of saved searches.
const SchemaSearch = "mpps.searched/1"

// ErrSearch is wrapped where a run was expected and a search found, which has trials at many rates.
var ErrSearch = errors.New("a search for the highest rates, not a single run")

// Search is a search with what it was done with, as files and answers have it.
type Search struct {
	Schema string `json:"schema"`
	Name   string `json:"name,omitempty"` // a label for people
	search.Result

	Host        string      `json:"host"`
	Environment Environment `json:"environment"`
	From        Endpoint    `json:"from"`
	To          Endpoint    `json:"to"`
	Command     string      `json:"trial_command,omitempty"` // that did the trials
	Started     time.Time   `json:"started"`
	WallSeconds float64     `json:"wall_seconds"` // pauses and baselines included
	FrameBytes  int         `json:"frame_bytes"`
	Flows       int         `json:"flows,omitempty"`
	MinPPS      float64     `json:"min_pps"`
	MaxPPS      float64     `json:"max_pps"`
	Evidence    []string    `json:"evidence"` // why LimitedBy says so, as sentences with figures
	Baseline    Baseline    `json:"baseline"`
	Counters    []Delta     `json:"counters"`
	Losses      []Loss      `json:"losses"` // where packets were seen to be lost over all trials, largest first
	Warnings    []Warning   `json:"warnings"`
}

// Valid reports whether the device under test, and not a part of the measuring gear, set the result.
func (s *Search) Valid() bool {
	return s.LimitedBy != string(ByGenerator) && s.LimitedBy != string(ByReceiver)
}

// Warn adds a warning unless one of that code is there.
func (s *Search) Warn(w Warning) {
	for _, have := range s.Warnings {
		if have.Code == w.Code {
			return
		}
	}
	s.Warnings = append(s.Warnings, w)
}

// DecodeSearch reads a search: the bare one, or a --json answer with it as the result.
func DecodeSearch(reader io.Reader) (*Search, error) {
	text, err := content(reader)
	if err != nil {
		return nil, err
	}
	s := &Search{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotARun, err)
	}
	if s.Schema != SchemaSearch {
		return nil, fmt.Errorf("%w: found schema %q, expected %q", ErrNotARun, s.Schema, SchemaSearch)
	}
	return s, s.Check()
}

// Searched is a path as a search sees it.
type Searched struct {
	Bench *Bench
	Load  Load // what all trials have in common

	Overrun uint64 // packets of all trials that reached the receiver and found its ring full
	Lost    uint64
	last    *Sample
}

// Trial does a trial of a search.
func (d *Searched) Trial(ctx context.Context, t search.Trial) (search.Outcome, error) {
	load := d.Load
	load.Rate, load.Duration = t.PPS, time.Duration(t.Seconds*float64(time.Second))
	s, err := d.Bench.Trial(ctx, load)
	if err != nil {
		return search.Outcome{}, err
	}
	if err := context.Cause(ctx); err != nil { // cut short: its load was another one
		return search.Outcome{}, err
	}
	d.last = &s
	d.Overrun += s.Overrun
	d.Lost += s.Lost
	return search.Outcome{Sent: s.Sent, Received: s.Sent - min(s.Lost, s.Sent), Seconds: s.Seconds}, nil
}

// Search measures generator and receiver alone, searches and judges. The highest load is what the generator can do
// where the options name none. What the caller knows from elsewhere is in s already. The result is partial where an
// error comes with it.
func (d *Searched) Search(ctx context.Context, s *Search, o search.Options) error {
	started := time.Now()
	s.Schema, s.Started = SchemaSearch, started.UTC()
	base := Run{Load: d.Load}
	if base.Load.Duration = time.Second; o.MaxPPS > 0 {
		base.Load.Rate = o.MaxPPS
	}
	err := d.Bench.baselines(ctx, &base)
	s.Baseline = base.Baseline
	if g := s.Baseline.Generator; err == nil && o.MaxPPS == 0 {
		if g == nil || g.PPS == 0 {
			return errors.New("what the generator can do could not be measured: give the highest rate")
		}
		o.MaxPPS = g.PPS
		o.MinPPS = min(o.MinPPS, g.PPS/2)
	}
	if err != nil {
		return err
	}
	if err := d.Bench.campaign().idle(ctx, &base); err != nil {
		return err
	}
	s.Baseline.BusyCPUs = base.Baseline.BusyCPUs
	s.MinPPS, s.MaxPPS, s.FrameBytes, s.Flows = o.MinPPS, o.MaxPPS, o.FrameBytes, d.Load.Flows
	before, err := d.Bench.Path.Counters(ctx)
	if err != nil {
		s.Warn(Warning{Code: "no-counters", Text: "the interface counters could not be read: " + err.Error(),
			Hint: "losses cannot be located without them"})
	}
	r, err := search.Run(ctx, d, o)
	if r == nil {
		return err
	}
	s.Result = *r
	if before != nil {
		after, wrong := d.Bench.Path.Counters(context.WithoutCancel(ctx))
		if wrong == nil {
			s.Counters = Deltas(before, after)
			counted := Run{Counters: s.Counters, To: s.To, Received: received(r.Tried)}
			s.Losses, _ = LocateLoss(counted.withoutSink(), d.Lost)
		}
	}
	s.WallSeconds = time.Since(started).Seconds()
	s.judge(d)
	return err
}

func received(all []search.Tried) (n uint64) {
	for _, t := range all {
		n += t.Outcome.Received
	}
	return n
}

// judge tells what set the result.
func (s *Search) judge(d *Searched) {
	top := 0.0
	if s.NDR.EstimatePPS != nil {
		top = *s.NDR.EstimatePPS
	}
	switch c := s.Baseline.Receiver; {
	case d.Lost > 0 && d.Overrun*2 >= d.Lost:
		s.LimitedBy = string(ByReceiver)
		s.Evidence = append(s.Evidence, fmt.Sprintf("%d of %d lost packets had reached the receiver and found its "+
			"ring full", d.Overrun, d.Lost))
	case c != nil && c.PPS > 0 && !c.AtLeast && s.NDR.UpperPPS != nil && top*headroom > c.PPS:
		s.LimitedBy = string(ByReceiver)
		s.Evidence = append(s.Evidence, fmt.Sprintf("the receiver alone (%s) counts %s, less than %g × what was found",
			c.How, rate(c.PPS), headroom))
	case s.LimitedBy == string(ByGenerator):
		g := s.Baseline.Generator
		if g == nil || g.PPS < top*headroom {
			s.Evidence = append(s.Evidence, fmt.Sprintf("the generator could not send what it was asked for, up to %s",
				rate(s.MaxPPS)))
			break
		}
		s.Evidence = append(s.Evidence, fmt.Sprintf("the generator alone (%s) does %s, at least %g × what it sent here",
			g.How, rate(g.PPS), headroom))
		if s.LimitedBy = string(ByDevice); s.Baseline.BusyCPUs > disturb {
			s.LimitedBy = string(ByUnknown)
			s.Evidence = append(s.Evidence, fmt.Sprintf("%.1f CPUs were busy while nothing was sent: the generator "+
				"may have been late for want of CPU time, or the path have held it back", s.Baseline.BusyCPUs))
		} else {
			s.Evidence = append(s.Evidence, "the path, which runs on the sender's CPU, held it back without losing "+
				"anything: the rate that was sent is its limit")
		}
	case s.LimitedBy == "load":
		s.LimitedBy = string(ByNothing)
		if g := s.Baseline.Generator; g != nil && g.PPS > 0 && s.MaxPPS >= g.PPS*kept {
			s.LimitedBy = string(ByGenerator)
			s.Evidence = append(s.Evidence, fmt.Sprintf("nothing was lost at the most that the generator can do, %s",
				rate(g.PPS)))
		}
	}
	if s.Environment.Emulated {
		s.Warn(Warning{Code: "emulated", Text: "measured under full emulation: rates and times say nothing about " +
			"hardware, ratios little",
			Hint: "repeat on the real host before deciding by these figures"})
	}
	if s.Baseline.BusyCPUs > disturb {
		s.Warn(Warning{Code: "other-load", Text: fmt.Sprintf("%.1f CPUs were busy while nothing was sent",
			s.Baseline.BusyCPUs), Hint: "end other load"})
	}
}
