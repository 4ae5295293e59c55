package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// RowState is how one value compares with what was applied.
type RowState string

// The states of a row.
const (
	Compliant RowState = "compliant"
	Drifted   RowState = "drifted" // somebody else changed it since, or something reset it
	// somebody else who is known sets it: a later file of sysctl.d, irqbalance, TuneD
	Owned       RowState = "owned"
	ReadOnly    RowState = "read-only"   // not as wanted, and the kernel no longer allows a change
	Unsupported RowState = "unsupported" // the kernel or driver no longer has such a value
	NotThere    RowState = "absent"      // its object is not there now, such as a guest that is off
	Untold      RowState = "unknown"     // could not be read
	WaitsFor    RowState = "waiting"     // as wanted, or restored, but in effect only after a restart
)

// Row is one applied value as it is now.
type Row struct {
	ID      string          `json:"id"`
	Address setting.Address `json:"address"`
	Wanted  string          `json:"wanted"`
	Found   string          `json:"found"`
	State   RowState        `json:"state"`
	Why     string          `json:"why"`
	TX      string          `json:"tx"`
}

// Summary is the state of the machine in one word.
type Summary string

// The summaries, in the order in which one outranks another.
const (
	IsInFlight    Summary = "in-flight"
	IsInterrupted Summary = "interrupted"
	IsInDoubt     Summary = "in-doubt"
	IsFailed      Summary = "failed" // something could not be put back
	IsDrifted     Summary = "drifted"
	IsWaiting     Summary = "waiting"
	IsApplied     Summary = "applied"
	IsClean       Summary = "clean" // nothing of mpps stands on this machine
)

// Status is what mpps changed on the machine and how it compares now.
type Status struct {
	State  Summary         `json:"state"`
	Why    string          `json:"why,omitempty"`
	Holder *journal.Holder `json:"holder,omitempty"`
	// Transactions are the applied ones, and those that may be, oldest first.
	Transactions []Entry        `json:"transactions"`
	Rows         []Row          `json:"rows"`
	Counts       map[string]int `json:"counts"` // rows by state
	// Remains is the rest of the plan of the newest transaction that waits or waited for something, or nil.
	Remains *Remains `json:"remains,omitempty"`
}

// Status reads every applied value and compares it. If several transactions wrote the same address, the last one
// counts.
func (e *Engine) Status(ctx context.Context) (Status, error) {
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return Status{}, err
	}
	s := Status{State: IsClean, Holder: ledger.Holder, Transactions: []Entry{}, Rows: []Row{}, Counts: map[string]int{}}
	at, back := map[setting.Address]int{}, putBack(ledger)
	for _, t := range ledger.Open() {
		e.ahead.expect(addressesOf(t.Changes()))
	}
	for _, t := range ledger.Open() {
		s.Transactions = append(s.Transactions, e.entry(ledger, t))
		for _, c := range t.Changes() {
			if ctx.Err() != nil {
				return s, context.Cause(ctx)
			}
			tried := c.State == journal.ChangeUndoFailed || back[t.Header.TX][c.Address] // to put it back
			if c.State == journal.ChangeUndone || tried && e.read(ctx, c.Address).Same(c.Before) {
				continue
			}
			i, known := at[c.Address]
			if !known {
				i = len(s.Rows)
				at[c.Address] = i
				s.Rows = append(s.Rows, Row{})
			}
			s.Rows[i] = e.row(ctx, t, c)
		}
	}
	s.Rows = append(s.Rows, e.lingering(ctx, ledger, at)...)
	for _, r := range s.Rows {
		s.Counts[string(r.State)]++
	}
	s.State, s.Why = e.summary(s)
	s.Remains = e.remains(ledger, s.Rows)
	return s, nil
}

// putBack is what rollbacks have restored or begun to restore, by the transaction that wrote it. If that transaction is
// still open, its rollback is under way or was not completed.
func putBack(l *journal.Ledger) map[string]map[setting.Address]bool {
	back := map[string]map[setting.Address]bool{}
	for _, t := range l.Transactions {
		if t.Header.Kind != journal.Rollback {
			continue
		}
		if back[t.Header.Of] == nil {
			back[t.Header.Of] = map[setting.Address]bool{}
		}
		for _, c := range t.Changes() {
			back[t.Header.Of][c.Address] = true
		}
	}
	return back
}

// lingering returns restored values whose rolled-back versions are still in effect: a guest that was started with them
// in its definition keeps them until its next start, and a kernel keeps its arguments until the next boot. Values that
// an applied transaction sets are left out.
func (e *Engine) lingering(ctx context.Context, l *journal.Ledger, stands map[setting.Address]int) (rows []Row) {
	seen := map[setting.Address]bool{}
	for _, t := range l.Transactions {
		if t.Header.Kind != journal.Rollback || l.State(t) != journal.Applied {
			continue
		}
		for _, c := range t.Changes() {
			if _, known := stands[c.Address]; known || seen[c.Address] || c.State != journal.ChangeDone {
				continue
			}
			why := e.lingers(l, t, c)
			if why == "" {
				continue
			}
			if found := e.read(ctx, c.Address); c.Want.Met(found) {
				seen[c.Address] = true
				rows = append(rows, Row{ID: c.ID, Address: c.Address, Wanted: wanted(c.Address, c.Want),
					Found: c.Address.Brief(found), State: WaitsFor, Why: why, TX: t.Header.TX})
			}
		}
	}
	return rows
}

// lingers returns why a value that a rollback replaced is still in effect, or "".
func (e *Engine) lingers(l *journal.Ledger, back *journal.Transaction, c journal.Change) string {
	if e.Lingers == nil {
		return ""
	}
	var from time.Time
	if of, err := l.Find(back.Header.Of); err == nil {
		from = of.Header.Started
		if c.Lasts == setting.InBootLoader && (of.Header.BootID == e.BootID || back.Header.BootID != e.BootID) {
			return "" // the kernel that runs was not booted between the two
		}
	}
	return e.Lingers(c, from, back.Ended())
}

func (e *Engine) row(ctx context.Context, t *journal.Transaction, c journal.Change) Row {
	found := e.read(ctx, c.Address)
	row := Row{ID: c.ID, Address: c.Address, Wanted: wanted(c.Address, c.Want), Found: c.Address.Brief(found),
		State: Compliant, TX: t.Header.TX}
	switch {
	case found.State == setting.Unknown:
		row.State, row.Why = Untold, found.Why
	case c.State == journal.ChangeUndoFailed: // what is wanted is what was there before
		row.Wanted = c.Address.Brief(c.Before)
		row.State, row.Why = Drifted, fmt.Sprintf("is %s, and could not be put back to %s", c.Address.BriefWhy(found),
			row.Wanted)
	case c.Want.Met(found), found.State == setting.Known && tookAway(c), lasting.Holds(c.Address, c.Before, c.After,
		found):
		if why := e.waits(t, c); why != "" {
			row.State, row.Why = WaitsFor, why
		}
	case gone(c.Address, found) && found.Unsupported:
		row.State, row.Why = Unsupported, found.Why
	case gone(c.Address, found):
		row.State, row.Why = NotThere, found.Why
	case found.ReadOnly:
		row.State, row.Why = ReadOnly, fmt.Sprintf("is %s, expected %s: %s", c.Address.BriefWhy(found), row.Wanted,
			found.Why)
	case e.Lent != nil && e.Lent(c.Address) != "":
		row.State, row.Why = NotThere, e.Lent(c.Address)
	default:
		row.State, row.Why = Drifted, fmt.Sprintf("is %s, expected %s", c.Address.BriefWhy(found), row.Wanted)
		if reset := e.wasReset(t, c); reset != "" {
			row.Why += "; " + reset
		}
		if e.Owner != nil {
			if owner := e.Owner(c, found); owner != "" {
				row.State = Owned
				row.Why += "; " + owner
			}
		}
	}
	return row
}

// wasReset returns what has reset a drifted value without anybody writing it, or "" if unknown.
func (e *Engine) wasReset(t *journal.Transaction, c journal.Change) string {
	what := ""
	if e.BootID != t.Header.BootID && !c.Lasts.Kept() {
		what = "the host was restarted since"
	} else if e.Reset != nil {
		what = e.Reset(c, t.Ended())
	}
	switch {
	case what == "" || lasting.MakesLast(c.ID): // a file that makes others last stays whatever happens
		return ""
	case c.Lasts == setting.AcrossReboot:
		return what + ", and nothing has set the value again"
	}
	return what + ", and the value lasts " + string(c.Lasts)
}

// waits returns why an applied value has not taken effect yet, or "".
func (e *Engine) waits(t *journal.Transaction, c journal.Change) string {
	if e.Waiting != nil {
		if why := e.Waiting(c); why != "" || c.Address.Kind.FromBootLoader() { // the running kernel tells
			return why
		}
	}
	if c.Needs.Kind == setting.HostReboot && e.BootID == t.Header.BootID {
		return "takes effect after " + c.Needs.String()
	}
	return ""
}

// summary is the one word, with the reason for it.
func (e *Engine) summary(s Status) (Summary, string) {
	if s.Holder != nil {
		return IsInFlight, fmt.Sprintf("process %d (%s) is at work since %s", s.Holder.PID, s.Holder.Command,
			s.Holder.Since.Format(time.RFC3339))
	}
	if n, last := s.session(); n > 0 && last.atWork {
		return IsInFlight, fmt.Sprintf("%s is at work", last.Session)
	} else if n > 0 {
		return IsInterrupted, fmt.Sprintf("%s was interrupted: %s of it stand; 'mpps rollback' restores its beginning",
			last.Session, words.Count(n, "transaction"))
	}
	for _, look := range []struct {
		state journal.State
		is    Summary
		why   string
	}{
		{journal.Interrupted, IsInterrupted, "its process died before it was done; 'mpps rollback' puts it back"},
		{journal.Doubtful, IsInDoubt, "a write did not return; 'mpps rollback' puts it back"},
		{journal.FailedPartly, IsFailed, "something could not be put back; 'mpps rollback' tries again"},
	} {
		for _, t := range s.Transactions {
			if t.State == look.state {
				return look.is, t.TX + ": " + look.why
			}
		}
	}
	switch {
	case s.off() > 0:
		return IsDrifted, fmt.Sprintf("%d of %d values are not as applied", s.off(), len(s.Rows))
	case s.Counts[string(WaitsFor)] > 0:
		i := slices.IndexFunc(s.Rows, func(r Row) bool { return r.State == WaitsFor })
		return IsWaiting, s.Rows[i].Why
	case len(s.Transactions) > 0:
		return IsApplied, unconfirmed(s, e.Journal.Clock.Now())
	}
	return IsClean, ""
}

// session returns the number of applied transactions of an unfinished session, and the last of them.
func (s Status) session() (n int, last Entry) {
	for _, t := range s.Transactions {
		if t.Session != "" {
			n, last = n+1, t
		}
	}
	return n, last
}

// off is the number of values that are not as applied although their objects exist.
func (s Status) off() int {
	return s.Counts[string(Drifted)] + s.Counts[string(Owned)] + s.Counts[string(ReadOnly)] + s.Counts[string(
		Unsupported)]
}

// unconfirmed describes a transaction that waits for confirmation.
func unconfirmed(s Status, now time.Time) string {
	for _, t := range s.Transactions {
		switch {
		case t.ConfirmUntil == nil:
		case now.After(t.ConfirmUntil.Add(guardPatience)):
			return t.TX + " was not confirmed in time, and the process that was to put it back is gone (a reboot?); " +
				"'mpps rollback' puts it back, 'mpps confirm' keeps it"
		default:
			return t.TX + " waits to be confirmed"
		}
	}
	return ""
}
