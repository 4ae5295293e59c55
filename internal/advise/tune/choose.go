package tune

import (
	"slices"
	"strings"

	"mpps/internal/advise/bottleneck"
)

// choose picks the candidate to try next; false: none is worth trying. It lists the untried ones and those that need a
// restart in the result.
func (l *loop) choose(all []Candidate) (Candidate, expectation, bool) {
	l.result.Untried, l.result.Waits = []Untried{}, []Wait{}
	best, hope := -1, expectation{}
	for i, c := range all {
		if !c.Needs.IsZero() {
			l.addWait(c)
			continue
		}
		if !l.worthTrying(c) {
			continue
		}
		e := expect(c, l.diagnosis, l.named, l.Learned, l.Class)
		if e.score /= l.relativeTime(c); best < 0 || e.score > hope.score {
			best, hope = i, e
		}
		if _, tried := l.tried[c.Key]; !tried {
			l.result.Untried = append(l.result.Untried, Untried{Key: c.Key, Title: c.Title, Risk: c.Risk})
		}
	}
	if best < 0 {
		return Candidate{}, hope, false
	}
	return all[best], hope, true
}

// limitName is the kind and the object of the current bottleneck, or empty if none is named.
func (l *loop) limitName() string {
	if l.diagnosis == nil || l.diagnosis.Bottleneck == nil {
		return ""
	}
	return string(l.diagnosis.Bottleneck.Kind) + " " + l.diagnosis.Bottleneck.Object
}

// limitKind is the kind of the current bottleneck, or empty if none is named.
func (l *loop) limitKind() string {
	kind, _, _ := strings.Cut(l.limitName(), " ")
	return kind
}

// maxTries bounds how often one candidate is tried.
const maxTries = 3

// worthTrying reports whether to try a candidate. One without use is tried again, up to maxTries times in all, if
// something was kept since and it acts on the current bottleneck (or, once, on the next one), or if losses are compared
// by now and were not then.
func (l *loop) worthTrying(c Candidate) bool {
	before, tried := l.tried[c.Key]
	if !tried {
		return true
	}
	useless := before.outcome == Useless || before.outcome == NotShown || before.outcome == Hurts &&
		before.ratio >= possibly
	if !useless || before.times == maxTries {
		return false
	}
	if l.byLoss && !before.byLoss && len(l.kept) > 0 {
		return true
	}
	if before.kept == len(l.kept) {
		return false
	}
	i := slices.IndexFunc(l.limits(), func(b *bottleneck.Bottleneck) bool { return namedBy(b, c) >= 0 })
	return i == 0 || i > 0 && before.times == 1
}

// limits returns the current bottleneck and the next one, as far as they are known.
func (l *loop) limits() []*bottleneck.Bottleneck {
	d := l.diagnosis
	switch {
	case d == nil || d.Bottleneck == nil:
		return nil
	case d.Next == nil:
		return []*bottleneck.Bottleneck{d.Bottleneck}
	}
	return []*bottleneck.Bottleneck{d.Bottleneck, d.Next}
}

// addWait lists a candidate with the restart that it needs.
func (l *loop) addWait(c Candidate) {
	r := l.result
	i := slices.IndexFunc(r.Waits, func(w Wait) bool { return w.needs == c.Needs })
	if i < 0 {
		i = len(r.Waits)
		r.Waits = append(r.Waits, Wait{For: c.Needs.String(), needs: c.Needs})
	}
	r.Waits[i].Keys = append(r.Waits[i].Keys, c.Key)
}
