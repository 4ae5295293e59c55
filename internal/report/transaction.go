package report

import (
	"fmt"
	"time"

	"mpps/internal/apply"
	"mpps/internal/journal"
)

// Applied draws what became of an apply.
func Applied(t *Text, r apply.Result, dryRun, verbose bool) {
	already, cannot := 0, 0
	for _, c := range r.Changes {
		if dryRun && c.State == journal.ChangeFailed {
			cannot++
		}
		if c.State == journal.ChangeAlready {
			already++
			if !verbose {
				continue
			}
		}
		change(t, c)
	}
	if already > 0 && !verbose {
		t.Line("%s already as wanted (-v shows them)", count(already, "value"))
	}
	switch {
	case dryRun:
		t.Line("dry run: %s would be written, nothing was", count(len(r.Changes)-already-cannot, "value"))
		if cannot > 0 {
			t.Wrapped(t.In(Red, "refused: "), count(cannot, "value")+" cannot be written here, so apply would change nothing at all")
		}
	case r.TX == "":
		t.Line("nothing to change")
	default:
		t.Wrapped(t.In(Green, "applied: "), fmt.Sprintf("%s written and read back in %.2f s; transaction %s", count(r.Written(), "value"), r.Seconds, r.TX))
		t.Line("'mpps rollback' puts everything back")
	}
	if r.ConfirmWithin > 0 {
		t.Wrapped(t.In(RedBold, "not confirmed yet: "), fmt.Sprintf("run 'mpps confirm' within %v, or everything is put back by itself", time.Duration(r.ConfirmWithin*float64(time.Second))))
	}
}

// change draws one change as a diff.
func change(t *Text, c apply.Outcome) {
	t.Wrapped(t.In(Bold, c.ID)+"  ", t.In(Faint, c.Address.String()))
	switch {
	case c.State == journal.ChangeAlready, c.State == journal.ChangeLeft:
		if !c.Address.Kind.Whole() {
			t.Value("", "    ", c.From)
		}
	default:
		values(t, "  ", c.Address, c.From, c.To)
		if c.Found != "" && c.Found != c.To && !c.Address.Kind.Whole() {
			t.Value("", "    reads back as ", c.Found)
		}
	}
	if c.Why != "" {
		t.Wrapped("    ", c.Why)
	}
	if !c.Needs.IsZero() && takesEffect(c.State) {
		t.Wrapped("    ", "takes effect after "+c.Needs.String())
	}
}

// takesEffect tells whether a change in this state is to take effect: what was refused or put back is not.
func takesEffect(s journal.ChangeState) bool {
	switch s {
	case journal.ChangeIntended, journal.ChangeAlready, journal.ChangeDone, journal.ChangeInDoubt:
		return true
	}
	return false
}

// RolledBack draws what became of a rollback.
func RolledBack(t *Text, all []apply.Restored, dryRun, verbose bool) {
	if len(all) == 0 {
		t.Line("nothing to put back")
		return
	}
	for _, r := range all {
		same := 0
		for _, c := range r.Changes {
			if c.State == journal.ChangeLeft && c.Reason != journal.Drifted && !verbose {
				same++
				continue
			}
			change(t, c)
		}
		if same > 0 {
			t.Wrapped("", count(same, "value")+" as before already, or nothing is there to restore (-v shows them)")
		}
		if n := r.Drifted(); n > 0 {
			t.Wrapped(t.In(Yellow, "drifted: "), count(n, "value")+" left alone, changed by somebody else since; --force puts them back too")
		}
		switch {
		case dryRun:
			t.Wrapped("dry run: ", fmt.Sprintf("%s of transaction %s would be put back, nothing was", count(r.Written(), "value"), r.Of))
		case r.State != journal.Applied:
			t.Wrapped(t.In(RedBold, string(r.State)+": "), fmt.Sprintf("transaction %s is not wholly put back; 'mpps rollback' again completes it", r.Of))
		default:
			t.Wrapped(t.In(Green, "rolled back: "), fmt.Sprintf("%s of transaction %s put back and read back in %.2f s", count(r.Written(), "value"), r.Of, r.Seconds))
		}
	}
}

// Status draws how the host stands, in a word and with what there is to know about it.
func Status(t *Text, s apply.Status, verbose bool) {
	standing(t, s)
	for _, e := range s.Transactions {
		t.Line("  %s", entryLine(e))
		follows(t, "    ", e)
		if e.ConfirmUntil != nil {
			t.Line("  %s until %s, or it is put back by itself", t.In(RedBold, "'mpps confirm' it"), clock(*e.ConfirmUntil))
		}
		if e.Error != "" {
			t.Wrapped("    ", e.Error)
		}
	}
	rows(t, s, verbose)
	remains(t, s.Remains)
}

// Verified draws how each applied value compares with what was wanted.
func Verified(t *Text, s apply.Status, verbose bool) {
	rows(t, s, verbose)
	if s.State == apply.IsClean {
		t.Line("nothing of mpps is applied on this host")
		return
	}
	standing(t, s)
}

func standing(t *Text, s apply.Status) {
	style := RedBold
	switch s.State {
	case apply.IsClean, apply.IsApplied:
		style = Green
	case apply.IsInFlight, apply.IsWaiting, apply.IsDrifted:
		style = Yellow
	}
	line := t.In(style, string(s.State))
	if s.Why != "" {
		line += ": " + s.Why
	}
	t.Wrapped("", line)
}

// rows draws the values that are not as applied, and counts the others.
func rows(t *Text, s apply.Status, verbose bool) {
	for _, r := range s.Rows {
		if r.State == apply.Compliant && !verbose {
			continue
		}
		style := Yellow
		if r.State == apply.Compliant {
			style = Green
		}
		t.Wrapped(fmt.Sprintf("%s %s  ", t.In(style, fmt.Sprintf("%-9s", r.State)), t.In(Bold, r.ID)), t.In(Faint, r.Address.String()))
		if r.Why != "" {
			t.Wrapped("          ", r.Why)
		} else {
			t.Wrapped("          ", "found "+brief(r.Found)+", wanted "+brief(r.Wanted))
		}
	}
	if n := s.Counts[string(apply.Compliant)]; n > 0 && !verbose {
		t.Line("%s as applied (-v shows them)", count(n, "value"))
	}
}

// History draws the list of transactions.
func History(t *Text, entries []apply.Entry, all bool) {
	if len(entries) == 0 {
		t.Line("mpps has changed nothing on this host")
		return
	}
	for i := 0; i < len(entries); {
		if n := trials(entries[i:]); n > 2 && !all {
			t.Line("%s  tune      put back     %s and their rollbacks (%s); -v lists them", entries[i].TX, count((n+1)/2, "trial"), entries[i].Session)
			i += n
			continue
		}
		t.Line("%s", entryLine(entries[i]))
		follows(t, "  ", entries[i])
		i++
	}
}

// trials is how many of the first entries are a run's that are put back, or put others back.
func trials(entries []apply.Entry) (n int) {
	for n < len(entries) && entries[n].Session != "" && entries[n].Session == entries[0].Session {
		if e := entries[n]; e.Kind == journal.Apply && e.State != journal.WasRolledBack || e.Kind == journal.Rollback && e.State != journal.Applied {
			break
		}
		n++
	}
	return n
}

func entryLine(e apply.Entry) string {
	line := fmt.Sprintf("%s  %-8s  %-11s  %s", e.TX, e.Kind, e.State, count(e.Changes, "value"))
	if e.Of != "" {
		line += " of " + e.Of
		if e.Why != "" {
			line += " (" + e.Why + ")"
		}
	}
	if e.Torn {
		line += "; its last record is unfinished: the machine stopped there"
	}
	return line
}

// follows tells which transaction another went on with.
func follows(t *Text, indent string, e apply.Entry) {
	if e.Follows != "" {
		t.Line("%sgoes on with %s", indent, e.Follows)
	}
}

func clock(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05") }

// Transaction draws one transaction with its changes.
func Transaction(t *Text, d apply.Detail) {
	t.Line("%s", entryLine(d.Entry))
	follows(t, "  ", d.Entry)
	if d.Error != "" {
		t.Wrapped("  ", d.Error)
	}
	for _, c := range d.List {
		t.Blank()
		change(t, c)
		t.Line("    %s", c.State)
	}
}

// PutBack draws what became of a restore.
func PutBack(t *Text, p apply.Pass) {
	for _, b := range p.PutBack {
		t.Wrapped(t.In(Bold, b.ID)+"  ", t.In(Faint, b.Address.String()))
		if b.Error != "" {
			t.Wrapped("  "+t.In(RedBold, "not put back: "), b.Error)
			continue
		}
		values(t, "  ", b.Address, b.From, b.To)
	}
	for _, b := range p.ByHand {
		t.Wrapped(t.In(Yellow, "left alone: "), fmt.Sprintf("%s is %s, wanted %s: changed by hand; --insist puts it back too", b.Address, b.Found, b.Wanted))
	}
	switch {
	case p.Values == 0:
		t.Line("nothing is to be put back on this host")
	case len(p.PutBack)+len(p.ByHand) == 0:
		t.Line("%s as wanted", count(p.Values-p.Absent, "value"))
	}
	if p.Absent > 0 {
		t.Line("%s of devices or guests that are not there", count(p.Absent, "value"))
	}
}
