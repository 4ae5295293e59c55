package bottleneck

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
)

// rank orders suspects, the bottleneck first, and leaves out those that another explains.
//
// Of two that share a key, the one of the lower level explains the other. Of the rest, those that lose packets come
// first, ordered by how many more packets would arrive without them. Of several stages at their limit that is the one
// furthest along the path: it receives only what the earlier ones let pass, and still loses packets. Stages that are
// merely full follow, the most direct evidence first, and the ends of a measurement last.
func (p *path) rank(all []suspect) []suspect {
	var left []suspect
	for b := range facts.Each(all) {
		if !slices.ContainsFunc(all, func(a suspect) bool { return explains(&a, b) }) {
			left = append(left, *b)
		}
	}
	together := slices.Clone(left)
	slices.SortStableFunc(left, func(a, b suspect) int {
		return cmp.Or(
			cmp.Compare(p.class(&a), p.class(&b)),
			p.byGain(&a, &b, together),
			cmp.Compare(b.strength, a.strength),
			cmp.Compare(b.lost, a.lost),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.object, b.object),
		)
	})
	return left
}

// explains reports whether b follows from a. No suspect explains itself.
func explains(a, b *suspect) bool {
	if !slices.ContainsFunc(a.keys, func(key string) bool { return slices.Contains(b.keys, key) }) {
		return false
	}
	ma, mb := About(a.kind), About(b.kind)
	if ma.level == byEnds || mb.level == byEnds {
		return ma.level != byEnds && mb.level == byEnds && (a.lost > 0 || b.lost == 0)
	}
	if ma.level != mb.level {
		return ma.level < mb.level && a.strength >= b.strength-0.3
	}
	return a.strength > b.strength && cmp.Or(a.stage, ma.Stage) == cmp.Or(b.stage, mb.Stage)
}

// class ranks how much a suspect's lost packets prove: 0 many are lost, 1 none, but a stage is full, 2 few are lost,
// 3 the suspect is an end of the measurement.
func (p *path) class(s *suspect) int {
	switch ends := About(s.kind).Ends; {
	case (!ends || s.kind == Receiver) && p.losesMany(s):
		return 0
	case ends:
		return 3
	case s.lost > 0:
		return 2
	}
	return 1
}

// losesMany reports whether more is lost than bursts explain.
func (p *path) losesMany(s *suspect) bool {
	return s.share >= largeLossShare && (s.goesRound || s.lost >= 0.02*p.packets)
}

// byGain compares suspects that lose many packets: first the one without which more packets would arrive, then the one
// further along the path.
func (p *path) byGain(a, b *suspect, all []suspect) int {
	if p.class(a) != 0 || p.class(b) != 0 {
		return 0
	}
	return cmp.Or(cmp.Compare(p.regained(b, all), p.regained(a, all)), cmp.Compare(p.depth(b), p.depth(a)))
}

// regained returns how many more packets would arrive without a suspect: those that it loses, less what later places
// would lose of them. A later place that loses packets because it is at its limit would lose all of them; one that
// loses a steady share, or whose queue is only too short for bursts, the same share of them.
func (p *path) regained(s *suspect, all []suspect) float64 {
	gain := s.lost
	for t := range facts.Each(all) {
		if p.class(t) != 0 || p.depth(t) <= p.depth(s) || !follows(t, s) {
			continue
		}
		if m := About(t.kind); !m.steady && m.level != byBuffer {
			return 0
		}
		gain *= 1 - t.share
	}
	return gain
}

// follows reports whether t comes after s on the path: at least 30 % of what s lets pass reaches it.
func follows(t, s *suspect) bool {
	if s.share <= 0 || t.share <= 0 {
		return true
	}
	return t.lost/t.share >= 0.3*(s.lost/s.share-s.lost)
}

// depth returns how far along the path a suspect acts, in the direction of most packets.
func (p *path) depth(s *suspect) int {
	stage := cmp.Or(s.stage, About(s.kind).Stage)
	at := slices.Index(StageNames(), stage)
	if p.outwards && stage != "generator" && stage != "receiver" {
		return -at
	}
	return at
}

// confidence returns how likely the first answer is right, 0.05–0.99: the strength of its evidence, reduced by its
// rivals and by the lack of a profile. TestCalibrated checks it against planted bottlenecks.
func (p *path) confidence(s *suspect, rivals []suspect) float64 {
	c := s.strength
	for r := range facts.Each(rivals) {
		weight := 0.3
		if p.class(r) != p.class(s) || About(r.kind).Ends {
			weight = 0.1
		}
		c = min(c, s.strength*(1-weight*r.strength))
	}
	if p.l.Method != facts.ByTracepoints && About(s.kind).level != byLimit {
		c *= 0.9
	}
	return min(max(c, 0.05), 0.99)
}
