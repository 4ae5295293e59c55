package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"mpps/internal/measure/search"
)

// SchemaSearch is the version of the format of saved searches.
const SchemaSearch = "mpps.searched/1"

// ErrSearch is wrapped if a search, which has trials at many rates, was found instead of a run.
var ErrSearch = errors.New("a search for the highest rates, not a single run")

// Search is a search and its circumstances, as saved files and --json contain it.
type Search struct {
	Schema string `json:"schema"`
	Name   string `json:"name,omitempty"` // a label for people
	search.Result

	Host        string      `json:"host"`
	Environment Environment `json:"environment"`
	From        Endpoint    `json:"from"`
	To          Endpoint    `json:"to"`
	Command     string      `json:"trial_command,omitempty"` // the program that ran the trials
	Started     time.Time   `json:"started"`
	WallSeconds float64     `json:"wall_seconds"` // including pauses and baselines
	FrameBytes  int         `json:"frame_bytes"`
	Flows       int         `json:"flows,omitempty"`
	MinPPS      float64     `json:"min_pps"`
	MaxPPS      float64     `json:"max_pps"`
	Evidence    []string    `json:"evidence"` // the reasons for LimitedBy, as sentences with figures
	Baseline    Baseline    `json:"baseline"`
	Counters    []Delta     `json:"counters"`
	Losses      []Loss      `json:"losses"` // where packets were lost over all trials, largest first
	Warnings    []Warning   `json:"warnings"`
}

// Valid reports whether the device under test, and not the measuring gear, set the result.
func (s *Search) Valid() bool {
	return s.LimitedBy != string(ByGenerator) && s.LimitedBy != string(ByReceiver)
}

// Warn adds a warning unless there is one with its code.
func (s *Search) Warn(w Warning) { s.Warnings = addWarning(s.Warnings, w) }

// DecodeSearch reads a search: a bare one, or a --json answer with it as the result.
func DecodeSearch(reader io.Reader) (*Search, error) {
	s, err := decode[Search](reader, SchemaSearch)
	if err != nil {
		return nil, err
	}
	return s, s.Check()
}

// Searched is a path that can be searched: it implements search.Device.
type Searched struct {
	Bench *Bench
	Load  Load // common to all trials

	Overrun uint64 // packets of all trials that reached the receiver and found its ring full
	Lost    uint64
	short   shortfall // of the trials whose rate was not reached
}

// Trial runs one trial of a search.
func (d *Searched) Trial(ctx context.Context, t search.Trial) (search.Outcome, error) {
	load := d.Load
	load.Rate, load.Duration = t.PPS, time.Duration(t.Seconds*float64(time.Second))
	s, err := d.Bench.Trial(ctx, load)
	if err != nil {
		return search.Outcome{}, err
	}
	if err := context.Cause(ctx); err != nil { // cut short: it did not carry the whole load
		return search.Outcome{}, err
	}
	d.Overrun += s.Overrun
	d.Lost += s.Lost
	if float64(s.Sent) < paced*load.Offered()*s.Seconds {
		d.short.add(s, load.Offered())
	}
	return search.Outcome{Sent: s.Sent, Received: s.Sent - min(s.Lost, s.Sent), Seconds: s.Seconds}, nil
}

// Search measures generator and receiver alone, searches and judges. If the options name no highest rate, it is what
// the generator can do alone. The caller fills in what it knows of s. If Search returns an error, s is partial.
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
		s.Warn(noCounters(err))
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
			counted := Run{Counters: s.Counters, To: s.To, Received: receivedFrames(r.Tried)}
			s.Losses, _ = LocateLoss(counted.withoutSink(), d.Lost)
		}
	}
	s.WallSeconds = time.Since(started).Seconds()
	s.judge(d)
	return err
}

func receivedFrames(all []search.Tried) (n uint64) {
	for _, t := range all {
		n += t.Outcome.Received
	}
	return n
}

// judge sets what limited the result.
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
		if s.LimitedBy = string(ByDevice); busyShare(s.Baseline, s.Environment.CPUs) > disturbed {
			s.LimitedBy = string(ByUnknown)
			s.Evidence = append(s.Evidence, fmt.Sprintf("%.1f CPUs were busy while nothing was sent: the generator "+
				"may have been late for want of CPU time, or the path have held it back", s.Baseline.BusyCPUs))
		} else if d.short.starved() {
			s.LimitedBy = string(ByUnknown)
			s.Evidence = append(s.Evidence, d.short.String())
		} else {
			s.Evidence = append(s.Evidence, "the path, which runs on the sender's CPU, held it back without losing "+
				"anything: the rate that was sent is its limit")
		}
	case s.LimitedBy == "load":
		s.LimitedBy = string(ByNothing)
		if g := s.Baseline.Generator; g != nil && g.PPS > 0 && s.MaxPPS >= g.PPS*paced {
			s.LimitedBy = string(ByGenerator)
			s.Evidence = append(s.Evidence, fmt.Sprintf("nothing was lost at the most that the generator can do, %s",
				rate(g.PPS)))
		}
	}
	if s.Environment.Emulated {
		s.Warn(emulatedWarning)
	}
	s.Baseline.warnOfLoad(s.Warn)
}
