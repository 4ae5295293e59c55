package apply

import (
	"slices"

	"mpps/internal/advise/lasting"
	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// The files that make values persistent are shared: each transaction has its own entries in them, and all share the
// directories and the unit. A rollback removes the transaction's entries and leaves what other applied transactions
// need; the rollback of the last one removes the rest.

// sharing is what the rollback of a transaction must know of others.
type sharing struct {
	others    []*journal.Transaction
	inherited []journal.Change // left by earlier rollbacks, and no longer needed by any other transaction
	// begun are the values that earlier rollbacks began to write without seeing the result. They are neither what the
	// transaction wrote nor a change by somebody else.
	begun map[setting.Address]bool
}

// shares returns the sharing of a transaction.
func (e *Engine) shares(l *journal.Ledger, t *journal.Transaction) sharing {
	s := sharing{begun: map[setting.Address]bool{}}
	for _, earlier := range l.Transactions {
		if earlier.Header.Of != t.Header.TX {
			continue
		}
		for _, c := range earlier.Changes() {
			stays := c.Lasts.Kept() || c.Lasts == setting.AcrossReboot
			switch c.State {
			case journal.ChangeIntended, journal.ChangeFailed, journal.ChangeInDoubt:
				s.begun[c.Address] = stays || earlier.Header.BootID == e.BootID // else the reboot has reset it
			default:
				delete(s.begun, c.Address)
			}
		}
	}
	for _, other := range l.Open() {
		if other.Header.TX != t.Header.TX {
			s.others = append(s.others, other)
		}
	}
	for _, earlier := range l.Transactions {
		if earlier.Header.Kind != journal.Apply || earlier.Header.TX == t.Header.TX ||
			l.State(earlier) != journal.WasRolledBack {
			continue
		}
		left := map[setting.Address]bool{}
		for _, c := range l.LastRollback(earlier.Header.TX).Changes() {
			if c.Reason == journal.Needed {
				left[c.Address] = true
			}
		}
		for _, c := range earlier.Changes() {
			if left[c.Address] && s.neededBy(c.Address) == "" {
				s.inherited = append(s.inherited, c)
			}
		}
	}
	return s
}

// without leaves out transactions that were put back without a record: the ledger still has them as applied.
func (s sharing) without(all []Restored) sharing {
	s.others = slices.DeleteFunc(s.others, func(t *journal.Transaction) bool {
		return slices.ContainsFunc(all, func(r Restored) bool { return r.Of == t.Header.TX && r.Unrecorded != "" })
	})
	return s
}

// neededBy is the transaction that needs a unit or directory, or "".
func (s sharing) neededBy(a setting.Address) string {
	if a.Kind != setting.Unit && a.Kind != setting.File && a.Kind != setting.Directory {
		return ""
	}
	for _, other := range s.others {
		var wrote []setting.Address
		for _, c := range other.Changes() {
			if c.Wrote() {
				wrote = append(wrote, c.Address)
			}
		}
		if lasting.Needed(a, wrote) {
			return other.Header.TX
		}
	}
	return ""
}

// undoing returns a change with the value that a rollback writes in Before. partly reports that this is a shared file's
// text without the change's entries: those of other transactions stay.
func undoing(c journal.Change, found setting.Reading) (_ journal.Change, partly bool) {
	if c.Found != nil && found.Same(*c.Found) || found.Same(c.After) || found.Same(c.Before) {
		return c, false
	}
	if to, done := lasting.Undo(c.Address, c.Before, c.After, found); done {
		partly, c.Before = !to.Same(c.Before), to
	}
	return c, partly
}
