package wakeup

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mpps/internal/measure"
)

// maxLong and maxWorst limit how many long wake-ups a slice and a file keep.
const (
	maxLong  = 32
	maxWorst = 10
)

// Clock converts the measured machine's CLOCK_MONOTONIC to the host's clock.
type Clock struct {
	Host  time.Time     // a moment by the host's clock
	There time.Duration // the same moment by the other clock
	Off   time.Duration // the possible error
	Known bool
}

// at returns a moment by the host's clock.
func (c Clock) at(there time.Duration) time.Time { return c.Host.Add(there - c.There) }

// Add adds a slice to a run: what the tool reported, when it was started and had ended, and the clock of the machine.
// trigger is the length from which the tool was asked to report times, 0 for none.
func (r *Run) Add(number int, out *Output, from, to time.Time, trigger uint64, clock Clock) {
	s := Slice{From: from, To: to}
	whole := make([]Distribution, 0, len(out.Threads)+1)
	of := map[int][]Distribution{} // by CPU, on which several threads may run
	for _, t := range r.Threads {
		of[t.CPU] = []Distribution{t.Distribution}
	}
	for _, t := range out.Threads {
		whole = append(whole, t.Distribution)
		l := t.Latency
		if l == nil {
			continue
		}
		if s.Count == 0 {
			s.MinNs = l.MinNs
		}
		if l.MaxNs >= s.MaxNs {
			s.MaxNs, s.CPU = l.MaxNs, t.CPU
		}
		s.Count, s.MinNs = s.Count+l.Count, min(s.MinNs, l.MinNs)
		if of[t.CPU] == nil {
			r.Threads = append(r.Threads, t)
		}
		of[t.CPU] = append(of[t.CPU], t.Distribution)
	}
	for i := range r.Threads {
		t := &r.Threads[i]
		if all := of[t.CPU]; len(all) > 1 {
			t.Distribution = Merge(all...)
		}
	}
	if out.Exact && clock.Known {
		s.TriggerNs, s.Lost = max(trigger, out.Trigger, 1), out.Lost
		if out.Lost > 0 { // the longest may be among the lost
			s.TriggerNs = 0 // the longest may be among those
		}
		for _, l := range out.Long {
			end := clock.at(l.When)
			s.Long = append(s.Long, Wakeup{Ns: l.Ns, Run: number, CPU: l.CPU,
				From: r.moment(end.Add(-time.Duration(l.Ns) - clock.Off)), To: r.moment(end.Add(clock.Off))})
		}
		keepLongest(&s.Long, maxLong)
	}
	r.Distribution = Merge(append(whole, r.Distribution)...)
	r.Slices = append(r.Slices, s)
	r.Worst = r.worst(number)
}

func (r *Run) moment(at time.Time) Moment {
	return Moment{At: at, Seconds: at.Sub(r.Started).Seconds()}
}

// keepLongest sorts wake-ups, longest first, and drops all but the first most.
func keepLongest(list *[]Wakeup, most int) {
	slices.SortStableFunc(*list, func(a, b Wakeup) int { return cmp.Compare(b.Ns, a.Ns) })
	*list = (*list)[:min(len(*list), most)]
}

// worst returns the longest wake-up of a run, with its time as precisely as it is known.
func (r *Run) worst(number int) *Wakeup {
	var w *Wakeup
	for i := range r.Slices {
		found := r.Slices[i].worst(r, number)
		if w == nil || found.Ns > w.Ns {
			w = &found
		}
	}
	return w
}

// worst returns the longest wake-up of a slice. Its time is the whole slice unless the tool reports more.
func (s *Slice) worst(r *Run, number int) Wakeup {
	if len(s.Long) > 0 && s.Long[0].Ns >= s.MaxNs {
		return s.Long[0]
	}
	return Wakeup{Ns: s.MaxNs, Run: number, CPU: s.CPU, From: r.moment(s.From), To: r.moment(s.To)}
}

// Finish merges the runs and finds the worst wake-ups and their causes.
func (f *File) Finish() {
	var all []Distribution
	f.Worst = []Wakeup{}
	for i := range f.Runs {
		r := &f.Runs[i]
		all = append(all, r.Distribution)
		for k := range r.Slices {
			s := &r.Slices[k]
			if w := s.worst(r, i+1); len(s.Long) == 0 || w.Ns > s.Long[0].Ns {
				f.Worst = append(f.Worst, w)
			}
			f.Worst = append(f.Worst, s.Long...)
		}
	}
	keepLongest(&f.Worst, maxWorst)
	f.Total = Merge(all...)
	f.bound()
	f.Causes = FindCauses(f.Runs, f.Counted, median(f.Total))
	if f.Counted != nil {
		f.explain()
	}
}

func median(d Distribution) uint64 {
	if d.Latency == nil {
		return 0
	}
	return d.Latency.At(50)
}

// Trigger returns the length from which a tool should report the times of wake-ups, such that each slice has about
// LongPerSlice of them: the shortest length that was not exceeded more often in the same time. slices is how many
// slices the distribution covers, possibly a fraction. It returns 0 if nothing is known yet.
func Trigger(d Distribution, slices float64) uint64 {
	if d.Latency == nil || slices <= 0 {
		return 0
	}
	most, above := LongPerSlice*slices, 0.0
	for i := len(d.Latency.Buckets) - 1; i >= 0; i-- {
		if above += float64(d.Latency.Buckets[i].Count); above > most {
			return d.Latency.Buckets[i].ToNs
		}
	}
	return max(d.Latency.MinNs, 1000)
}

// When says when a wake-up happened, as precisely as it is known.
func (w *Wakeup) When() string {
	if d := w.To.Seconds - w.From.Seconds - float64(w.Ns)/1e9; d < 0.5 {
		return fmt.Sprintf("%.3f s into run %d", w.To.Seconds, w.Run)
	}
	return fmt.Sprintf("within %.1f s–%.1f s of run %d", w.From.Seconds, w.To.Seconds, w.Run)
}

// Warn adds a warning unless there is one with its code.
func (f *File) Warn(w measure.Warning) {
	if !slices.ContainsFunc(f.Warnings, func(have measure.Warning) bool { return have.Code == w.Code }) {
		f.Warnings = append(f.Warnings, w)
	}
}
