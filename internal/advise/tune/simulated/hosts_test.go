package simulated

import (
	"math"
	"testing"
)

func TestBestIsBest(t *testing.T) {
	s := Spec{Stages: []string{"a", "b"}, Capacity: map[string]float64{"a": 1e6, "b": 4e6}, Knobs: []Knob{
		{ID: "a.1", Factors: map[string]float64{"a": 2}},
		{ID: "a.2", Factors: map[string]float64{"a": 1.5}, Needs: []string{"a.3"}},
		{ID: "a.3"},
		{ID: "b.1", Factors: map[string]float64{All: 0.5}},
		{ID: "b.2", Spoils: map[string]float64{"a.1": 0.1}},
	}}
	best, sets := s.Best()
	with, _ := s.Carries(map[string]bool{"a.1": true, "a.2": true, "a.3": true})
	if sets != 32 || math.Abs(best/with-1) > 1e-9 {
		t.Errorf("best of %d sets carries %g, expected 32 and %g", sets, best, with)
	}
	if alone, _ := s.Carries(map[string]bool{"a.2": true}); alone > 1e6 {
		t.Errorf("a.2 helps without a.3: %g", alone)
	}
}

func TestRepeatable(t *testing.T) {
	for _, s := range Hosts(12) {
		a, b := New(s, 7), New(s, 7)
		for range 50 {
			x, _ := a.Sample(t.Context(), 0, 1, false)
			if y, _ := b.Sample(t.Context(), 0, 1, false); x != y {
				t.Fatalf("%s: %g and %g", s.Name, x, y)
			}
		}
	}
}

// TestBestOfAll compares the quick way with that of one set after the other.
func TestBestOfAll(t *testing.T) {
	for _, s := range Hosts(4) {
		s.Knobs = s.Knobs[:8]
		best := 0.0
		for bits := range 1 << len(s.Knobs) {
			set := map[string]bool{}
			for i, k := range s.Knobs {
				set[k.ID] = bits>>i&1 == 1
			}
			pps, _ := s.Carries(set)
			best = max(best, pps)
		}
		if got, _ := s.Best(); math.Abs(got/best-1) > 1e-9 {
			t.Errorf("%s: %g, expected %g", s.Name, got, best)
		}
	}
}
