package wakeup

import (
	"cmp"
	"slices"
	"time"

	"mpps/internal/model/facts"
)

// Bounds of a series. More points are thinned out, more sources are counted as left out.
const (
	maxPoints  = 6000
	maxSources = 128
)

// Series is what a host counted during a measurement, by interval.
type Series struct {
	Started time.Time `json:"started"`
	// end of each interval in seconds since Started, ascending; the first one starts at Started
	Ends    []float64 `json:"ends_s"`
	Sources []Source  `json:"sources"`
	LeftOut int       `json:"left_out,omitempty"` // counters that moved but did not fit
	Unseen  []string  `json:"unseen"`             // what could not be counted, and why
	// CostSeconds is the CPU time that reading took, on CPUs that were not measured.
	CostSeconds float64 `json:"cost_s"`
}

// Source is one counter that moved.
type Source struct {
	Kind   facts.Disturbance `json:"kind"`
	Name   string            `json:"name"`
	CPU    int               `json:"cpu"` // −1: of the whole host, or of the guest
	Deltas []uint64          `json:"deltas"`
}

// Recorder makes a series from readings. It keeps only counters that moved, and merges neighbouring intervals if there
// are too many points, so that its memory is bounded by maxPoints × maxSources.
type Recorder struct {
	series Series
	last   facts.Tally
	at     map[facts.Counter]int
	step   int // readings per interval
	seen   int // readings in the current interval
	limit  int
}

// NewRecorder starts a series.
func NewRecorder() *Recorder {
	return &Recorder{at: map[facts.Counter]int{}, step: 1, limit: maxPoints}
}

// Add adds a reading. The first one is the reference. A new counter counts from its first reading; one that went
// backwards has restarted.
func (r *Recorder) Add(at time.Time, now facts.Tally) {
	if r.last == nil {
		r.series.Started, r.last = at, now
		return
	}
	s := &r.series
	if r.seen == 0 {
		s.Ends = append(s.Ends, 0)
		for i := range s.Sources {
			s.Sources[i].Deltas = append(s.Sources[i].Deltas, 0)
		}
	}
	s.Ends[len(s.Ends)-1] = at.Sub(s.Started).Seconds()
	for counter, n := range now {
		before, known := r.last[counter]
		if !known || n <= before {
			continue
		}
		i, there := r.at[counter]
		if !there {
			if len(s.Sources) == maxSources {
				r.at[counter] = -1
				i = -1
				s.LeftOut++
			} else {
				i = len(s.Sources)
				r.at[counter] = i
				s.Sources = append(s.Sources, Source{Kind: counter.Kind, Name: counter.Name, CPU: counter.CPU,
					Deltas: make([]uint64, len(s.Ends))})
			}
		}
		if i >= 0 {
			s.Sources[i].Deltas[len(s.Ends)-1] += n - before
		}
	}
	r.last = now
	if r.seen++; r.seen == r.step {
		r.seen = 0
		if len(s.Ends) >= r.limit {
			r.thin()
		}
	}
}

// thin merges pairs of neighbouring intervals.
func (r *Recorder) thin() {
	s := &r.series
	n := len(s.Ends) / 2
	for i := range n {
		s.Ends[i] = s.Ends[2*i+1]
		for k := range s.Sources {
			d := s.Sources[k].Deltas
			d[i] = d[2*i] + d[2*i+1]
		}
	}
	odd := len(s.Ends) - 2*n
	if odd == 1 { // the odd one stays
		s.Ends[n] = s.Ends[2*n]
		for k := range s.Sources {
			s.Sources[k].Deltas[n] = s.Sources[k].Deltas[2*n]
		}
	}
	s.Ends = s.Ends[:n+odd]
	for k := range s.Sources {
		s.Sources[k].Deltas = s.Sources[k].Deltas[:n+odd]
	}
	r.step *= 2
}

// Series returns what was recorded, with the sources in a fixed order.
func (r *Recorder) Series(unseen []string, cost time.Duration) *Series {
	s := r.series
	s.Ends, s.Sources = slices.Clone(s.Ends), slices.Clone(s.Sources)
	slices.SortFunc(s.Sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Name, b.Name))
	})
	s.Unseen, s.CostSeconds = unseen, cost.Seconds()
	return &s
}

// rank orders the kinds: the lower, the more certainly it is a cause.
func rank(kind facts.Disturbance) int { return slices.Index(facts.Disturbances(), kind) }
