// Package journal keeps what mpps changed on a machine so that it can be undone after anything that may happen in
// between: a refused write, a signal, the death of the process, the loss of power. One file holds one transaction; each
// of its lines is on disk before what it announces is done. A journal stores addresses and readings, never code of the
// catalogue, so that every later version can roll back what an earlier one did. docs/journal.md describes the format.
package journal

import (
	"encoding/json"
	"time"

	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// Schema is the version of the file format. A file of another version is refused, never guessed at.
const Schema = "mpps.journal/1"

// Kind says what a transaction does.
type Kind string

// The kinds of transactions.
const (
	Apply    Kind = "apply"
	Rollback Kind = "rollback" // puts back what the transaction in Header.Of wrote
)

// Header is the first line of a file.
type Header struct {
	Schema string `json:"schema"`
	TX     string `json:"tx"`            // the file's name without its suffix
	Kind   Kind   `json:"kind"`          // apply or rollback
	Of     string `json:"of,omitempty"`  // rollback: the transaction that is put back
	Why    string `json:"why,omitempty"` // rollback: "asked for", "not confirmed in time"
	Host   string `json:"host"`          // host name
	// /proc/sys/kernel/random/boot_id: values that a reboot resets are told by it
	BootID  string          `json:"boot_id"`
	Version string          `json:"mpps"`           // version of the program
	Started time.Time       `json:"started"`        // UTC
	Goal    json.RawMessage `json:"goal,omitempty"` // of the plan, for people; never drives anything
	Digest  string          `json:"digest,omitempty"`
	Changes int             `json:"changes"`           // how many changes the plan holds
	Follows string          `json:"follows,omitempty"` // apply: the transaction that it goes on with
	Resume  json.RawMessage `json:"resume,omitempty"`  // apply: what it takes to go on with it, see Resume
	// the work that it is a part of, and that is put back as a whole; of a rollback: that of what it puts back
	Session *Session `json:"session,omitempty"`
}

// Event says what a record tells.
type Event string

// The events. Those marked + are on disk (fsync) before the function that appends them returns.
const (
	// + a value is about to be written: n, id, address, before, after, want, risk, lasts, needs
	Intent     Event = "intent"
	Already    Event = "already"     // a value is what is wanted: n, id, address, found, want; nothing is written
	Done       Event = "done"        // written and read back: n, found
	Failed     Event = "failed"      // refused, or not what was wanted when read back: n, error
	InDoubt    Event = "in_doubt"    // + the write did not return in time: n, error
	UndoIntent Event = "undo_intent" // + the value before is about to be written: n
	Undone     Event = "undone"      // and was read back: n, found
	UndoFailed Event = "undo_failed" // n, error
	// rollback: nothing is written for this value: n, id, address, found, reason, left_for, why
	Left         Event = "left"
	Committed    Event = "committed"     // + everything is as wanted
	RolledBack   Event = "rolled_back"   // + apply failed, everything is as before
	Incomplete   Event = "incomplete"    // + ended, and something is neither: error
	Beside       Event = "beside"        // a value that a change may move and that is to stay: address, found
	Kept         Event = "kept"          // it was moved, and is put back: address, before, found
	Moved        Event = "moved"         // it was moved, and could not be put back: address, before, found, error
	ConfirmArmed Event = "confirm_armed" // + undone by itself unless confirmed: seconds, after the commit
	Confirmed    Event = "confirmed"     // +
)

// synced reports whether an event must be on disk before what it announces may happen.
func (e Event) synced() bool {
	switch e {
	case Already, Done, Failed, Undone, UndoFailed, Left, Beside, Kept, Moved:
		return false
	}
	return true
}

// ends reports whether an event ends a transaction.
func (e Event) ends() bool { return e == Committed || e == RolledBack || e == Incomplete }

// Record is one line of a file after the first. Which members are there follows from the event.
type Record struct {
	Seq     int              `json:"seq"` // 1 for the line after the header
	At      time.Time        `json:"at"`  // UTC
	Event   Event            `json:"event"`
	N       int              `json:"n,omitempty"`  // number of the change in its transaction, from 1
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
	LeftFor string           `json:"left_for,omitempty"` // transaction that needs what is left
	Why     string           `json:"why,omitempty"`      // for people, as error is
	Error   string           `json:"error,omitempty"`
	Seconds float64          `json:"seconds,omitempty"`
}
