package tune

import (
	"slices"
	"strings"

	"mpps/internal/advise/bottleneck"
)

// choose picks what is to be tried next. What waits for a restart is noted.
func (l *loop) choose(all []Candidate) (Candidate, expectation, bool) {
	l.result.Untried, l.result.Waits = []Untried{}, []Wait{}
	best, hope := -1, expectation{}
	for i, c := range all {
		if !c.Needs.IsZero() {
			l.wait(c)
			continue
		}
		if !l.worth(c) {
			continue
		}
		e := expect(c, l.state, l.named, l.Learned, l.Class)
		if best < 0 || e.score > hope.score {
			best, hope = i, e
		}
		if _, tried := l.held[c.Key]; !tried {
			l.result.Untried = append(l.result.Untried, Untried{Key: c.Key, Title: c.Title, Risk: c.Risk})
		}
	}
	if best < 0 {
		return Candidate{}, hope, false
	}
	return all[best], hope, true
}

// limit names the bottleneck that stands.
func (l *loop) limit() string {
	if l.state == nil || l.state.Bottleneck == nil {
		return ""
	}
	return string(l.state.Bottleneck.Kind) + " " + l.state.Bottleneck.Object
}

// kindOfLimit is the kind of the bottleneck that stands; empty where none is named.
func (l *loop) kindOfLimit() string {
	kind, _, _ := strings.Cut(l.limit(), " ")
	return kind
}

// mostTimes is how often a candidate is tried at the most.
const mostTimes = 3

// worth reports whether a candidate is to be tried: for the first time, or once more where it was of no use, something
// was kept since, and it acts on what holds the path back now or would do so next, or what is lost has come to be what
// counts.
func (l *loop) worth(c Candidate) bool {
	before, tried := l.held[c.Key]
	if !tried {
		return true
	}
	useless := before.outcome == Useless || before.outcome == NotShown || before.outcome == Hurts &&
		before.ratio >= possibly
	if !useless || before.times == mostTimes || before.kept == len(l.kept) {
		return false
	}
	if l.byLoss && !before.byLoss {
		return true
	}
	for i, b := range l.limits() {
		if namedBy(b, c) >= 0 {
			return i == 0 || before.times == 1
		}
	}
	return false
}

// limits are the bottleneck and what would be the next one, as far as they are known.
func (l *loop) limits() []*bottleneck.Bottleneck {
	if l.state == nil || l.state.Bottleneck == nil {
		return nil
	}
	if l.state.Next == nil {
		return []*bottleneck.Bottleneck{l.state.Bottleneck}
	}
	return []*bottleneck.Bottleneck{l.state.Bottleneck, l.state.Next}
}

func (l *loop) wait(c Candidate) {
	r := l.result
	i := slices.IndexFunc(r.Waits, func(w Wait) bool { return w.needs == c.Needs })
	if i < 0 {
		i = len(r.Waits)
		r.Waits = append(r.Waits, Wait{For: c.Needs.String(), needs: c.Needs})
	}
	r.Waits[i].Keys = append(r.Waits[i].Keys, c.Key)
}
