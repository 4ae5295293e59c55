// Package simulated has simulated hosts for the loop of package tune: a path of stages whose capacities are changed by
// knobs. The best set of knobs is known from trying all sets, so tests can compare a run with what it should have
// found. Hosts are deterministic: the same spec and seed always give the same results.
package simulated

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// Knob is a setting and its effects.
type Knob struct {
	ID          string
	Stage       string             // where it acts, according to the catalogue
	Factors     map[string]float64 // factors of the capacities of stages; All is the whole path
	Needs       []string           // knobs without which it does nothing
	Spoils      map[string]float64 // factors of the whole path, by the other knob that must be set too
	Risk        goal.Risk
	Weight      float64
	Refused     bool     // the machine refuses it
	After       []string // knobs that must be set before it, or the machine refuses it
	BurstFactor float64  // of Spec.Burst; 0: 1
	SendFactor  float64  // of Spec.Sends; 0: 1
	Unplanned   bool     // only a measurement can show that it helps: the whole plan does not have it
}

// All stands for the whole path in Knob.Factors.
const All = "all"

// Noise is the noise of a machine.
type Noise struct {
	Jitter float64 // standard deviation of a trial, relative
	Stall  float64 // share of trials that stall and lose a third
	Wave   float64 // amplitude of a slow wave, relative
	Period float64 // of the wave, in trials
	Walk   float64 // standard deviation of one step of a random walk, one step per trial, relative
	States float64 // log drop in a slow state, which begins and ends at random every 15 trials or so
}

// Spec is a host.
type Spec struct {
	Name     string
	Stages   []string           // in path order
	Capacity map[string]float64 // packets per second
	Knobs    []Knob
	Noise    Noise
	Mistaken float64 // share of diagnoses that name another stage
	// Burst is by how much bursts exceed the mean load: above capacity/(1+Burst) packets are lost, up to the share
	// maxBurstLoss at capacity.
	Burst float64
	Sends float64 // most that the generator can send, packets per second; 0: any rate
	Paced float64 // most that it can send while pacing, packets per second; 0: any rate
	// OnPath makes the generator run the path on its own CPU: it sends no more than the path carries, nothing is lost,
	// and a search reports the generator as the limit.
	OnPath bool
}

// maxBurstLoss is the share of packets that bursts cost at capacity.
const maxBurstLoss = 0.01

// Host is a simulated host under tuning.
type Host struct {
	Spec
	random  *rand.Rand
	trials  int
	walk    float64
	low     bool
	kept    map[string]bool // what was kept
	tried   []string        // on top of what was kept
	sent    float64         // in the last trial
	Changed int             // calls of Try that changed something
}

// New makes a host.
func New(s Spec, seed uint64) *Host {
	return &Host{Spec: s, random: rand.New(rand.NewPCG(seed, 0x686f7374)), kept: map[string]bool{}}
}

// sharpness is the exponent of the norm that combines the capacities of the stages. At infinity only the narrowest one
// counts.
const sharpness = 10

// Carries returns what the path carries with a set of knobs, in packets per second, without noise, and the stages in
// order of capacity, the narrowest first.
func (s Spec) Carries(set map[string]bool) (pps float64, narrowest []string) {
	capacity := maps.Clone(s.Capacity)
	whole := 1.0
	for _, k := range s.Knobs {
		if !set[k.ID] || slices.ContainsFunc(k.Needs, func(id string) bool { return !set[id] }) {
			continue
		}
		for stage, f := range k.Factors {
			if stage == All {
				whole *= f
			} else {
				capacity[stage] *= f
			}
		}
		for other, f := range k.Spoils {
			if set[other] {
				whole *= f
			}
		}
	}
	sum := 0.0
	for _, stage := range s.Stages {
		sum += math.Pow(capacity[stage], -sharpness)
	}
	narrowest = slices.Clone(s.Stages)
	slices.SortStableFunc(narrowest, func(a, b string) int { return cmp.Compare(capacity[a], capacity[b]) })
	return whole * math.Pow(sum, -1.0/sharpness), narrowest
}

// Best returns what the best set of knobs carries, in packets per second, and the number of sets. It tries all of them.
func (s Spec) Best() (pps float64, sets int) {
	knobs := slices.DeleteFunc(slices.Clone(s.Knobs), func(k Knob) bool { return k.Refused })
	at := func(id string) int { return slices.IndexFunc(knobs, func(k Knob) bool { return k.ID == id }) }
	needs := make([]int, len(knobs)) // as bits
	factors := make([][]float64, len(knobs))
	for i, k := range knobs {
		for _, id := range k.Needs {
			needs[i] |= 1 << at(id)
		}
		factors[i] = make([]float64, len(s.Stages))
		for j, stage := range s.Stages {
			factors[i][j] = cmp.Or(k.Factors[stage], 1) * cmp.Or(k.Factors[All], 1)
		}
	}
	capacity := make([]float64, len(s.Stages))
	for bits := range 1 << len(knobs) {
		for j, stage := range s.Stages {
			capacity[j] = s.Capacity[stage]
		}
		spoilt := 1.0
		for i, k := range knobs {
			if bits>>i&1 == 0 || bits&needs[i] != needs[i] {
				continue
			}
			for j, f := range factors[i] {
				capacity[j] *= f
			}
			for other, f := range k.Spoils {
				if bits>>at(other)&1 == 1 {
					spoilt *= f
				}
			}
		}
		// A bound first: a path carries no more than its narrowest stage.
		if narrowest := slices.Min(capacity) * spoilt; narrowest <= pps {
			continue
		}
		sum := 0.0
		for _, c := range capacity {
			sum += math.Pow(c, -sharpness)
		}
		pps = max(pps, spoilt*math.Pow(sum, -1.0/sharpness))
	}
	return pps, 1 << len(knobs)
}

// active is the set of knobs that are set: kept or being tried.
func (h *Host) active() map[string]bool {
	set := maps.Clone(h.kept)
	for _, id := range h.tried {
		set[id] = true
	}
	return set
}

// Now is what the path carries at the moment, in packets per second, without noise.
func (h *Host) Now() float64 {
	pps, _ := h.Carries(h.active())
	return pps
}

// Candidates returns the knobs that can be set next.
func (h *Host) Candidates(context.Context) ([]tune.Candidate, error) {
	var all []tune.Candidate
	for _, k := range h.Knobs {
		if !h.kept[k.ID] && !slices.ContainsFunc(k.After, func(id string) bool { return !h.kept[id] }) {
			all = append(all, tune.Candidate{Key: k.ID, IDs: []string{k.ID}, Title: k.ID, Stage: k.Stage,
				Risk: cmp.Or(k.Risk, goal.None), Weight: k.Weight, Planned: !k.Unplanned,
				Changes: []tune.Change{{ID: k.ID, Address: "simulated:" + k.ID, From: "0", To: "1"}}})
		}
	}
	return all, nil
}

// Diagnose names the narrowest stage, or another one in the share Mistaken of its calls.
func (h *Host) Diagnose(_ context.Context, pps float64) (*bottleneck.Diagnosis, error) {
	carried, stages := h.Carries(h.active())
	d := &bottleneck.Diagnosis{Seconds: 1, Method: facts.ByCounters}
	if pps > 0 && carried > pps {
		d.Why = "everything that was sent came through"
		return d, nil
	}
	if most := h.sends(); most > 0 && most < carried {
		d.Bottleneck = h.bottleneckAt("generator")
		return d, nil
	}
	if h.random.Float64() < h.Mistaken {
		stages = append(stages[1:len(stages):len(stages)], stages[0])
	}
	d.Bottleneck, d.Next = h.bottleneckAt(stages[0]), h.bottleneckAt(stages[1])
	return d, nil
}

func (h *Host) bottleneckAt(stage string) *bottleneck.Bottleneck {
	b := &bottleneck.Bottleneck{Kind: bottleneck.Kind(stage + "-full"), Stage: stage, Object: stage, Confidence: 0.8,
		Say: stage + " is full"}
	for _, k := range h.Knobs {
		if k.Stage == stage {
			b.Knobs = append(b.Knobs, k.ID)
		}
	}
	h.random.Shuffle(len(b.Knobs), func(i, j int) { b.Knobs[i], b.Knobs[j] = b.Knobs[j], b.Knobs[i] })
	return b
}

// Try sets a candidate's knobs.
func (h *Host) Try(_ context.Context, c tune.Candidate) error {
	if len(h.tried) > 0 {
		return fmt.Errorf("%v is tried already", h.tried)
	}
	for at, id := range c.IDs {
		i := slices.IndexFunc(h.Knobs, func(k Knob) bool { return k.ID == id })
		if i < 0 {
			return fmt.Errorf("no knob %s", id)
		}
		if h.Knobs[i].Refused {
			return fmt.Errorf("%w: %s: operation not supported", tune.ErrRefused, id)
		}
		for _, ground := range h.Knobs[i].After {
			if !h.kept[ground] && !slices.Contains(c.IDs[:at], ground) {
				return fmt.Errorf("%w: %s: there is nothing to set without %s", tune.ErrRefused, id, ground)
			}
		}
	}
	h.tried = slices.Clone(c.IDs)
	h.Changed++
	return nil
}

// Back undoes what is being tried.
func (h *Host) Back(context.Context) error {
	h.tried = nil
	return nil
}

// Keep keeps what is being tried.
func (h *Host) Keep(context.Context) error {
	for _, id := range h.tried {
		h.kept[id] = true
	}
	h.tried = nil
	return nil
}

// Reset unsets everything.
func (h *Host) Reset(context.Context) error {
	h.tried, h.kept = nil, map[string]bool{}
	return nil
}

// Whole joins what was kept.
func (h *Host) Whole(_ context.Context, kept []tune.Candidate) (tune.Candidate, error) {
	whole := kept[0]
	for _, c := range kept[1:] {
		whole = tune.Join(whole, c)
	}
	return whole, nil
}

// Advise names the final bottleneck.
func (h *Host) Advise(_ *tune.Result, d *bottleneck.Diagnosis) []tune.Advice {
	if d == nil || d.Bottleneck == nil {
		return nil
	}
	return []tune.Advice{{Code: "stage", Text: "the " + d.Bottleneck.Stage + " is what is left"}}
}

// Active returns the IDs of the knobs that are set, sorted.
func (h *Host) Active() []string { return slices.Sorted(maps.Keys(h.active())) }
