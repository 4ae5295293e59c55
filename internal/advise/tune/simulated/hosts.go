package simulated

import (
	"fmt"
	"maps"
	"math/rand/v2"

	"mpps/internal/model/goal"
)

var stages = []string{"nic", "softirq", "netfilter", "bridge", "tap", "vhost", "vcpu", "guest"}

// noises go from a quiet machine to the worst of shared ones.
var noises = []Noise{
	{Jitter: 0.005},
	{Jitter: 0.01, Wave: 0.01, Period: 40},
	{Jitter: 0.02, Stall: 0.03},
	{Jitter: 0.03, Walk: 0.005},
	{Jitter: 0.02, States: 0.05},
	{Jitter: 0.05, Stall: 0.03, Wave: 0.03, Period: 23},
}

// Hosts returns n hosts of all kinds: some stages are narrow, some knobs widen them, others do nothing, hurt, or help
// only together with another. All are noisy and some diagnoses are wrong.
func Hosts(n int) []Spec {
	all := make([]Spec, n)
	for i := range all {
		all[i] = host(i)
	}
	return all
}

func host(i int) Spec {
	r := rand.New(rand.NewPCG(uint64(i), 0x73706563))
	s := Spec{Name: fmt.Sprintf("host-%02d", i), Stages: stages, Capacity: map[string]float64{},
		Noise: noises[i%len(noises)], Mistaken: 0.05}
	for _, stage := range stages {
		s.Capacity[stage] = 1e6 * (1.5 + 2*r.Float64())
	}
	add := func(k Knob) string {
		k.ID = fmt.Sprintf("%s.%d", k.Stage, len(s.Knobs))
		k.Weight = r.Float64()
		if r.IntN(4) == 0 {
			k.Risk = goal.Blip
		}
		s.Knobs = append(s.Knobs, k)
		return k.ID
	}
	// Narrow stages, each with one or two knobs that widen it.
	narrow := r.Perm(len(stages))[:2+r.IntN(3)]
	for n, at := range narrow {
		stage := stages[at]
		s.Capacity[stage] = 1e6 * (0.3 + 0.25*float64(n) + 0.1*r.Float64())
		add(Knob{Stage: stage, Factors: map[string]float64{stage: 1.3 + 1.2*r.Float64()}})
		if r.IntN(2) == 0 {
			add(Knob{Stage: stage, Factors: map[string]float64{stage: 1.1 + 0.3*r.Float64()}})
		}
	}
	// A pair of which the second does nothing without the first. On every second host the loop knows the pair.
	if i%3 == 0 {
		stage := stages[narrow[0]]
		factors := map[string]float64{stage: 1.5}
		if i%2 == 0 {
			s.Knobs = append(s.Knobs, Knob{ID: "overlay.queues", Stage: stage, Weight: 0.5},
				Knob{ID: "overlay.queue_mapping", Stage: stage, Weight: 0.5, Factors: factors,
					Needs: []string{"overlay.queues"}})
		} else {
			first := add(Knob{Stage: stage})
			add(Knob{Stage: stage, Factors: factors, Needs: []string{first}})
		}
	}
	// Knobs that hurt: the whole path, or the path while they help one stage.
	add(Knob{Stage: stages[narrow[0]], Factors: map[string]float64{All: 0.6 + 0.3*r.Float64()}})
	helps := stages[narrow[len(narrow)-1]]
	add(Knob{Stage: helps, Factors: map[string]float64{helps: 1.1, All: 0.85 + 0.1*r.Float64()}})
	// Knobs that do nothing worth the name on this host.
	for len(s.Knobs) < 12+i%2 {
		add(Knob{Stage: stages[r.IntN(len(stages))], Factors: map[string]float64{All: 1 + 0.004*(r.Float64()-0.5)}})
	}
	if i%7 == 3 {
		add(Knob{Stage: stages[narrow[0]], Refused: true})
	}
	return s
}

// Healthy returns n hosts on which no knob does anything.
func Healthy(n int) []Spec {
	all := Hosts(n)
	for i := range all {
		all[i].Name = fmt.Sprintf("healthy-%02d", i)
		for j := range all[i].Knobs {
			k := &all[i].Knobs[j]
			k.Factors, k.Spoils = nil, nil
		}
	}
	return all
}

// Harmful reports whether a knob makes the path slower by more than the share least on top of the rest of a set.
func (s Spec) Harmful(id string, set map[string]bool, least float64) bool {
	with, without := maps.Clone(set), maps.Clone(set)
	with[id], without[id] = true, false
	a, _ := s.Carries(with)
	b, _ := s.Carries(without)
	return a < b*(1-least)
}
