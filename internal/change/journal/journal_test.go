package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	root := t.TempDir()
	d := must.Get(Open(root))(t)
	t.Cleanup(func() { d.Close() })
	d.Indexed = true
	return d, root
}

func lock(t *testing.T, d *Dir) *Lock {
	t.Helper()
	l := must.Get(d.Lock("test"))(t)
	t.Cleanup(func() { l.Release() })
	return l
}

func create(t *testing.T, d *Dir, l *Lock, h Header) *Writer {
	t.Helper()
	h.Host, h.BootID, h.Version = "box", "6ab6", "0.1.0"
	w := must.Get(d.Create(l, h))(t)
	t.Cleanup(func() { w.Close() })
	return w
}

func add(t *testing.T, w *Writer, records ...Record) {
	t.Helper()
	for _, r := range records {
		must.Do(t, w.Append(r))
	}
}

func intent(n int, path, before, after string) Record {
	a, b, to, want := setting.Of(setting.Sysctl, path), setting.Value(before), setting.Value(after),
		setting.Exact(after)
	return Record{Event: Intent, N: n, ID: "test." + path, Address: &a, Before: &b, After: &to, Want: &want,
		Risk: "none", Lasts: setting.UntilReboot}
}

func done(n int, found string) Record {
	r := setting.Value(found)
	return Record{Event: Done, N: n, Found: &r}
}

func file(root, tx string) string { return filepath.Join(root, Path, tx+suffix) }

func TestWriteAndRead(t *testing.T) {
	d, root := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply, Digest: "abc", Changes: 2, Goal: []byte(`{"pps":1.8e6}`)})
	add(t, w, intent(1, "net.a", "1", "2"), done(1, "2"), intent(2, "net.b", "x y", "z"))
	got := must.Get(d.Load(w.TX()))(t)
	if got.Header.Digest != "abc" || string(got.Header.Goal) != `{"pps":1.8e6}` || got.State() != Interrupted ||
		got.Torn != 0 {
		t.Errorf("read %+v, state %s", got.Header, got.State())
	}
	ledger, err := d.Ledger()
	must.Hold(t, err == nil && ledger.State(ledger.Transactions[0]) == InFlight,
		"state is %v, %v; expected in-flight while the lock is held", ledger, err)
	changes := got.Changes()
	must.Hold(t, len(changes) == 2 && changes[0].State == ChangeDone && changes[1].State == ChangeIntended &&
		changes[1].Before.Value == "x y", "changes are %+v", changes)
	add(t, w, done(2, "z"), Record{Event: Committed})
	if got, err = d.Load(w.TX()); err != nil || got.State() != Applied || got.Ended().IsZero() {
		t.Errorf("state is %v, %v; expected applied", got, err)
	}
	if left, err := filepath.Glob(filepath.Join(root, Path, "*")); err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v; expected the transaction alone", left, err)
	}
}

// TestStates has the records of a transaction and what became of it.
func TestStates(t *testing.T) {
	cases := []struct {
		name    string
		records []Record
		state   State
		change  ChangeState
	}{
		{"nothing after the header", nil, Interrupted, ""},
		{"interrupted in a write", []Record{intent(1, "a", "1", "2")}, Interrupted, ChangeIntended},
		{"interrupted behind a write", []Record{intent(1, "a", "1", "2"), done(1, "2")}, Interrupted, ChangeDone},
		{"applied", []Record{intent(1, "a", "1", "2"), done(1, "2"), {Event: Committed}}, Applied, ChangeDone},
		{"failed and undone", []Record{intent(1, "a", "1", "2"), {Event: Failed, N: 1, Error: "EINVAL"},
			{Event: UndoIntent, N: 1},
			{Event: Undone, N: 1}, {Event: RolledBack}}, FailedUndone, ChangeUndone},
		{"interrupted in the undo", []Record{intent(1, "a", "1", "2"), {Event: Failed, N: 1, Error: "EINVAL"},
			{Event: UndoIntent, N: 1}}, Interrupted, ChangeFailed},
		{"undo failed", []Record{intent(1, "a", "1", "2"), {Event: Failed, N: 1}, {Event: UndoIntent, N: 1},
			{Event: UndoFailed, N: 1, Error: "EIO"},
			{Event: Incomplete}}, FailedPartly, ChangeUndoFailed},
		{"in doubt", []Record{intent(1, "a", "1", "2"), {Event: InDoubt, N: 1, Error: "no answer"}}, Doubtful,
			ChangeInDoubt},
		{"in doubt, then undone", []Record{intent(1, "a", "1", "2"), {Event: InDoubt, N: 1}, {Event: UndoIntent, N: 1},
			{Event: Undone, N: 1},
			{Event: Incomplete}}, Doubtful, ChangeUndone},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, _ := open(t)
			w := create(t, d, lock(t, d), Header{Kind: Apply})
			add(t, w, c.records...)
			got := must.Get(d.Load(w.TX()))(t)
			must.Equal(t, got.State(), c.state, "state")
			if changes := got.Changes(); c.change != "" && changes[0].State != c.change {
				t.Errorf("the change is %s, expected %s", changes[0].State, c.change)
			}
		})
	}
}

func TestLedgerFollowsRollbacks(t *testing.T) {
	d, _ := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply})
	add(t, w, intent(1, "a", "1", "2"), done(1, "2"), Record{Event: Committed})
	states := func() (all []string) {
		ledger := must.Get(d.Ledger())(t)
		ledger.Holder = nil
		for _, tx := range ledger.Transactions {
			all = append(all, string(ledger.State(tx)))
		}
		return all
	}
	half := create(t, d, l, Header{Kind: Rollback, Of: w.TX()})
	add(t, half, intent(1, "a", "2", "1"))
	must.Equal(t, strings.Join(states(), " "), "interrupted interrupted", "half a rollback")
	whole := create(t, d, l, Header{Kind: Rollback, Of: w.TX()})
	add(t, whole, Record{Event: Committed})
	must.Equal(t, strings.Join(states(), " "), "rolled-back superseded applied", "a whole one")
}

// TestTornAnywhere cuts a file at every byte: behind the header that is an unfinished last line, before it a refusal.
func TestTornAnywhere(t *testing.T) {
	d, root := open(t)
	w := create(t, d, lock(t, d), Header{Kind: Apply})
	add(t, w, intent(1, "a", "1", "2"), done(1, "2"), Record{Event: Committed})
	text := must.Get(os.ReadFile(file(root, w.TX())))(t)
	header := bytes.IndexByte(text, '\n') + 1
	for size := range len(text) + 1 {
		got, err := Parse(text[:size])
		if size < header {
			must.Need(t, err != nil, "cut at %d, in the header: accepted", size)
			continue
		}
		must.Need(t, err == nil, "cut at %d: %v", size, err)
		if whole := bytes.Count(text[:size], []byte("\n")) - 1; len(got.Records) != whole {
			t.Fatalf("cut at %d: %d records, expected %d", size, len(got.Records), whole)
		}
		if torn := size - 1 - bytes.LastIndexByte(text[:size], '\n'); got.Torn != torn {
			t.Fatalf("cut at %d: torn %d, expected %d", size, got.Torn, torn)
		}
	}
}

// TestDamageAnywhere changes every byte in turn: none goes unseen.
func TestDamageAnywhere(t *testing.T) {
	d, root := open(t)
	w := create(t, d, lock(t, d), Header{Kind: Apply})
	add(t, w, intent(1, "a", "1", "2"), done(1, "2"), Record{Event: Committed})
	text := must.Get(os.ReadFile(file(root, w.TX())))(t)
	for i := range text {
		damaged := bytes.Clone(text)
		damaged[i] ^= 1
		if got, err := Parse(damaged); err == nil && (got.Torn == 0 || i < len(text)-1) {
			t.Errorf("byte %d (%q) changed to %q: accepted", i, text[i], damaged[i])
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	must.Fail(Parse(bytes.Join([][]byte{lines[0], lines[2], lines[3]}, nil)))(t, "a line taken out: accepted")
}

func TestReopenRemovesATornLine(t *testing.T) {
	d, root := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply})
	add(t, w, Record{Event: ConfirmArmed, Seconds: 60}, intent(1, "a", "1", "2"), done(1, "2"),
		Record{Event: Committed})
	f := must.Get(os.OpenFile(file(root, w.TX()), os.O_APPEND|os.O_WRONLY, 0))(t)
	must.Get(f.WriteString(`{"seq":5,"at":"20`))(t)
	f.Close()
	again, before, err := d.Reopen(l, w.TX())
	must.Need(t, err == nil && before.Torn == 17, "torn %+v, %v; expected 17 bytes", before, err)
	defer again.Close()
	add(t, again, Record{Event: Confirmed})
	got, err := d.Load(w.TX())
	must.Hold(t, err == nil && got.Torn == 0 && got.Confirmation().Confirmed && got.State() == Applied,
		"%+v, %v", got, err)
	if c := got.Confirmation(); c.Within != time.Minute || c.Until.IsZero() {
		t.Errorf("confirmation is %+v", c)
	}
	must.Do(t, again.Append(Record{Event: Committed}))
	var refused *Refused
	if _, err := d.Load(w.TX()); !errors.As(err, &refused) ||
		!strings.Contains(err.Error(), "committed after committed") {
		t.Errorf("two ends: %v, expected a refusal", err)
	}
}
