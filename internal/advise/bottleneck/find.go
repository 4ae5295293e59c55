package bottleneck

import (
	"cmp"
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// suspect is something that may hold the path back.
type suspect struct {
	kind     Kind
	stage    string // empty: the kind's
	object   string
	say      string
	evidence []Evidence
	strength float64  // 0–1: how directly the evidence shows that it is the limit now
	lost     float64  // packets lost because of it
	share    float64  // of the packets at the place where they are lost
	keys     []string // where it acts: "cpu:3", "guest:vm1", "dev:eth0"; one may explain others with its keys
	knobs    []string // nil: the kind's
	advice   string   // empty: the kind's

	reason, function string // of packets that the kernel drops
	goesRound        bool   // a routing loop: devices counted each of their passes, so their share of all is small
}

// show adds a figure to the evidence.
func (s *suspect) show(what string, value float64, unit, source string) {
	s.evidence = append(s.evidence, Evidence{what, value, unit, source})
}

// addLoss adds packets that are lost because of the suspect. The share is that of the worst place.
func (s *suspect) addLoss(l loss) {
	s.lost += l.packets
	s.share = max(s.share, l.share)
	s.show("lost: "+string(l.at), l.packets, "packets", l.source)
}

// become takes over another suspect's explanation, and adds its evidence and keys.
func (s *suspect) become(o suspect) {
	s.kind, s.stage, s.object, s.strength = o.kind, o.stage, o.object, o.strength
	s.evidence, s.keys = append(s.evidence, o.evidence...), append(s.keys, o.keys...)
}

// strongest returns the suspect with the highest strength; false if there are none.
func strongest(found []suspect) (suspect, bool) {
	if len(found) == 0 {
		return suspect{}, false
	}
	return slices.MaxFunc(found, func(a, b suspect) int { return cmp.Compare(a.strength, b.strength) }), true
}

func cpuKey(cpu int) string                { return fmt.Sprintf("cpu:%d", cpu) }
func deviceKey(d *facts.DeviceLoad) string { return "dev:" + deviceName(d) }

// notNil returns an empty list for nil, which JSON shows as null.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// minStrength is the least strength that a bottleneck is named with.
const minStrength = 0.5

// rules find suspects. Their order decides nothing.
var rules = []func(*path) []suspect{
	lineRate, pcieLink, pauseFrames, linkErrors, vfRate, rxRing,
	softirqs, backlogs, budgets,
	droppedByRule, droppedForReason, droppedByDevice, unaccounted, tables, lostUpcalls, polled,
	queueLocks, rateLimits, qdiscLimits,
	tapQueues, vhostThreads, emulatedNICs, wrongNode,
	quotas, vcpus, insideGuests, exhaustedCPUs, stolenCPUs,
	sockets, blockedSockets, slowReaders, narrowSockets, fullListeners, packetSockets, generators,
}

// Find returns which stage holds the path back. It names none if nothing is lost and no stage is full, nor without
// traffic. The same host and load always give the same answer.
func Find(h *facts.Host, l *facts.Load) *Diagnosis {
	p := newPath(h, l)
	d := &Diagnosis{Seconds: l.Seconds, Method: l.Method, Role: h.Role(), Stages: p.stages(), Unseen: notNil(l.Unseen)}
	if s := p.unread(); p.quiet() && s != nil {
		f := neverRead(s)
		d.Bottleneck, d.Why = p.answer(&f, nil), f.say
		return d
	}
	if s := p.stuck(); p.quiet() && s != nil {
		d.Bottleneck, d.Why = p.answer(s, nil), s.say
		return d
	}
	if p.quiet() {
		d.Why = withRole(d.Role, fmt.Sprintf("no traffic to speak of (%.0f packets per second): nothing to diagnose",
			p.rate(p.packets)))
		return d
	}
	d.OnSender = p.onSender()
	var all []suspect
	for _, rule := range rules {
		all = append(all, rule(p)...)
	}
	for s := range facts.Each(all) { // bursts that lose little are named only if the queue is known to be short
		if About(s.kind).level == byBuffer && s.lost > 0 && s.share < 0.02 {
			s.strength *= 0.65
		}
	}
	all = slices.DeleteFunc(all, func(s suspect) bool { return s.strength < minStrength })
	order := p.rank(all)
	if len(order) == 0 {
		d.Why = withRole(d.Role, p.whyNone(d.Stages))
		d.Next = p.nextByUse(d.Stages, "")
		return d
	}
	d.Bottleneck = p.answer(&order[0], order[1:])
	d.Why = order[0].say
	if len(order) > 1 {
		d.Next = p.answer(&order[1], order[2:])
		for i := range order[2:] {
			if s := &order[2+i]; s.lost > 0 {
				d.Besides = append(d.Besides, *p.answer(s, nil))
			}
		}
	} else {
		d.Next = p.nextByUse(d.Stages, d.Bottleneck.Stage)
	}
	return d
}

// onSender returns the share of the busiest sender's CPU in which packets are received there.
func (p *path) onSender() float64 {
	t := most(facts.Each(p.l.Threads), func(t *facts.ThreadLoad) float64 {
		if sends(t) && t.Ran >= 0.5 {
			return t.Ran
		}
		return -1
	})
	if t == nil {
		return 0
	}
	return p.softirqUse(cpuOf(t))
}

// withRole adds to a sentence that says that nothing is wrong what the machine is, if no guest runs on it.
func withRole(r facts.Role, say string) string {
	if why := r.Why(); why != "" {
		return say + "; " + why
	}
	return say
}

// answer returns a suspect as the bottleneck; its confidence depends on the suspects ranked after it.
func (p *path) answer(s *suspect, rivals []suspect) *Bottleneck {
	m := About(s.kind)
	b := &Bottleneck{
		Kind: s.kind, Stage: cmp.Or(s.stage, m.Stage), Object: s.object, Evidence: notNil(s.evidence),
		Confidence: p.confidence(s, rivals), LostShare: min(s.share, 1), Say: s.say, Advice: cmp.Or(s.advice, m.Advice),
		Knobs: append([]string{}, m.Knobs...), Reason: s.reason, Function: s.function,
	}
	if s.knobs != nil {
		b.Knobs = s.knobs
	}
	return b
}

// whyNone returns the sentence for a path that nothing holds back.
func (p *path) whyNone(stages []Stage) string {
	say := fmt.Sprintf("nothing holds the path back: %s packets per second", amount(p.rate(p.packets)))
	if s := busiestStage(stages, ""); s != nil {
		say += fmt.Sprintf(", and the busiest stage, %s, is at %s", s.Object, percent(s.Use))
	}
	return say
}

func busiestStage(stages []Stage, except string) *Stage {
	return most(facts.Each(stages), func(s *Stage) float64 {
		if s.Name == except || s.Name == "generator" || s.Name == "receiver" || s.Use == 0 {
			return -1
		}
		return s.Use
	})
}

// nextByUse returns the busiest stage as the next bottleneck if there is no other suspect; nil if none is at 30 %.
func (p *path) nextByUse(stages []Stage, except string) *Bottleneck {
	s := busiestStage(stages, except)
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
	return p.answer(&suspect{kind: kind, stage: s.Name, object: s.Object, strength: 0.3 + 0.4*min(s.Use, 1),
		say:      fmt.Sprintf("%s is at %s", s.Object, percent(s.Use)),
		evidence: []Evidence{{What: "use of " + s.Object, Value: s.Use, Unit: "share", Source: "stages"}}}, nil)
}
