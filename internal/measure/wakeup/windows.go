package wakeup

import (
	"cmp"
	"slices"
	"time"
)

// window is an interval with its longest wake-up, and what the host counted in it.
type window struct {
	from, to time.Time
	worst    uint64 // nanoseconds; 0: no long one
	deltas   []float64
}

// overlaps reports whether the window shares more than a moment with an interval.
func (w *window) overlaps(from, to time.Time) bool { return from.Before(w.to) && to.After(w.from) }

// windows combines the wake-ups of runs with what the host counted: by the intervals of the series if the times of long
// wake-ups are known, otherwise by slices of the runs.
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

// byInterval returns the intervals of the series that lie within slices. One without a long wake-up gets the trigger's
// length, which its wake-ups did not exceed.
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

// bySlice sums up the counters over the intervals that each slice touches.
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

// bad returns which windows contain wake-ups that stand out: at most one in twenty (but at least five), and only those
// that are at least twice as long as the longest wake-up of the median window and three times the overall median.
// threshold is the shortest such wake-up.
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
