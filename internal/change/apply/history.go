package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"mpps/internal/change/journal"
	"mpps/internal/model/setting"
)

// Entry is one transaction in a list.
type Entry struct {
	TX      string        `json:"tx"`
	Kind    journal.Kind  `json:"kind"`
	Of      string        `json:"of,omitempty"`
	Follows string        `json:"follows,omitempty"` // the transaction that it went on with
	Why     string        `json:"why,omitempty"`
	State   journal.State `json:"state"`
	Started time.Time     `json:"started"`
	Ended   *time.Time    `json:"ended,omitempty"`
	Changes int           `json:"changes"` // written
	Version string        `json:"mpps"`
	Digest  string        `json:"digest,omitempty"`
	Torn    bool          `json:"torn,omitempty"` // the machine stopped in the middle of its last record
	Error   string        `json:"error,omitempty"`
	Session string        `json:"session,omitempty"` // the work that it is a part of, and that is put back as a whole
	// ConfirmUntil is when the transaction is undone unless it is confirmed, by the clock as it is set now.
	ConfirmUntil *time.Time `json:"confirm_until,omitempty"`

	atWork bool // the session's process lives
}

// History lists the last n transactions, oldest first, and the number of those before them; n < 1 means all. The error
// joins those that could not be read; the others are listed.
func (e *Engine) History(n int) (entries []Entry, before int, err error) {
	ledger, refused := e.Journal.Ledger()
	last, before, err := ledger.Last(n)
	entries = []Entry{}
	for _, t := range last {
		entries = append(entries, e.entry(ledger, t))
	}
	return entries, before, errors.Join(refused, err)
}

// Detail is one transaction with its changes.
type Detail struct {
	Entry
	List []Outcome `json:"list"`
}

// Detail returns one transaction; name may be a prefix of its name. Needs of a change are kept only while the change
// waits for them: not if it failed, was undone, or has taken effect.
func (e *Engine) Detail(ctx context.Context, name string) (Detail, error) {
	ledger, refused := e.Journal.Ledger()
	t, err := ledger.Find(name)
	if err != nil {
		return Detail{}, errors.Join(err, refused)
	}
	d := Detail{Entry: e.entry(ledger, t), List: []Outcome{}}
	for _, c := range t.Changes() {
		o := outcome(c)
		if !o.Needs.IsZero() && !e.needs(ctx, ledger, t, c) {
			o.Needs = setting.Needs{}
		}
		d.List = append(d.List, o)
	}
	return d, nil
}

// needs reports whether a change still waits for what it needed when it was made, or may wait for it.
func (e *Engine) needs(ctx context.Context, l *journal.Ledger, t *journal.Transaction, c journal.Change) bool {
	switch c.State {
	case journal.ChangeDone, journal.ChangeAlready, journal.ChangeIntended, journal.ChangeInDoubt:
	default:
		return false
	}
	if t.Header.Kind == journal.Rollback {
		return c.State == journal.ChangeDone && l.State(t) == journal.Applied && e.lingers(l, t, c) != ""
	}
	if !slices.Contains(l.Open(), t) {
		return false
	}
	found := e.read(ctx, c.Address)
	return found.State == setting.Unknown || c.Want.Met(found) && (e.Waiting == nil || e.waits(t, c) != "")
}

func (e *Engine) entry(l *journal.Ledger, t *journal.Transaction) Entry {
	h := t.Header
	out := Entry{TX: h.TX, Kind: h.Kind, Of: h.Of, Follows: h.Follows, Why: h.Why, State: l.State(t),
		Started: h.Started, Version: h.Version, Digest: h.Digest, Torn: t.Torn > 0}
	if ended := t.Ended(); !ended.IsZero() {
		out.Ended = &ended
	}
	for _, c := range t.Changes() {
		if c.Wrote() {
			out.Changes++
		}
	}
	if h.Session != nil {
		out.Session, out.atWork = h.Session.Name, h.Session.Running()
	}
	for _, r := range t.Records {
		if r.Error != "" {
			out.Error = r.Error
		}
	}
	if c := t.Confirmation(); c.Armed && !c.Confirmed && out.State == journal.Applied {
		until := e.until(t)
		out.ConfirmUntil = &until
	}
	return out
}
