package tune

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Candidate is a change to try: of one knob, or of several that only make sense together.
type Candidate struct {
	Key   string // the knobs' IDs joined by +
	IDs   []string
	Title string
	Stage string // of the packet path, as bottleneck.Stage names it
	Risk  goal.Risk
	// Needs is what must happen before the changes take effect. Only those that take effect at once can be tried.
	Needs   setting.Needs
	Weight  float64 // severity in the catalogue, 0–1
	Planned bool    // the plan for the goal has it; else only a measurement can show that it is better
	Changes []Change
}

// sets are knobs that belong together: one without the others helps little, or does harm.
var sets = [][]string{
	{"nic.channels", "nic.irqbalance", "nic.irq_affinity", "nic.xps"},
	{"domain.vcpupin", "domain.emulatorpin", "domain.iothreadpin", "vhost.threads"},
	{"overlay.queues", "overlay.queue_mapping"},
	{"guest.channels", "guest.xps", "guest.irqbalance"},
	{"softirq.budget", "softirq.budget_usecs"},
	{"memory.numa_balancing", "memory.numad"},
}

// Together joins candidates of one set that take effect in the same way. A joined candidate takes the position of its
// first part.
func Together(all []Candidate) []Candidate {
	var joined []Candidate
	at := map[string]int{}
	for _, c := range all {
		knob, _, _ := strings.Cut(c.Key, "#") // nic.rings#2: further changes of a knob that was kept
		set := slices.IndexFunc(sets, func(s []string) bool { return slices.Contains(s, knob) })
		name := fmt.Sprint(set, c.Needs)
		i, known := at[name]
		if set < 0 || !known {
			if set >= 0 {
				at[name] = len(joined)
			}
			joined = append(joined, c)
			continue
		}
		joined[i] = Join(joined[i], c)
	}
	return joined
}

// Join returns two candidates as one, with the higher risk and weight of the two.
func Join(a, b Candidate) Candidate {
	j := a
	j.Key, j.Title = a.Key+"+"+b.Key, a.Title+"; "+b.Title
	j.IDs = slices.Concat(a.IDs, b.IDs)
	j.Changes = slices.Concat(a.Changes, b.Changes)
	j.Weight = max(a.Weight, b.Weight)
	j.Planned = a.Planned && b.Planned
	risks := goal.Risks()
	if slices.Index(risks, b.Risk) > slices.Index(risks, a.Risk) {
		j.Risk = b.Risk
	}
	return j
}

// riskCost divides the score of a candidate: the gain must be worth the risk of trying.
var riskCost = map[goal.Risk]float64{
	goal.None: 1, goal.Blip: 1.3, goal.Platform: 1.3, goal.GuestRestart: 3, goal.Reboot: 4, goal.Connectivity: 3,
	goal.Security: 2, goal.Data: 3,
}

// expectation is the expected gain of a candidate, and why.
type expectation struct {
	chance float64  // that it helps
	log    float64  // log of the ratio if it helps
	score  float64  // expected log ratio, divided by the cost of the risk
	reason []string // for people
	blind  bool     // no diagnosis of the run points at it
}

// usual is the log ratio expected of a change that helps, if nothing was learned about it.
var usual = math.Log(1.2)

// expect weighs a candidate by the current bottleneck, the next one, those named earlier in the run, its severity in
// the catalogue, and what was learned on hosts of this class.
func expect(c Candidate, d *bottleneck.Diagnosis, named []*bottleneck.Bottleneck, learned Effects,
	class string) expectation {
	e := expectation{chance: 0.04 + 0.06*c.Weight, log: usual}
	kind := ""
	var b, next *bottleneck.Bottleneck
	if d != nil && d.Bottleneck != nil {
		b, next = d.Bottleneck, d.Next
		kind = string(b.Kind)
	}
	earlier := slices.IndexFunc(named, func(b *bottleneck.Bottleneck) bool { return namedBy(b, c) >= 0 })
	switch {
	case b != nil && namedBy(b, c) >= 0:
		e.chance = 0.1 + 0.6*b.Confidence*math.Pow(0.85, float64(namedBy(b, c)))
		e.reason = append(e.reason, fmt.Sprintf("acts on the bottleneck (%s: %s)", b.Kind, b.Object))
	case next != nil && namedBy(next, c) >= 0:
		e.chance = max(e.chance, 0.2)
		e.reason = append(e.reason, fmt.Sprintf("acts on what would be the next bottleneck (%s)", next.Kind))
	case earlier >= 0:
		e.chance = max(e.chance, 0.18)
		e.reason = append(e.reason, fmt.Sprintf("an earlier diagnosis of this run pointed at it (%s)",
			named[earlier].Kind))
	case b != nil && c.Stage == b.Stage:
		e.chance = max(e.chance, 0.15)
		e.reason = append(e.reason, "the same stage as the bottleneck: "+b.Stage)
	}
	e.blind = len(e.reason) == 0
	if l := learned.lesson(class, kind, c.Key); l.weight > 0 {
		e.chance = (2*e.chance + l.kept) / (2 + l.weight)
		if l.kept > 0 {
			e.log = (usual + l.log) / (1 + l.kept)
		}
		e.reason = append(e.reason, l.say)
	}
	if len(e.reason) == 0 {
		e.reason = append(e.reason, "off by the catalogue; nothing points at it")
	}
	e.score = e.chance * e.log / max(1, riskCost[c.Risk])
	return e
}

// ratio is the expected after/before, including the chance that the candidate does not help.
func (e expectation) ratio() float64 { return math.Exp(e.chance * e.log) }

// namedBy returns the position of the first knob of the candidate in the list of a bottleneck, 0 for the likeliest to
// help, or −1.
func namedBy(b *bottleneck.Bottleneck, c Candidate) int {
	return slices.IndexFunc(b.Knobs, func(id string) bool { return slices.Contains(c.IDs, id) })
}
