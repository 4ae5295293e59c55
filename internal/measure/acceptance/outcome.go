package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"mpps/internal/advise/queuepath"
	"mpps/internal/measure"
	"mpps/internal/measure/search"
	"mpps/internal/measure/wakeup"
)

// Outcomes are the answers of a run's measurements, by step.
type Outcomes struct {
	Runs     map[string]*measure.Run
	Searches map[string]*measure.Search
	Modes    map[string]*measure.Modes
	Wakeups  map[string]*wakeup.File
	Paths    map[string]*queuepath.Path
	Emulated bool // one of them was measured under emulation
	Short    bool // in the short form
}

// Add reads a step's answer if it is to be judged.
func (o *Outcomes) Add(step string, gives Gives, answer []byte) error {
	var emulated bool
	switch gives {
	case GivesRun:
		r, err := put(&o.Runs, step, answer, measure.Decode)
		if err != nil {
			return err
		}
		if r.Median.N == 0 {
			r.Median = measure.Median(r.Values())
		}
		emulated = r.Environment.Emulated
	case Searched:
		s, err := put(&o.Searches, step, answer, measure.DecodeSearch)
		if err != nil {
			return err
		}
		emulated = s.Environment.Emulated
	case Campaign:
		m, err := put(&o.Modes, step, answer, measure.DecodeModes)
		if err != nil {
			return err
		}
		emulated = m.Environment.Emulated ||
			slices.ContainsFunc(m.Warnings, func(w measure.Warning) bool { return w.Code == "emulated" })
	case Wakeups:
		w, err := put(&o.Wakeups, step, answer, wakeup.Decode)
		if err != nil {
			return err
		}
		emulated = w.Environment.Emulated
	case Watched:
		if _, err := put(&o.Paths, step, answer, decodePath); err != nil {
			return err
		}
	}
	o.Emulated = o.Emulated || emulated
	return nil
}

// put decodes a step's answer and adds it to the others.
func put[T any](all *map[string]*T, step string, answer []byte, decode func(io.Reader) (*T, error)) (*T, error) {
	one, err := decode(bytes.NewReader(answer))
	if err != nil {
		return nil, fmt.Errorf("answer of step %s: %w", step, err)
	}
	if *all == nil {
		*all = map[string]*T{}
	}
	(*all)[step] = one
	return one, nil
}

// baseLimited says why a ratio is uncertain whose base the generator or receiver limited.
func baseLimited(by string) string {
	return "what it is compared with was limited by the " + by + ": the ratio may be larger or smaller"
}

// rateOf returns a function that reads the median of a run.
func rateOf(step string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		r := o.Runs[step]
		if r == nil {
			return Measured{}, false
		}
		return Measured{Value: r.Median.Value, Lo: r.Median.Lo, Hi: r.Median.Hi, N: r.Median.N, Unit: r.Kind.Unit(),
			AtLeast: !r.Valid(), LimitedBy: string(r.LimitedBy)}, true
	}
}

// ratioOf returns a function that reads the second run's rate as a multiple of the first.
func ratioOf(before, after string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		b, a := o.Runs[before], o.Runs[after]
		if b == nil || a == nil {
			return Measured{}, false
		}
		e := measure.Compare(b.Values(), a.Values()).Ratio
		if e.N == 0 {
			return Measured{Unit: "×", None: "one of the two rates is 0"}, true
		}
		m := Measured{Value: e.Value, Lo: e.Lo, Hi: e.Hi, N: min(len(a.Samples), len(b.Samples)), Unit: "×",
			AtLeast: !a.Valid(), LimitedBy: string(a.LimitedBy)}
		if !b.Valid() {
			m.Uncertain = baseLimited(string(b.LimitedBy))
		}
		return m, true
	}
}

// ndrOf and pdrOf return functions that read a search: its rate without loss, and with its share of loss.
func ndrOf(step string) func(*Outcomes) (Measured, bool) { return boundOf(step, false) }
func pdrOf(step string) func(*Outcomes) (Measured, bool) { return boundOf(step, true) }

func boundOf(step string, partial bool) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		s := o.Searches[step]
		if s == nil {
			return Measured{}, false
		}
		return bound(s, partial), true
	}
}

func bound(s *measure.Search, partial bool) Measured {
	found := &s.NDR
	if partial {
		found = &s.PDR
	}
	m := Measured{N: s.Trials, Unit: "packet/s", AtLeast: !s.Valid() || s.LimitedBy == string(measure.ByNothing),
		LimitedBy: s.LimitedBy}
	if m.LimitedBy == string(measure.ByNothing) {
		m.LimitedBy = "highest load that was asked for"
	}
	if found.LowerPPS == nil {
		m.None = "no lower bound was found"
		if found.None != "" {
			m.None = found.None
		}
		return m
	}
	m.Value, m.Lo, m.Hi = *found.LowerPPS, *found.LowerPPS, upper(found)
	if s.Partial {
		m.Uncertain = "the search ended early"
	}
	return m
}

func upper(f *search.Found) float64 {
	if f.UpperPPS == nil {
		return *f.LowerPPS
	}
	return *f.UpperPPS
}

// gainOf returns a function that reads the second search's rate as a multiple of the first.
func gainOf(before, after string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		if o.Searches[before] == nil || o.Searches[after] == nil {
			return Measured{}, false
		}
		b, a := bound(o.Searches[before], false), bound(o.Searches[after], false)
		m := Measured{N: min(a.N, b.N), Unit: "×", AtLeast: a.AtLeast, LimitedBy: a.LimitedBy}
		switch {
		case b.Lo <= 0 || a.None != "" || b.None != "":
			m.None = "one of the two rates does not exist"
		case b.AtLeast:
			m.Uncertain = baseLimited(b.LimitedBy)
			fallthrough
		default:
			m.Value, m.Lo, m.Hi = a.Lo/b.Lo, a.Lo/b.Hi, a.Hi/b.Lo
		}
		return m, true
	}
}

// worstOf and averageOf return functions that read the longest wake-up and the mean, with the single runs as spread.
func worstOf(step string) func(*Outcomes) (Measured, bool) {
	return wakeupsOf(step, func(l *measure.Latency) float64 { return float64(l.MaxNs) })
}

func averageOf(step string) func(*Outcomes) (Measured, bool) {
	return wakeupsOf(step, func(l *measure.Latency) float64 { return l.MeanNs })
}

func wakeupsOf(step string, ns func(*measure.Latency) float64) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		w := o.Wakeups[step]
		if w == nil || w.Total.Latency == nil {
			return Measured{}, false
		}
		m := Measured{Value: ns(w.Total.Latency) / 1e3, Unit: "µs", Tool: w.Tool.Name}
		m.Lo, m.Hi = m.Value, m.Value
		for _, r := range w.Runs {
			if r.Latency == nil {
				continue
			}
			m.N++
			m.Lo, m.Hi = min(m.Lo, ns(r.Latency)/1e3), max(m.Hi, ns(r.Latency)/1e3)
		}
		if w.Partial {
			m.Uncertain = "the measurement ended early"
		}
		return m, true
	}
}
