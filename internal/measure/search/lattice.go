package search

import (
	"cmp"
	"math"
	"slices"
)

// candidates returns the devices that single trials and pairs of trials suggest.
func candidates(trials []seen) []hypothesis {
	var all []hypothesis
	for i := range trials {
		a := &trials[i]
		if a.lossless {
			all = append(all, hypothesis{capacity: a.load * (1 + slack)})
			continue
		}
		all = append(all, hypothesis{capacity: a.rate})
		for j := range trials {
			b := &trials[j]
			if b.lossless {
				continue
			}
			if b.seconds > a.seconds*1.1 {
				// received = capacity·(seconds + buffer)
				c := (b.rate*b.seconds - a.rate*a.seconds) / (b.seconds - a.seconds)
				if buffer := (a.rate/c - 1) * a.seconds; c > 0 && buffer > 2*slack && buffer < 1 {
					all = append(all, hypothesis{capacity: c, buffer: buffer})
				}
			}
			if b.load > a.load*1.004 {
				if k := (a.rate - b.rate) / (b.load - a.load); k > 0.01 && k < 1 {
					all = append(all, hypothesis{capacity: (a.rate + k*a.load) / (1 + k), collapse: k})
				}
			}
		}
	}
	return all
}

// oddCapacities returns the capacities that odd seconds may have: 0 for any, and up to three that trials suggest most
// strongly, each trial assuming one odd second or only odd seconds. Several suggestions of the same capacity add their
// precision. A capacity is dropped if only one long trial suggests it, by one odd second: any buffer would look like
// that.
func oddCapacities(trials []seen, h hypothesis) []float64 {
	type suggestion struct{ capacity, weight float64 } // weight 1: the precision of a one-second trial
	var found []suggestion
	near := (4*math.Hypot(h.sigma, slack) + 0.002) * h.capacity
	for i := range trials {
		t := &trials[i]
		expected := h.capacity*(1+h.buffer/t.seconds) - h.collapse*max(0, t.load-h.capacity)
		missing := min(t.load, expected) - t.rate
		if t.lossless || math.Abs(missing) < near {
			continue
		}
		for _, n := range []float64{1, t.seconds} {
			x, weight := min(t.load, h.capacity)-missing*n, t.seconds/square(n) // the inverse of its variance
			if x <= 0.5*h.capacity {
				break
			}
			if i := slices.IndexFunc(found, func(y suggestion) bool { return math.Abs(x-y.capacity) < near }); i >= 0 {
				y := &found[i]
				y.capacity, y.weight = (y.capacity*y.weight+x*weight)/(y.weight+weight), y.weight+weight
			} else {
				found = append(found, suggestion{x, weight})
			}
			if t.seconds <= 1 {
				break
			}
		}
	}
	found = slices.DeleteFunc(found, func(x suggestion) bool { return x.weight < 0.9 }) // less than one second's
	slices.SortStableFunc(found, func(x, y suggestion) int { return cmp.Compare(y.weight, x.weight) })
	all := []float64{0}
	for _, x := range found[:min(len(found), 3)] {
		all = append(all, x.capacity)
	}
	return all
}

// point is a point on the lattice of hypotheses. Several trials may suggest the same; it counts once.
type point struct {
	capacity, buffer, collapse, other int
	sigma                             float64
}

// around adds the hypotheses near h, with their prior weights: capacities uniform in relative steps; buffers inverse to
// their length, from 2 ms to some 0.2 s; collapses uniform from nothing to all.
func (h hypothesis) around(all map[point]hypothesis) {
	s := math.Hypot(h.sigma, slack)
	known, other := 1-priorOther, 0 // three suggestions share the prior
	if h.other > 0 {                // each of those suggested is as likely as a third of all
		known, other = priorOther/3, int(math.Round(math.Log(h.other)/(4*s+0.002)))
		if h.other > h.capacity {
			known *= priorMore
		}
	}
	pitch, wide := step*s, int(reach/step)
	if h.buffer > 0 || h.collapse > 0 { // two dimensions get less detail
		pitch, wide = 2*pitch, wide/2
	}
	centre := int(math.Round(math.Log(h.capacity) / pitch))
	for i := centre - wide; i <= centre+wide; i++ {
		n := h
		n.capacity = math.Exp(float64(i) * pitch)
		at := point{capacity: i, other: other, sigma: h.sigma}
		switch {
		case h.buffer > 0:
			middle := int(math.Round(h.buffer / (2 * pitch)))
			for at.buffer = max(1, middle-wide); at.buffer <= middle+wide; at.buffer++ {
				n.buffer = float64(at.buffer) * 2 * pitch
				n.weight = known * priorBuffer * pitch * 2 * pitch / (n.buffer + 0.002) /
					(1 + square(n.buffer/0.2)) / math.Log(100)
				all[at] = n
			}
		case h.collapse > 0:
			width := max(0.005, 5*pitch)
			middle := int(math.Round(h.collapse / width))
			for at.collapse = max(1, middle-8); at.collapse <= middle+8; at.collapse++ {
				n.collapse = float64(at.collapse) * width
				n.weight = known * priorCollapse * pitch * width
				all[at] = n
			}
		default:
			n.weight = known * (1 - priorBuffer - priorCollapse) * pitch
			all[at] = n
		}
	}
}
