package tune

import (
	"fmt"

	"mpps/internal/model/goal"
	"mpps/internal/words"
)

// limitedOutside reports whether the generator or the receiver limited a rate, not the host. A generator on this host
// runs a part of the path on its own CPU and falls behind if that part is slow, so if the diagnosis names a stage of
// the host, the host is the limit.
func (l *loop) limitedOutside(r Rate) bool {
	return r.LimitedBy == "receiver" || r.LimitedBy == "generator" && !l.hostLimits()
}

// hostLimits reports whether the diagnosis names a stage between the generator and the receiver.
func (l *loop) hostLimits() bool {
	d := l.diagnosis
	return d != nil && d.Bottleneck != nil && d.Bottleneck.Stage != "generator" && d.Bottleneck.Stage != "receiver"
}

// judgeBaseline sets the verdict if nothing is left to do after the baseline.
func (l *loop) judgeBaseline() {
	r := l.result
	b := r.Final
	switch {
	case l.reachesTarget(b.PPS) && l.Earlier != nil:
		l.conclude()
	case l.reachesTarget(b.PPS) && l.reachesTarget(l.lastRate):
		r.Verdict = Good
		r.Why = fmt.Sprintf("the host is good: it carries %s packets/s, %s were asked for, and a trial %s let %s "+
			"through; nothing was changed", rate(b.PPS), rate(l.Goal.PPS), l.atLoad(), rate(l.lastRate))
	case l.limitedOutside(b):
		l.conclude()
	}
}

// atLoad is the load of a trial in words.
func (l *loop) atLoad() string {
	if l.load == 0 {
		return "as fast as possible"
	}
	return "at " + rate(l.load)
}

// conclude sets the verdict, the sentence for it, and the advice.
func (l *loop) conclude() {
	r := l.result
	for _, c := range l.kept {
		r.Added = append(r.Added, c.Key)
	}
	from, to := r.Baseline.PPS, r.Final.PPS
	if from == 0 || to == 0 { // no rate without loss was found
		from, to = r.Baseline.Loaded, r.Final.Loaded
	}
	change := rate(to) + " packets/s"
	if gain, shown := r.Shown(); shown {
		change = fmt.Sprintf("%s → %s packets/s, %s", rate(from), rate(to), gain)
	}
	changes, untried := words.Count(len(r.Kept), "change"), words.Count(len(r.Untried), "candidate")
	missed := ""
	if l.Goal.PPS > 0 {
		missed = fmt.Sprintf(", %s were asked for", rate(l.Goal.PPS))
	}
	switch {
	case (len(r.Kept) > 0 || l.Earlier != nil) && l.reachesTarget(r.Final.PPS):
		r.Verdict, r.Why = Met, fmt.Sprintf("the target holds: %s with %s", change, changes)
	case l.limitedOutside(r.Final):
		r.Verdict = NotDevice
		more := ""
		if l.Earlier != nil {
			more = " more"
		}
		r.Why = fmt.Sprintf("the %s is the limit at %s packets/s, not the host: no change of the host could be seen; "+
			"nothing%s was changed", r.Final.LimitedBy, rate(to), more)
		if len(l.kept) > 0 {
			r.Why = fmt.Sprintf("the %s is the limit by now, not the host: %s with %s%s; whether more would help "+
				"could not be seen", r.Final.LimitedBy, change, changes, missed)
		}
	case r.Verdict == OutOfBudget && len(r.Kept) > 0:
		r.Why = fmt.Sprintf("the budget is spent: %s with %s%s; %s not tried", change, changes, missed, untried)
	case r.Verdict == OutOfBudget && len(r.Attempts) == 0:
		r.Why = fmt.Sprintf("the budget of %v leaves no time for a candidate between the first search (%.0f s) and "+
			"what is reserved for the proof: %s packets/s%s; %s not tried",
			l.Budget, l.searchTook.Seconds(), rate(from), missed, untried)
	case r.Verdict == OutOfBudget:
		r.Why = fmt.Sprintf("the budget is spent and nothing was shown to help: %s packets/s%s; %s not tried",
			rate(from), missed, untried)
		if p := r.Method.Provable; p > 0 {
			r.Why += fmt.Sprintf("; with this noise it could prove ×%.3g or more of one change tried alone", p)
		}
	case len(r.Waits) > 0:
		r.Verdict = Waiting
		r.Why = fmt.Sprintf("what is left needs a %s: so far %s%s", r.Waits[0].For, change, missed)
		if l.restartFirst {
			r.Why = fmt.Sprintf("a %s comes first, everything else is tried after it: so far %s packets/s%s",
				r.Waits[0].For, rate(from), missed)
		}
	case len(r.Kept) > 0 && len(r.Untried) > 0:
		r.Verdict, r.Why = Better, fmt.Sprintf("the target held once, but the last search missed it: %s with "+
			"%s%s; %s not tried", change, changes, missed, untried)
	case len(r.Kept) > 0:
		r.Verdict, r.Why = Better, fmt.Sprintf("nothing is left to try: %s with %s%s", change, changes, missed)
	default:
		r.Verdict = NoGain
		r.Why = fmt.Sprintf("nothing helps: %s tried, none kept; %s packets/s%s",
			words.Count(len(r.Attempts), "candidate"), rate(from), missed)
	}
	for i := range r.Untried {
		r.Untried[i].Why = l.untriedWhy()
	}
	if r.Verdict != Met && r.Verdict != Good {
		r.Advice = append(r.Advice, l.host.Advise(r, l.diagnosis)...)
	}
	if l.undo != nil {
		r.Waits = append(r.Waits, *l.undo)
	}
}

// untriedWhy is the reason why candidates were left untried.
func (l *loop) untriedWhy() string {
	switch r := l.result; {
	case r.Verdict == Met:
		return "the target holds without it"
	case r.Verdict == NotDevice:
		return "the " + r.Final.LimitedBy + " is the limit: its gain could not be seen"
	case r.Verdict == OutOfBudget:
		return "the budget was spent"
	case l.restartFirst:
		return "it is tried after the restart"
	}
	return "the target held without it for a while, but not in the last search: run it again"
}

func rate(pps float64) string { return goal.FormatRate(pps) }
