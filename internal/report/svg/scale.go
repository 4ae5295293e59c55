package svg

import "math"

// Scale maps values to positions.
type Scale struct {
	from, to float64 // values, or their logarithms
	a, b     float64 // positions
	log      bool
	marks    []float64 // its ticks; nil: round values
}

// Linear maps values evenly.
func Linear(from, to, a, b float64) Scale { return Scale{from: from, to: to, a: a, b: b} }

// Log maps positive values by their logarithm; from and to are widened to powers of ten.
func Log(from, to, a, b float64) Scale {
	return Scale{from: math.Floor(math.Log10(from)), to: math.Ceil(math.Log10(to) + 1e-9), a: a, b: b, log: true}
}

// Span is a horizontal scale for values from least to most: from zero, or logarithmic where they lie too many times
// apart.
func (d *Drawing) Span(least, most, apart float64) Scale {
	if least > 0 && most/least > apart {
		return Log(least, most, d.Left, d.Right)
	}
	return Linear(0, most*1.06, d.Left, d.Right)
}

// Ratios is a horizontal scale around 1 for ratios from lo to hi: never so narrow that noise fills the drawing, at most
// from a tenth to twenty.
func (d *Drawing) Ratios(lo, hi float64) Scale {
	from := math.Max(math.Min(math.Log(lo), -0.05)*1.1, math.Log(0.1))
	to := math.Min(math.Max(math.Log(hi), 0.05)*1.1, math.Log(20))
	marks := roundRatios(math.Exp(from), math.Exp(to))
	return Scale{from: from / math.Ln10, to: to / math.Ln10, a: d.Left, b: d.Right, log: true, marks: marks}
}

// roundRatios are round ratios between two bounds: a few, 1 always.
func roundRatios(lo, hi float64) []float64 {
	for _, steps := range [][]float64{
		{0.001, 0.01, 0.1, 1, 10, 100, 1000},
		{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100},
		{0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 4, 5}, {0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.4, 1.6, 1.8},
		{0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15},
	} {
		var within []float64
		for _, s := range steps {
			if s >= lo && s <= hi {
				within = append(within, s)
			}
		}
		if len(within) >= 3 {
			return within
		}
	}
	return []float64{1}
}

// At is the position of a value.
func (s Scale) At(v float64) float64 {
	if s.log {
		v = math.Log10(math.Max(v, math.SmallestNonzeroFloat64))
		if s.marks == nil {
			v = math.Max(v, s.from)
		}
	}
	if s.to == s.from {
		return s.a
	}
	return s.a + (v-s.from)/(s.to-s.from)*(s.b-s.a)
}

// Within is the position of a value, at the nearer end of the scale for one outside.
func (s Scale) Within(v float64) float64 {
	return math.Min(math.Max(s.At(v), math.Min(s.a, s.b)), math.Max(s.a, s.b))
}

// Least is the smallest value on a logarithmic scale.
func (s Scale) Least() float64 { return math.Pow(10, s.from) }

// Ticks are round values on the scale: powers of ten of a logarithmic one, up to six steps of a linear one.
func (s Scale) Ticks() []float64 {
	if s.marks != nil {
		return s.marks
	}
	var ticks []float64
	if s.log {
		for e := s.from; e <= s.to+1e-9; e++ {
			ticks = append(ticks, math.Pow(10, e))
		}
		return ticks
	}
	span := s.to - s.from
	if span <= 0 {
		return []float64{s.from}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/4)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if span/(step*factor) <= 5 {
			step *= factor
			break
		}
	}
	for v := math.Ceil(s.from/step) * step; v <= s.to+step/1e6; v += step {
		ticks = append(ticks, v)
	}
	return ticks
}
