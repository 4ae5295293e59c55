package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/model/setting"
)

// Bounds of a file. A plan for a host with 8 NICs of 64 queues and 200 guests has about 10,000 changes, each with two
// lines of a few hundred bytes.
const (
	maxFile = 64 << 20
	maxLine = 8 << 20 // before and after of a whole file
)

// maxConfirm bounds the time for confirming a transaction.
const maxConfirm = 7 * 24 * time.Hour

// Transaction is the content of one file.
type Transaction struct {
	Header  Header
	Records []Record
	// Torn is the length in bytes of an unfinished last line: the machine stopped while it was written, and nothing it
	// announces was done. 0 if the file ends properly.
	Torn int

	size  int    // of the valid part
	sum   string // of the last line
	ended bool   // has a final record
	file  identity
}

// Parse reads a file. It leaves out an unfinished last line and sets Torn. Anything else that this package would not
// write is an error.
func Parse(text []byte) (*Transaction, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("larger than %d MiB", maxFile>>20)
	}
	line, rest, whole := bytes.Cut(text, []byte("\n"))
	if !whole {
		return nil, errors.New("truncated: not even its first line is whole")
	}
	t := &Transaction{}
	if err := t.header(line); err != nil {
		return nil, fmt.Errorf("line 1: %w", err)
	}
	t.size = len(line) + 1
	check := checker{changes: map[int]Event{}, bystanders: map[setting.Address]bool{}}
	for number := 2; len(rest) > 0; number++ {
		if line, rest, whole = bytes.Cut(rest, []byte("\n")); !whole {
			t.Torn = len(line)
			break
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("line %d: longer than %d KiB", number, maxLine>>10)
		}
		var r Record
		lineSum, err := decodeLine(line, t.sum, &r)
		if err == nil {
			err = check.add(r)
			r.upgrade()
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		t.Records = append(t.Records, r)
		t.sum = lineSum
		t.size += len(line) + 1
	}
	t.ended = check.ended
	return t, nil
}

func (t *Transaction) header(line []byte) error {
	if len(line) > maxLine {
		return fmt.Errorf("longer than %d KiB", maxLine>>10)
	}
	if version := schemaOf(line); version != "" && version != Schema {
		return &versionError{found: version}
	}
	lineSum, err := decodeLine(line, "", &t.Header)
	if err != nil {
		return err
	}
	t.sum = lineSum
	h := t.Header
	switch {
	case h.Schema != Schema:
		return fmt.Errorf("schema is %q, expected %q", h.Schema, Schema)
	case !idForm.MatchString(h.TX):
		return fmt.Errorf("transaction name %q is not of the form 20060102T150405.000000Z-0a1b2c", h.TX)
	case h.Kind != Apply && h.Kind != Rollback:
		return fmt.Errorf("kind is %q, expected apply or rollback", h.Kind)
	case h.Kind == Rollback && !idForm.MatchString(h.Of):
		return fmt.Errorf("a rollback of %q: not the name of a transaction", h.Of)
	case h.Kind == Apply && h.Of != "":
		return errors.New("an apply that names a transaction to roll back")
	case h.Follows != "" && (h.Kind != Apply || !idForm.MatchString(h.Follows) || h.Follows >= h.TX):
		return fmt.Errorf("an %s that goes on with %q: not the name of an earlier transaction", h.Kind, h.Follows)
	}
	return nil
}

// schemaOf returns the version in a first line without trusting the rest of it.
func schemaOf(line []byte) string {
	const start = `{"schema":"`
	if !bytes.HasPrefix(line, []byte(start)) {
		return ""
	}
	version, _, found := bytes.Cut(line[len(start):], []byte(`"`))
	if !found || len(version) > 64 || !bytes.HasPrefix(version, []byte("mpps.journal/")) {
		return ""
	}
	return string(version)
}

// checker checks the order of records.
type checker struct {
	seq        int
	changes    map[int]Event // last event of each change
	bystanders map[setting.Address]bool
	ended      bool
	end        Event
}

var (
	begins = []Event{Intent, Already, Left}
	wrote  = []Event{Done, Failed, InDoubt}
	undoes = []Event{UndoIntent, Undone, UndoFailed}
)

func (c *checker) add(r Record) error {
	c.seq++
	if r.Seq != c.seq {
		return fmt.Errorf("record %d where %d is expected", r.Seq, c.seq)
	}
	if c.ended && (r.Event != Confirmed || c.end != Committed) {
		return fmt.Errorf("%s after %s", r.Event, c.end)
	}
	last, known := c.changes[r.N]
	switch {
	case slices.Contains(begins, r.Event):
		if known || r.N != len(c.changes)+1 {
			return fmt.Errorf("%s of change %d where change %d is expected", r.Event, r.N, len(c.changes)+1)
		}
		if err := checkMembers(r); err != nil {
			return err
		}
		c.changes[r.N] = r.Event
	case slices.Contains(wrote, r.Event):
		if last != Intent {
			return fmt.Errorf("%s of change %d, which has no open intent", r.Event, r.N)
		}
		c.changes[r.N] = r.Event
	case slices.Contains(undoes, r.Event):
		if !known || last == Already || last == Left {
			return fmt.Errorf("%s of change %d, which has no intent", r.Event, r.N)
		}
		c.changes[r.N] = r.Event
	case r.Event.ends():
		c.ended, c.end = true, r.Event
	case r.Event == Bystander || r.Event == Kept || r.Event == Moved:
		if r.Address == nil || r.Found == nil {
			return fmt.Errorf("%s without an address or what was found", r.Event)
		}
		if r.Event != Bystander && !c.bystanders[*r.Address] {
			return fmt.Errorf("%s of %s, which was not to stay", r.Event, r.Address)
		}
		c.bystanders[*r.Address] = true
	case r.Event == ConfirmArmed:
		if r.Seconds <= 0 || r.Seconds > maxConfirm.Seconds() {
			return fmt.Errorf("confirm within %v seconds; expected up to %v", r.Seconds, maxConfirm.Seconds())
		}
	case r.Event == Confirmed:
	default:
		return fmt.Errorf("unknown event %q", r.Event)
	}
	return nil
}

// checkMembers checks that a record has what a rollback needs.
func checkMembers(r Record) error {
	if r.Address == nil {
		return fmt.Errorf("%s without an address", r.Event)
	}
	if r.Event != Intent {
		if r.Found == nil {
			return fmt.Errorf("%s without what was found", r.Event)
		}
		return nil
	}
	for _, value := range []*setting.Reading{r.Before, r.After} {
		if value == nil {
			return errors.New("intent without the values before and after")
		}
		if value.State == setting.Unknown {
			return errors.New("intent with an unknown value")
		}
	}
	if r.Want == nil {
		return errors.New("intent without what is wanted")
	}
	return nil
}
