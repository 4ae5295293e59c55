package acceptance

import (
	"bytes"
	"fmt"
	"slices"

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
	Emulated bool // one of them was taken under emulation
	Short    bool // in the short form
}

// Add reads a step's answer, if it is one that is judged.
func (o *Outcomes) Add(step string, gives Gives, answer []byte) error {
	var emulated bool
	switch gives {
	case GivesRun:
		r, err := measure.Decode(bytes.NewReader(answer))
		if err != nil {
			return fmt.Errorf("answer of step %s: %w", step, err)
		}
		if r.Median.N == 0 {
			r.Median = measure.Median(r.Values())
		}
		put(&o.Runs, step, r)
		emulated = r.Environment.Emulated
	case Searched:
		s, err := measure.DecodeSearch(bytes.NewReader(answer))
		if err != nil {
			return fmt.Errorf("answer of step %s: %w", step, err)
		}
		put(&o.Searches, step, s)
		emulated = s.Environment.Emulated
	case Campaign:
		m, err := measure.DecodeModes(bytes.NewReader(answer))
		if err != nil {
			return fmt.Errorf("answer of step %s: %w", step, err)
		}
		put(&o.Modes, step, m)
		emulated = m.Environment.Emulated ||
			slices.ContainsFunc(m.Warnings, func(w measure.Warning) bool { return w.Code == "emulated" })
	case Wakeups:
		w, err := wakeup.Decode(bytes.NewReader(answer))
		if err != nil {
			return fmt.Errorf("answer of step %s: %w", step, err)
		}
		put(&o.Wakeups, step, w)
		emulated = w.Environment.Emulated
	}
	o.Emulated = o.Emulated || emulated
	return nil
}

func put[T any](all *map[string]*T, step string, one *T) {
	if *all == nil {
		*all = map[string]*T{}
	}
	(*all)[step] = one
}

// rateOf reads the median of a run.
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

// ratioOf reads how many times more the second run has.
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
			m.Uncertain = fmt.Sprintf("what it is compared with was limited by the %s: the ratio may be larger or "+
				"smaller", b.LimitedBy)
		}
		return m, true
	}
}

// ndrOf and pdrOf read a search: its rate without loss, and within its share of loss.
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

// gainOf reads how many times higher the second search's rate is.
func gainOf(before, after string, partial bool) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		if o.Searches[before] == nil || o.Searches[after] == nil {
			return Measured{}, false
		}
		b, a := bound(o.Searches[before], partial), bound(o.Searches[after], partial)
		m := Measured{N: min(a.N, b.N), Unit: "×", AtLeast: a.AtLeast, LimitedBy: a.LimitedBy}
		switch {
		case b.Lo <= 0 || a.None != "" || b.None != "":
			m.None = "one of the two rates does not exist"
		case b.AtLeast:
			m.Uncertain = fmt.Sprintf("what it is compared with was limited by the %s: the ratio may be larger or "+
				"smaller", b.LimitedBy)
			fallthrough
		default:
			m.Value, m.Lo, m.Hi = a.Lo/b.Lo, a.Lo/b.Hi, a.Hi/b.Lo
		}
		return m, true
	}
}

// percentOf reads a mode's share of native.
func percentOf(mode, workload string) func(*Outcomes) (Measured, bool) {
	return func(o *Outcomes) (Measured, bool) {
		for _, m := range o.Modes {
			for _, r := range m.Rows {
				if r.Mode != mode || r.Workload != workload || r.Percent == nil || r.Percent.N == 0 {
					continue
				}
				limited := r.LimitedBy == measure.ByGenerator || r.LimitedBy == measure.ByReceiver
				return Measured{Value: r.Percent.Value, Lo: r.Percent.Lo, Hi: r.Percent.Hi, N: len(r.Samples),
					Unit: "%", AtLeast: limited, LimitedBy: string(r.LimitedBy)}, true
			}
		}
		return Measured{}, false
	}
}

// worstOf and averageOf read wake-ups: the longest of all and the mean, with those of the single runs as their spread.
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
