package bottleneck

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
)

// rank orders suspects, the one that holds the path back first, and leaves out what follows from others.
//
// Of two that meet at one place the one of the lower level explains the other (level). Of those that are left, the ones
// that lose packets come first, of them the one furthest along the path: it gets only what those before it let pass,
// and loses of that too. What is merely full comes behind, by how directly it is seen, and the ends of a measurement
// last.
func (k *look) rank(all []suspect) []suspect {
	for i := range all {
		for j := range all {
			if i != j && k.explains(&all[j], &all[i]) {
				all[i].hidden = true
			}
		}
	}
	left := slices.DeleteFunc(slices.Clone(all), func(s suspect) bool { return s.hidden })
	slices.SortStableFunc(left, func(a, b suspect) int {
		return cmp.Or(
			cmp.Compare(k.class(&a), k.class(&b)),
			k.byDepth(&a, &b),
			cmp.Compare(b.strength, a.strength),
			cmp.Compare(b.lost, a.lost),
			cmp.Compare(a.kind, b.kind), cmp.Compare(a.object, b.object),
		)
	})
	return left
}

// explains reports whether b follows from a.
func (k *look) explains(a, b *suspect) bool {
	if !slices.ContainsFunc(a.keys, func(key string) bool { return slices.Contains(b.keys, key) }) {
		return false
	}
	la, lb := About(a.kind).level, About(b.kind).level
	if la == byEnds || lb == byEnds {
		return la != byEnds && lb == byEnds && (a.lost > 0 || b.lost == 0)
	}
	if la != lb {
		return la < lb && a.strength >= b.strength-0.3
	}
	return a.strength > b.strength && sameStage(a, b)
}

func sameStage(a, b *suspect) bool {
	return cmp.Or(a.stage, About(a.kind).Stage) == cmp.Or(b.stage, About(b.kind).Stage)
}

// class is how much a suspect's packets tell: 0 many are lost there, 1 a stage is full, 2 few are lost, 3 an end of the
// measurement.
func (k *look) class(s *suspect) int {
	switch {
	case About(s.kind).Ends:
		if s.kind == Receiver && k.grave(s) {
			return 0
		}
		return 3
	case k.grave(s):
		return 0
	case s.lost > 0:
		return 2
	}
	return 1
}

// grave reports whether more than bursts are lost.
func (k *look) grave(s *suspect) bool {
	return s.share >= lossLarge && s.lost >= 0.02*k.packets
}

// byDepth puts what is further along the path first, among those that lose many packets.
func (k *look) byDepth(a, b *suspect) int {
	if k.class(a) != 0 || k.class(b) != 0 {
		return 0
	}
	return cmp.Compare(k.depth(b), k.depth(a))
}

// depth is how far along the path a suspect acts, in the direction in which most packets go.
func (k *look) depth(s *suspect) int {
	stage := cmp.Or(s.stage, About(s.kind).Stage)
	at := slices.Index(StageNames(), stage)
	if k.outwards && stage != "generator" && stage != "receiver" {
		return -at
	}
	return at
}

// confidence is how likely the first answer is the right one: how directly it is seen, less what is left unexplained
// beside it, less what a profile would have told. TestCalibrated holds it against planted bottlenecks.
func (k *look) confidence(s *suspect, rivals []suspect) float64 {
	c := s.strength
	for i := range rivals {
		r := &rivals[i]
		weight := 0.3
		if k.class(r) != k.class(s) || About(r.kind).Ends {
			weight = 0.1
		}
		c = min(c, s.strength*(1-weight*r.strength))
	}
	if k.l.Method != facts.ByTracepoints && About(s.kind).level != byLimit {
		c *= 0.9
	}
	return min(max(c, 0.05), 0.99)
}
