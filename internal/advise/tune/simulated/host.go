// Package simulated has hosts that are arithmetic, for the loop of package tune: a path of stages with capacities that
// knobs change. What the best set of knobs carries is known by trying all of them, so a run can be judged by what it
// should have found. They are exactly repeatable: the same host and seed always give the same answers.
package simulated

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// Knob is a value that can be set, with what it does.
type Knob struct {
	ID      string
	Stage   string             // where the catalogue says that it acts
	Factors map[string]float64 // by which it multiplies the capacities of stages; All is the whole path
	Needs   []string           // knobs without which it does nothing
	Spoils  map[string]float64 // knobs beside which it multiplies the whole path by this
	Risk    goal.Risk
	Weight  float64
	Refused bool     // the machine refuses it
	Behind  []string // knobs that must be set before it, or the machine refuses it
	Calms   float64  // by which it multiplies Spec.Burst; 0: not at all
	Sender  float64  // by which it multiplies Spec.Sends; 0: not at all
}

// All stands for the whole path in Knob.Factors.
const All = "all"

// Noise is what the machine does besides.
type Noise struct {
	Jitter float64 // standard deviation of a trial, relative
	Stall  float64 // share of the trials that are held up and lose a third
	Wave   float64 // amplitude of a slow wave, relative
	Period float64 // of the wave, in trials
	Walk   float64 // standard deviation of the step of a random walk from trial to trial, relative
	States float64 // by how much a state lies lower that the machine is in for some 15 trials now and then
}

// Spec is a host.
type Spec struct {
	Name     string
	Stages   []string           // in path order
	Capacity map[string]float64 // packets per second
	Knobs    []Knob
	Noise    Noise
	Mistaken float64 // share of the diagnoses that name another stage
	// Burst is by how much bursts exceed the mean load: above capacity/(1+Burst) a few packets are lost, up to
	// MostBurst at capacity.
	Burst float64
	Sends float64 // packets per second that the generator can send at the most; 0: any rate
	Paced float64 // packets per second that it can send at the most while it keeps a pace; 0: any rate
	// OnPath has the generator run the path on its own CPU: it sends no more than the path carries, nothing is lost,
	// and a search takes the generator for the limit.
	OnPath bool
}

// MostBurst is the share of packets that bursts cost at the most.
const MostBurst = 0.01

// Host is a simulated host under tuning.
type Host struct {
	Spec
	random  *rand.Rand
	trials  int
	walk    float64
	low     bool
	stands  map[string]bool // what was kept
	tried   []string        // what is tried on top
	sent    float64         // in the last trial
	Changed int             // how often something was tried
}

// New makes a host.
func New(s Spec, seed uint64) *Host {
	return &Host{Spec: s, random: rand.New(rand.NewPCG(seed, 0x686f7374)), stands: map[string]bool{}}
}

// sharpness says how sharply the narrowest stage rules: at infinity it alone does.
const sharpness = 10

// Carries is what the path carries with a set of knobs, packets per second, without noise; and the stages from the
// narrowest on.
func (s Spec) Carries(set map[string]bool) (pps float64, narrowest []string) {
	capacity := map[string]float64{}
	for stage, c := range s.Capacity {
		capacity[stage] = c
	}
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
	slices.SortStableFunc(narrowest, func(a, b string) int {
		if capacity[a] < capacity[b] {
			return -1
		}
		return 1
	})
	return whole * math.Pow(sum, -1.0/sharpness), narrowest
}

// Best is what the best of all sets of knobs carries, found by trying every one, and how many there are.
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
			factors[i][j] = or1(k.Factors[stage]) * or1(k.Factors[All])
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

// or1 is a factor, 1 where there is none.
func or1(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}

// now is the set that stands, with what is tried.
func (h *Host) now() map[string]bool {
	set := map[string]bool{}
	for id := range h.stands {
		set[id] = true
	}
	for _, id := range h.tried {
		set[id] = true
	}
	return set
}

// Now is what the path carries as it stands, without noise.
func (h *Host) Now() float64 {
	pps, _ := h.Carries(h.now())
	return pps
}

// Candidates are the knobs that are not set.
func (h *Host) Candidates(context.Context) ([]tune.Candidate, error) {
	var all []tune.Candidate
	for _, k := range h.Knobs {
		if !h.stands[k.ID] && !slices.ContainsFunc(k.Behind, func(id string) bool { return !h.stands[id] }) {
			risk := k.Risk
			if risk == "" {
				risk = goal.None
			}
			all = append(all, tune.Candidate{Key: k.ID, IDs: []string{k.ID}, Title: k.ID, Stage: k.Stage, Risk: risk,
				Weight:  k.Weight,
				Changes: []tune.Change{{ID: k.ID, Address: "simulated:" + k.ID, From: "0", To: "1"}}})
		}
	}
	return all, nil
}

// Diagnose names the narrowest stage, or by mistake another one.
func (h *Host) Diagnose(_ context.Context, pps float64) (*bottleneck.Diagnosis, error) {
	carried, stages := h.Carries(h.now())
	d := &bottleneck.Diagnosis{Seconds: 1, Method: facts.ByCounters}
	if pps > 0 && carried > pps {
		d.Why = "everything that was sent came through"
		return d, nil
	}
	if most := h.sends(); most > 0 && most < carried {
		d.Bottleneck = h.at("generator")
		return d, nil
	}
	if h.random.Float64() < h.Mistaken {
		stages = append(stages[1:len(stages):len(stages)], stages[0])
	}
	d.Bottleneck, d.Next = h.at(stages[0]), h.at(stages[1])
	return d, nil
}

func (h *Host) at(stage string) *bottleneck.Bottleneck {
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
		for _, ground := range h.Knobs[i].Behind {
			if !h.stands[ground] && !slices.Contains(c.IDs[:at], ground) {
				return fmt.Errorf("%w: %s: there is nothing to set without %s", tune.ErrRefused, id, ground)
			}
		}
	}
	h.tried = slices.Clone(c.IDs)
	h.Changed++
	return nil
}

// Back takes back what is tried.
func (h *Host) Back(context.Context) error {
	h.tried = nil
	return nil
}

// Keep lets stand what is tried.
func (h *Host) Keep(context.Context) error {
	for _, id := range h.tried {
		h.stands[id] = true
	}
	h.tried = nil
	return nil
}

// Reset unsets everything.
func (h *Host) Reset(context.Context) error {
	h.tried, h.stands = nil, map[string]bool{}
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

// Advise names the stage that is left.
func (h *Host) Advise(_ *tune.Result, d *bottleneck.Diagnosis) []tune.Advice {
	if d == nil || d.Bottleneck == nil {
		return nil
	}
	return []tune.Advice{{Code: "stage", Text: "the " + d.Bottleneck.Stage + " is what is left"}}
}

// Standing lists what is set.
func (h *Host) Standing() []string {
	var ids []string
	for id := range h.now() {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
