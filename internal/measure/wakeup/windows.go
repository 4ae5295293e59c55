package wakeup

import (
	"cmp"
	"slices"
	"time"
)

// window is a piece of time with its longest wake-up, and what the host counted in it.
type window struct {
	from, to time.Time
	worst    uint64 // nanoseconds; 0: none that was long
	deltas   []float64
}

// overlaps reports whether a piece of time shares more than a moment with another.
func (w *window) overlaps(from, to time.Time) bool { return from.Before(w.to) && to.After(w.from) }

// windows joins the wake-ups of runs with what the host counted: by the intervals of the series where it is known when
// long wake-ups happened, and by slices of the runs where it is not.
func windows(runs []Run, s *Series) []window {
	if s == nil || len(s.Ends) == 0 {
		return nil
	}
	exact := true
	for _, r := range runs {
		for _, slice := range r.Slices {
			exact = exact && slice.TriggerNs > 0
		}
	}
	if exact {
		return byInterval(runs, s)
	}
	return bySlice(runs, s)
}

// byInterval takes the intervals of the series that lie within slices. Those without a long wake-up have the trigger's
// length, which theirs did not exceed.
func byInterval(runs []Run, s *Series) []window {
	var all []window
	begin := s.Started
	var pieces []Slice
	for _, r := range runs {
		pieces = append(pieces, r.Slices...)
	}
	slices.SortFunc(pieces, func(a, b Slice) int { return a.From.Compare(b.From) })
	at := 0
	for i, end := range s.Ends {
		w := window{from: begin, to: s.Started.Add(seconds(end))}
		begin = w.to
		for at < len(pieces) && !pieces[at].To.After(w.from) {
			at++
		}
		measured := false
		for _, piece := range pieces[at:] {
			if !piece.From.Before(w.to) {
				break
			}
			measured = true
			w.worst = max(w.worst, min(piece.TriggerNs, piece.MaxNs))
			for _, long := range piece.Long {
				if w.overlaps(long.From.At, long.To.At.Add(time.Nanosecond)) {
					w.worst = max(w.worst, long.Ns)
				}
			}
		}
		if !measured {
			continue
		}
		for k := range s.Sources {
			w.deltas = append(w.deltas, float64(s.Sources[k].Deltas[i]))
		}
		all = append(all, w)
	}
	return all
}

// bySlice adds up what was counted in the intervals that a slice touches.
func bySlice(runs []Run, s *Series) []window {
	var all []window
	for _, r := range runs {
		for _, slice := range r.Slices {
			w := window{from: slice.From, to: slice.To, worst: slice.MaxNs, deltas: make([]float64, len(s.Sources))}
			begin, touched := s.Started, false
			for i, end := range s.Ends {
				finish := s.Started.Add(seconds(end))
				if w.overlaps(begin, finish) {
					touched = true
					for k := range s.Sources {
						w.deltas[k] += float64(s.Sources[k].Deltas[i])
					}
				}
				begin = finish
			}
			if touched {
				all = append(all, w)
			}
		}
	}
	return all
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// bad tells which windows hold wake-ups that are not like the others: at most one in twenty (but five at least), and
// only those that are twice as long as the longest of an ordinary window and three times the median of all. The
// threshold is the shortest of them.
func bad(all []window, median uint64) (isBad []bool, threshold uint64) {
	isBad = make([]bool, len(all))
	if len(all) == 0 {
		return isBad, 0
	}
	lengths := make([]uint64, len(all))
	for i, w := range all {
		lengths[i] = w.worst
	}
	slices.SortFunc(lengths, func(a, b uint64) int { return cmp.Compare(b, a) })
	most := min(max(5, len(all)/20), 60, max(len(all)/3, 1))
	floor := max(2*lengths[len(lengths)/2], 3*median, 1)
	for _, l := range lengths[:most] {
		if l >= floor {
			threshold = l
		}
	}
	for i, w := range all {
		isBad[i] = threshold > 0 && w.worst >= threshold
	}
	return isBad, threshold
}
