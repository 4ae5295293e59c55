package bottleneck

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// suspect is something that may hold the path back.
type suspect struct {
	kind     Kind
	stage    string // empty: that of the kind
	object   string
	say      string
	evidence []Evidence
	strength float64  // 0–1: how directly the evidence shows that it limits now
	lost     float64  // packets that are lost because of it
	share    float64  // of those at the place where they are lost
	keys     []string // where it acts: "cpu:3", "guest:vm1", "dev:eth0": what meets there may follow from it
	knobs    []string // in place of the kind's
	advice   string   // in place of the kind's

	hidden bool // follows from another
}

// named is the least strength of what is named a bottleneck.
const named = 0.5

// rules find suspects. Their order decides nothing.
var rules = []func(*look) []suspect{
	lineRate, pcieLink, pauseFrames, linkErrors, vfRate, rxRing,
	softirqs, backlogs, budget,
	droppedByRule, fullTables, queueLocks, rateLimits, qdiscLimits,
	tapQueues, vhostThreads, emulated, wrongNode,
	quotas, vcpus, insideGuests, exhausted, stolen,
	sockets, packetSockets, generators,
}

// Find says which stage holds the path back. Nothing is named on a path where nothing is lost and no stage is full, nor
// on one without traffic. The same host and load always give the same answer.
func Find(h *facts.Host, l *facts.Load) *Diagnosis {
	k := newLook(h, l)
	d := &Diagnosis{Seconds: l.Seconds, Method: l.Method, Stages: k.stages(), Unseen: l.Unseen}
	if d.Unseen == nil {
		d.Unseen = []facts.Unseen{}
	}
	if pps := k.rate(k.packets); pps < quiet {
		d.Why = fmt.Sprintf("no traffic seen (%.0f packets per second): nothing to diagnose", pps)
		return d
	}
	var all []suspect
	for _, rule := range rules {
		all = append(all, rule(k)...)
	}
	for i := range all { // bursts that lose little are named only where the queue is known to be short
		if s := &all[i]; About(s.kind).level == byBuffer && s.share < 0.02 {
			s.strength *= 0.65
		}
	}
	all = slices.DeleteFunc(all, func(s suspect) bool { return s.strength < named })
	order := k.rank(all)
	if len(order) == 0 {
		d.Why = k.healthy(d.Stages)
		d.Next = k.nextByUse(d.Stages, "")
		return d
	}
	first := order[0]
	d.Bottleneck = k.tell(&first, order[1:])
	d.Why = first.say
	if len(order) > 1 {
		d.Next = k.tell(&order[1], order[2:])
	} else {
		d.Next = k.nextByUse(d.Stages, d.Bottleneck.Stage)
	}
	return d
}

// tell makes the answer of a suspect.
func (k *look) tell(s *suspect, rivals []suspect) *Bottleneck {
	m := About(s.kind)
	b := &Bottleneck{
		Kind: s.kind, Stage: s.stage, Object: s.object, Evidence: s.evidence, Confidence: k.confidence(s, rivals),
		Say: s.say, Advice: s.advice, Knobs: slices.Clone(m.Knobs),
	}
	if b.Stage == "" {
		b.Stage = m.Stage
	}
	if b.Advice == "" {
		b.Advice = m.Advice
	}
	if s.knobs != nil {
		b.Knobs = s.knobs
	}
	if b.Knobs == nil {
		b.Knobs = []string{}
	}
	if b.Evidence == nil {
		b.Evidence = []Evidence{}
	}
	return b
}

// healthy says why nothing is named.
func (k *look) healthy(stages []Stage) string {
	say := fmt.Sprintf("nothing holds the path back: %s packets per second", amount(k.rate(k.packets)))
	if s := busiestStage(stages, ""); s != nil {
		say += fmt.Sprintf(", and the busiest stage, %s, is at %s", s.Object, percent(s.Use))
	}
	return say
}

func busiestStage(stages []Stage, but string) *Stage {
	var found *Stage
	for i := range stages {
		s := &stages[i]
		if s.Name != but && s.Name != "generator" && s.Name != "receiver" && s.Use > 0 &&
			(found == nil || s.Use > found.Use) {
			found = s
		}
	}
	return found
}

// nextByUse is the stage that has the least left, where no other suspect is there.
func (k *look) nextByUse(stages []Stage, but string) *Bottleneck {
	s := busiestStage(stages, but)
	if s == nil || s.Use < 0.3 {
		return nil
	}
	kind, known := map[string]Kind{
		"nic": LineRate, "softirq": Softirq, "netfilter": NetfilterRules, "overlay": TunnelCost, "qdisc": RateLimit,
		"vhost": Vhost, "vcpu": GuestCPU, "guest": GuestCPU, "socket": Socket,
	}[s.Name]
	if !known {
		return nil
	}
	next := suspect{kind: kind, stage: s.Name, object: s.Object, strength: 0.3 + 0.4*min(s.Use, 1),
		say:      fmt.Sprintf("%s is at %s", s.Object, percent(s.Use)),
		evidence: []Evidence{{What: "use of " + s.Object, Value: s.Use, Unit: "share", Source: "stages"}}}
	return k.tell(&next, nil)
}
