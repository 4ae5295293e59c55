// Package journal records what mpps changes on a machine, so that it can be undone after any failure: a refused write,
// a signal, a killed process, a power cut. One file holds one transaction, and each line is on disk before what it
// announces is done. A journal stores addresses and readings, never catalogue code, so that every later version can
// roll it back. docs/journal.md describes the format.
package journal

import (
	"encoding/json"
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Schema is the version of the file format. A file of another version is refused.
const Schema = "mpps.journal/1"

// Kind is the kind of a transaction.
type Kind string

// The kinds of transactions.
const (
	Apply    Kind = "apply"
	Rollback Kind = "rollback" // restores what the transaction in Header.Of wrote
)

// Header is the first line of a file.
type Header struct {
	Schema string `json:"schema"`
	TX     string `json:"tx"`            // the file's name without its suffix
	Kind   Kind   `json:"kind"`          // apply or rollback
	Of     string `json:"of,omitempty"`  // rollback: the transaction that is undone
	Why    string `json:"why,omitempty"` // rollback: "asked for", "not confirmed in time"
	Host   string `json:"host"`          // host name
	// /proc/sys/kernel/random/boot_id: shows which values a reboot has reset
	BootID  string          `json:"boot_id"`
	Version string          `json:"mpps"`           // version of the program
	Started time.Time       `json:"started"`        // UTC
	Goal    json.RawMessage `json:"goal,omitempty"` // of the plan, for people only
	Digest  string          `json:"digest,omitempty"`
	Changes int             `json:"changes"`           // number of changes in the plan
	Follows string          `json:"follows,omitempty"` // apply: the transaction that it resumes
	Resume  json.RawMessage `json:"resume,omitempty"`  // apply: data for resuming it, see Resume
	// the unit of work that it belongs to, which is undone as a whole; of a rollback: that of the transaction it undoes
	Session *Session `json:"session,omitempty"`

	// Room is how many bytes the records of an apply, and those of its rollback, may take: Create reserves them. 0
	// reserves nothing.
	Room int64 `json:"-"`
}

// Event is the type of a record.
type Event string

// The events. Those marked + are on disk (fsync) before Append returns.
const (
	// + a value is about to be written: n, id, address, before, after, want, risk, lasts, needs
	Intent     Event = "intent"
	Already    Event = "already"     // the value is already as wanted: n, id, address, found, want; nothing is written
	Done       Event = "done"        // written and read back: n, found
	Failed     Event = "failed"      // refused, or read back differently: n, error
	InDoubt    Event = "in_doubt"    // + the write did not return in time: n, error
	UndoIntent Event = "undo_intent" // + the old value is about to be written: n
	Undone     Event = "undone"      // the old value was read back: n, found
	UndoFailed Event = "undo_failed" // n, error
	// rollback: this value is not written: n, id, address, found, reason, left_for, why
	Left         Event = "left"
	Committed    Event = "committed"     // + everything is as wanted: up
	RolledBack   Event = "rolled_back"   // + apply failed, everything is as before
	Incomplete   Event = "incomplete"    // + ended in neither state: error
	Bystander    Event = "beside"        // value that a change may move and that must stay: address, found
	Kept         Event = "kept"          // a bystander moved and is put back: address, before, found
	Moved        Event = "moved"         // a bystander moved and could not be put back: address, before, found, error
	ConfirmArmed Event = "confirm_armed" // + undone automatically unless confirmed: seconds, after the commit
	Confirmed    Event = "confirmed"     // +
)

// synced reports whether the event must be on disk before what it announces may happen.
func (e Event) synced() bool {
	switch e {
	case Already, Done, Failed, Undone, UndoFailed, Left, Bystander, Kept, Moved:
		return false
	}
	return true
}

// ends reports whether an event ends a transaction.
func (e Event) ends() bool { return e == Committed || e == RolledBack || e == Incomplete }

// Record is one line after the header. The event determines which members are set.
type Record struct {
	Seq     int              `json:"seq"` // 1 for the line after the header
	At      time.Time        `json:"at"`  // UTC
	Event   Event            `json:"event"`
	N       int              `json:"n,omitempty"`  // number of the change, from 1
	ID      string           `json:"id,omitempty"` // of the knob, for people
	Address *setting.Address `json:"address,omitempty"`
	Before  *setting.Reading `json:"before,omitempty"`
	After   *setting.Reading `json:"after,omitempty"`
	Found   *setting.Reading `json:"found,omitempty"`
	Want    *setting.Want    `json:"want,omitempty"`
	Risk    goal.Risk        `json:"risk,omitempty"`
	Lasts   setting.Lasting  `json:"lasts,omitempty"`
	Needs   setting.Needs    `json:"needs,omitzero"`
	Reason  Reason           `json:"reason,omitempty"`
	LeftFor string           `json:"left_for,omitempty"` // transaction that needs the value
	Why     string           `json:"why,omitempty"`      // for people, as error is
	Error   string           `json:"error,omitempty"`
	Seconds float64          `json:"seconds,omitempty"`
	Up      float64          `json:"up,omitempty"` // seconds since the boot, of a commit that is to be confirmed
}
