package report

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// ApplyResult draws what became of an apply.
func ApplyResult(t *Text, r apply.Result, dryRun, verbose bool) {
	already, cannot := 0, 0
	for _, c := range r.Changes {
		if dryRun && c.State == journal.ChangeFailed {
			cannot++
		}
		if c.State == journal.ChangeAlready {
			already++
		}
		if verbose || c.State != journal.ChangeAlready {
			drawChange(t, c)
		}
	}
	t.LineIf(already > 0 && !verbose, "%s already as wanted (-v shows them)", words.Count(already, "value"))
	switch {
	case dryRun:
		t.Line("dry run: %s would be written, nothing was", words.Count(len(r.Changes)-already-cannot, "value"))
		t.WrapIf(cannot > 0, t.In(Red, "refused: "), "%s cannot be written here, so apply would change nothing at all",
			words.Count(cannot, "value"))
	case r.TX == "":
		t.Line("nothing to change")
	default:
		t.Wrap(t.In(Green, "applied: "), fmt.Sprintf("%s written and read back in %.2f s; transaction %s",
			words.Count(r.Written(), "value"), r.Seconds, r.TX))
		t.Line("'mpps rollback' puts everything back")
	}
	t.WrapIf(r.ConfirmWithin > 0, t.In(RedBold, "not confirmed yet: "),
		"run 'mpps confirm' within %v, or everything is reverted automatically",
		time.Duration(r.ConfirmWithin*float64(time.Second)))
}

// drawChange draws one change as a diff.
func drawChange(t *Text, c apply.Outcome) {
	t.Wrap(t.In(Bold, c.ID)+"  ", t.In(Faint, c.Address.String()))
	switch {
	case c.State == journal.ChangeAlready, c.State == journal.ChangeLeft:
		if !c.Address.Kind.IsText() {
			t.Value("", "    ", c.From)
		}
	default:
		drawValues(t, "  ", c.Address, c.From, c.To)
		if c.Found != "" && c.Found != c.To && !c.Address.Kind.IsText() {
			t.Value("", "    reads back as ", c.Found)
		}
	}
	t.Field("    ", c.Why)
	switch c.State { // what was refused or put back takes no effect
	case journal.ChangeIntended, journal.ChangeAlready, journal.ChangeDone, journal.ChangeInDoubt:
		t.WrapIf(!c.Needs.IsZero(), "    ", "takes effect after %s", c.Needs)
	}
}

// RollbackResult draws what became of a rollback.
func RollbackResult(t *Text, all []apply.Restored, dryRun, verbose bool) {
	t.LineIf(len(all) == 0, "nothing to put back")
	for _, r := range all {
		same := 0
		for _, c := range r.Changes {
			if c.State == journal.ChangeLeft && c.Reason != journal.Drifted && !verbose {
				same++
				continue
			}
			drawChange(t, c)
		}
		t.WrapIf(same > 0, "", "%s as before already, or nothing is there to restore (-v shows them)",
			words.Count(same, "value"))
		t.WrapIf(r.Drifted() > 0, t.In(Yellow, "drifted: "),
			"%s left alone, changed by somebody else since; --force puts them back too",
			words.Count(r.Drifted(), "value"))
		written := fmt.Sprintf("%s of transaction %s", words.Count(r.Written(), "value"), r.Of)
		switch {
		case dryRun:
			t.Wrap("dry run: ", written+" would be put back, nothing was")
		case r.State != journal.Applied:
			t.Wrap(t.In(RedBold, string(r.State)+": "),
				"transaction "+r.Of+" is not wholly put back; 'mpps rollback' again completes it")
		default:
			t.Wrap(t.In(Green, "rolled back: "), fmt.Sprintf("%s put back and read back in %.2f s", written, r.Seconds))
		}
	}
}

// Status draws the state of the host, in a word and with what there is to know about it.
func Status(t *Text, s apply.Status, verbose bool) {
	drawState(t, s)
	for _, e := range s.Transactions {
		t.Line("  %s", entryLine(e))
		t.LineIf(e.Follows != "", "    resumes %s", e.Follows)
		if e.ConfirmUntil != nil {
			until := e.ConfirmUntil.Local().Format("2006-01-02 15:04:05")
			t.Line("  %s until %s, or it is reverted automatically", t.In(RedBold, "'mpps confirm' it"), until)
		}
		t.Field("    ", e.Error)
	}
	drawRows(t, s, verbose)
	drawRemains(t, s.Remains)
}

// VerifyResult draws how each applied value compares with what was wanted.
func VerifyResult(t *Text, s apply.Status, verbose bool) {
	drawRows(t, s, verbose)
	if s.State != apply.IsClean {
		drawState(t, s)
		return
	}
	t.Line("nothing of mpps is applied on this host")
}

func drawState(t *Text, s apply.Status) {
	style := RedBold
	switch s.State {
	case apply.IsClean, apply.IsApplied:
		style = Green
	case apply.IsInFlight, apply.IsWaiting, apply.IsDrifted:
		style = Yellow
	}
	t.Wrap("", words.Join(": ", t.In(style, string(s.State)), s.Why))
}

// drawRows draws the values that are not as applied, and counts the others.
func drawRows(t *Text, s apply.Status, verbose bool) {
	for _, r := range s.Rows {
		if r.State == apply.Compliant && !verbose {
			continue
		}
		style := words.Either(r.State == apply.Compliant, Green, Yellow)
		t.Wrap(t.In(style, Pad(string(r.State), 9))+" "+t.In(Bold, r.ID)+"  ", t.In(Faint, r.Address.String()))
		t.Wrap("          ", cmp.Or(r.Why, "found "+brief(r.Found)+", wanted "+brief(r.Wanted)))
	}
	n := s.Counts[string(apply.Compliant)]
	t.LineIf(n > 0 && !verbose, "%s as applied (-v shows them)", words.Count(n, "value"))
}

// History draws the list of transactions, and says how many earlier ones it leaves out.
func History(t *Text, entries []apply.Entry, earlier int, all bool) {
	t.LineIf(earlier > 0, "%s before these; --last 0 lists all", words.Count(earlier, "transaction"))
	t.LineIf(len(entries) == 0, "mpps has changed nothing on this host")
	for len(entries) > 0 {
		e, n := entries[0], rolledBackTrials(entries)
		if n > 2 && !all {
			t.Line("%s  tune      put back     %s and their rollbacks (%s); -v lists them",
				e.TX, words.Count((n+1)/2, "trial"), e.Session)
			entries = entries[n:]
			continue
		}
		t.Line("%s", entryLine(e))
		t.LineIf(e.Follows != "", "  resumes %s", e.Follows)
		entries = entries[1:]
	}
}

// rolledBackTrials returns how many of the first entries are a tuning run's that are put back, or put others back.
func rolledBackTrials(entries []apply.Entry) (n int) {
	for _, e := range entries {
		stands := e.Kind == journal.Apply && e.State != journal.WasRolledBack ||
			e.Kind == journal.Rollback && e.State != journal.Applied
		if e.Session == "" || e.Session != entries[0].Session || stands {
			break
		}
		n++
	}
	return n
}

func entryLine(e apply.Entry) string {
	return fmt.Sprintf("%s  %-8s  %-11s  %s", e.TX, e.Kind, e.State, words.Count(e.Changes, "value")) +
		words.If(e.Of != "", " of %s", e.Of) + words.If(e.Of != "" && e.Why != "", " (%s)", e.Why) +
		words.If(e.Torn, "; its last record is unfinished: the machine stopped there")
}

// Transaction draws one transaction with its changes.
func Transaction(t *Text, d apply.Detail) {
	t.Line("%s", entryLine(d.Entry))
	t.LineIf(d.Follows != "", "  resumes %s", d.Follows)
	t.Field("  ", d.Error)
	for _, c := range d.List {
		t.Blank()
		drawChange(t, c)
		t.Line("    %s", c.State)
	}
}

// RestoreResult draws what became of a restore.
func RestoreResult(t *Text, p apply.Pass) {
	for _, b := range p.PutBack {
		t.Wrap(t.In(Bold, b.ID)+"  ", t.In(Faint, b.Address.String()))
		if b.Error != "" {
			t.Wrap("  "+t.In(RedBold, "not put back: "), b.Error)
			continue
		}
		drawValues(t, "  ", b.Address, b.From, b.To)
	}
	for _, b := range p.ByHand {
		t.Wrap(t.In(Yellow, "left alone: "),
			fmt.Sprintf("%s is %s, wanted %s: changed by hand; --insist puts it back too", b.Address, b.Found,
				b.Wanted))
	}
	switch {
	case p.Values == 0:
		t.Line("nothing is to be put back on this host")
	case len(p.PutBack)+len(p.ByHand) == 0:
		t.Line("%s as wanted", words.Count(p.Values-p.Absent, "value"))
	}
	t.LineIf(p.Absent > 0, "%s of devices or guests that are not there", words.Count(p.Absent, "value"))
}

// drawRemains draws the rest of a plan: what is done, what waits, what is still to be set, and the command that
// continues.
func drawRemains(t *Text, r *apply.Remains) {
	if r == nil {
		return
	}
	t.Blank()
	t.Wrap("", "plan of transaction "+r.Chain[0]+words.If(r.Flags != "", " (%s)", r.Flags))
	t.Field("  resumed by  ", strings.Join(r.Chain[1:], ", "))
	t.Line("  done     %s in effect", words.Count(r.Done, "value"))
	for _, w := range r.Waits {
		t.Wrap("  waits    ", fmt.Sprintf("%s for a %s", words.Count(len(w.Addresses), "value"), w.For))
	}
	for _, l := range r.Later {
		t.Wrap("  later    ", fmt.Sprintf("after %s: %s; %s", l.After, strings.Join(l.IDs, ", "), l.Why))
	}
	if r.Looked {
		drawRemainder(t, "remains  ", r.Changes)
		drawRemainder(t, "cannot   ", r.Cannot)
		t.LineIf(len(r.Changes) == 0, "  remains  nothing that can be set now")
	}
	t.Each("  "+t.In(Yellow, "note")+"     ", r.Notes)
	t.Field("  "+t.In(Yellow, "but")+"      ", words.Either(len(r.Waits) == 0, r.Against, ""))
	t.Field("  "+t.In(Bold, "next")+"     ", r.Next)
}

// drawRemainder lists values by their knobs, in the order in which they come.
func drawRemainder(t *Text, title string, all []apply.Left) {
	for _, group := range Group(all, func(l apply.Left) string { return l.ID }) {
		l, more := group[0], len(group)-1
		t.Wrap("  "+title+t.In(Bold, l.ID)+"  ", l.Address.String()+
			words.If(!l.Address.Kind.IsText(), ": %s → %s", brief(l.From), brief(l.To))+
			words.If(more > 0, ", and %d more", more)+words.If(l.Why != "", "; %s", l.Why))
	}
}

// drawValues draws what a value was and is to be: a line each, or of a whole file the lines that differ.
func drawValues(t *Text, indent string, a setting.Address, from, to string) {
	if !a.Kind.IsText() {
		t.Diff(indent, words.Or(from), words.Or(to))
		return
	}
	left := 14 // lines that are drawn
	for _, part := range []struct {
		style Style
		sign  string
		lines []string
	}{{Red, "- ", missingLines(from, to)}, {Green, "+ ", missingLines(to, from)}} {
		for i, line := range part.lines {
			if left--; left < 0 {
				t.Line("%s… and %s more (--json has them)", indent, words.Count(len(part.lines)-i, "line"))
				break
			}
			t.Value(part.style, indent+part.sign, line)
		}
	}
}

// missingLines returns the lines of a text that another one has not, each as often as it is missing there.
func missingLines(text, other string) []string {
	counts := map[string]int{}
	for _, line := range splitLines(other) {
		counts[line]++
	}
	var missing []string
	for _, line := range splitLines(text) {
		if counts[line]--; counts[line] < 0 {
			missing = append(missing, line)
		}
	}
	return missing
}

// splitLines returns those of a text; none of one that is absent.
func splitLines(text string) []string {
	if text == "" || text == setting.Absent.String() {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
