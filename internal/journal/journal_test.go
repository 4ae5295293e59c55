package journal

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/setting"
)

func open(t *testing.T) (*Dir, string) {
	t.Helper()
	root := t.TempDir()
	d, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, root
}

func lock(t *testing.T, d *Dir) *Lock {
	t.Helper()
	l, err := d.Lock("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Release() })
	return l
}

func create(t *testing.T, d *Dir, l *Lock, h Header) *Writer {
	t.Helper()
	h.Host, h.BootID, h.Version = "box", "6ab6", "0.1.0"
	w, err := d.Create(l, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func add(t *testing.T, w *Writer, records ...Record) {
	t.Helper()
	for _, r := range records {
		if err := w.Append(r); err != nil {
			t.Fatal(err)
		}
	}
}

func intent(n int, path, before, after string) Record {
	a, b, to, want := setting.Of(setting.Sysctl, path), setting.Value(before), setting.Value(after), setting.Exact(after)
	return Record{Event: Intent, N: n, ID: "test." + path, Address: &a, Before: &b, After: &to, Want: &want, Risk: "none", Lasts: setting.UntilReboot}
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
	got, err := d.Load(w.TX())
	if err != nil {
		t.Fatal(err)
	}
	if got.Header.Digest != "abc" || string(got.Header.Goal) != `{"pps":1.8e6}` || got.State() != Interrupted || got.Torn != 0 {
		t.Errorf("read %+v, state %s", got.Header, got.State())
	}
	ledger, err := d.Ledger()
	if err != nil || ledger.State(ledger.Transactions[0]) != InFlight {
		t.Errorf("state is %v, %v; expected in-flight while the lock is held", ledger, err)
	}
	changes := got.Changes()
	if len(changes) != 2 || changes[0].State != ChangeDone || changes[1].State != ChangeIntended || changes[1].Before.Value != "x y" {
		t.Errorf("changes are %+v", changes)
	}
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
		{"failed and undone", []Record{intent(1, "a", "1", "2"), {Event: Failed, N: 1, Error: "EINVAL"}, {Event: UndoIntent, N: 1},
			{Event: Undone, N: 1}, {Event: RolledBack}}, FailedUndone, ChangeUndone},
		{"interrupted in the undo", []Record{intent(1, "a", "1", "2"), {Event: Failed, N: 1, Error: "EINVAL"}, {Event: UndoIntent, N: 1}}, Interrupted, ChangeFailed},
		{"undo failed", []Record{intent(1, "a", "1", "2"), {Event: Failed, N: 1}, {Event: UndoIntent, N: 1}, {Event: UndoFailed, N: 1, Error: "EIO"},
			{Event: Incomplete}}, FailedPartly, ChangeUndoFailed},
		{"in doubt", []Record{intent(1, "a", "1", "2"), {Event: InDoubt, N: 1, Error: "no answer"}}, Doubtful, ChangeInDoubt},
		{"in doubt, then undone", []Record{intent(1, "a", "1", "2"), {Event: InDoubt, N: 1}, {Event: UndoIntent, N: 1}, {Event: Undone, N: 1},
			{Event: Incomplete}}, Doubtful, ChangeUndone},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, _ := open(t)
			w := create(t, d, lock(t, d), Header{Kind: Apply})
			add(t, w, c.records...)
			got, err := d.Load(w.TX())
			if err != nil {
				t.Fatal(err)
			}
			if got.State() != c.state {
				t.Errorf("state is %s, expected %s", got.State(), c.state)
			}
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
		ledger, err := d.Ledger()
		if err != nil {
			t.Fatal(err)
		}
		ledger.Holder = nil
		for _, tx := range ledger.Transactions {
			all = append(all, string(ledger.State(tx)))
		}
		return all
	}
	half := create(t, d, l, Header{Kind: Rollback, Of: w.TX()})
	add(t, half, intent(1, "a", "2", "1"))
	if got := strings.Join(states(), " "); got != "interrupted interrupted" {
		t.Errorf("half a rollback: %s", got)
	}
	whole := create(t, d, l, Header{Kind: Rollback, Of: w.TX()})
	add(t, whole, Record{Event: Committed})
	if got := strings.Join(states(), " "); got != "rolled-back superseded applied" {
		t.Errorf("a whole one: %s", got)
	}
}

// TestTornAnywhere cuts a file at every byte: behind the header that is an unfinished last line, before it a refusal.
func TestTornAnywhere(t *testing.T) {
	d, root := open(t)
	w := create(t, d, lock(t, d), Header{Kind: Apply})
	add(t, w, intent(1, "a", "1", "2"), done(1, "2"), Record{Event: Committed})
	text, err := os.ReadFile(file(root, w.TX()))
	if err != nil {
		t.Fatal(err)
	}
	header := bytes.IndexByte(text, '\n') + 1
	for size := range len(text) + 1 {
		got, err := Parse(text[:size])
		if size < header {
			if err == nil {
				t.Fatalf("cut at %d, in the header: accepted", size)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", size, err)
		}
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
	text, err := os.ReadFile(file(root, w.TX()))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text {
		damaged := bytes.Clone(text)
		damaged[i] ^= 1
		if got, err := Parse(damaged); err == nil && (got.Torn == 0 || i < len(text)-1) {
			t.Errorf("byte %d (%q) changed to %q: accepted", i, text[i], damaged[i])
		}
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	if _, err := Parse(bytes.Join([][]byte{lines[0], lines[2], lines[3]}, nil)); err == nil {
		t.Error("a line taken out: accepted")
	}
}

func TestReopenRemovesATornLine(t *testing.T) {
	d, root := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply})
	add(t, w, Record{Event: ConfirmArmed, Seconds: 60}, intent(1, "a", "1", "2"), done(1, "2"), Record{Event: Committed})
	f, err := os.OpenFile(file(root, w.TX()), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":5,"at":"20`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	again, before, err := d.Reopen(l, w.TX())
	if err != nil || before.Torn != 17 {
		t.Fatalf("torn %+v, %v; expected 17 bytes", before, err)
	}
	defer again.Close()
	add(t, again, Record{Event: Confirmed})
	got, err := d.Load(w.TX())
	if err != nil || got.Torn != 0 || !got.Confirmation().Confirmed || got.State() != Applied {
		t.Errorf("%+v, %v", got, err)
	}
	if c := got.Confirmation(); c.Within != time.Minute || c.Until.IsZero() {
		t.Errorf("confirmation is %+v", c)
	}
	if err := again.Append(Record{Event: Committed}); err != nil {
		t.Fatal(err)
	}
	var refused *Refused
	if _, err := d.Load(w.TX()); !errors.As(err, &refused) || !strings.Contains(err.Error(), "committed after committed") {
		t.Errorf("two ends: %v, expected a refusal", err)
	}
}

func TestRefusals(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(t *testing.T, root, name string)
		says  string
		hint  string
	}{
		{"empty", func(t *testing.T, _, name string) { write(t, name, "") }, "truncated", "by hand"},
		{"header cut", func(t *testing.T, _, name string) { write(t, name, `{"schema":"mpps.journal/1","tx":`) }, "truncated", "by hand"},
		{"zeros", func(t *testing.T, _, name string) { write(t, name, strings.Repeat("\x00", 4096)) }, "truncated", "by hand"},
		{"not a journal", func(t *testing.T, _, name string) { write(t, name, "hello\nworld\n") }, "line 1: not a journal line", "by hand"},
		{"a later version", func(t *testing.T, _, name string) { write(t, name, `{"schema":"mpps.journal/2","what":"ever"}`+"\n") }, "mpps.journal/2", "the version of mpps that wrote it"},
		{"huge", func(t *testing.T, _, name string) { check(t, os.Truncate(name, maxFile+1)) }, "larger than 64 MiB", "by hand"},
		{"another's", func(t *testing.T, _, name string) { check(t, os.Chown(name, 12345, 0)) }, "belongs to user 12345", "chown"},
		{"group may write", func(t *testing.T, _, name string) { check(t, os.Chmod(name, 0o664)) }, "mode 0664", "chmod"},
		{"others may write", func(t *testing.T, _, name string) { check(t, os.Chmod(name, 0o646)) }, "mode 0646", "chmod"},
		{"a link", func(t *testing.T, _, name string) {
			check(t, os.Rename(name, name+".moved"))
			check(t, os.Symlink(filepath.Base(name)+".moved", name))
		}, "symbolic link", "move it away"},
		{"a directory", func(t *testing.T, _, name string) { check(t, os.Remove(name)); check(t, os.Mkdir(name, 0o755)) }, "is a directory", "move it away"},
		{"another name", func(t *testing.T, _, name string) {
			check(t, os.Rename(name, filepath.Join(filepath.Dir(name), "20200101T000000.000000Z-000000"+suffix)))
		}, "it holds the transaction", "by hand"},
		{"the directory is everybody's", func(t *testing.T, root, _ string) { check(t, os.Chmod(filepath.Join(root, Path), 0o777)) }, "mode 0777", "chmod 755"},
		{"the directory is a link", func(t *testing.T, root, _ string) {
			check(t, os.Rename(filepath.Join(root, Path), filepath.Join(root, "elsewhere")))
			check(t, os.Symlink("../../../elsewhere", filepath.Join(root, Path)))
		}, "symbolic link", "move it away"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if strings.HasPrefix(c.name, "another's") && os.Geteuid() != 0 {
				t.Skip("needs root to give a file away")
			}
			d, root := open(t)
			l := lock(t, d)
			w := create(t, d, l, Header{Kind: Apply})
			add(t, w, intent(1, "a", "1", "2"))
			c.spoil(t, root, file(root, w.TX()))
			_, err := d.Ledger()
			var refused *Refused
			if !errors.As(err, &refused) {
				t.Fatalf("error is %v, expected a refusal", err)
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("error is %q, expected it to say %q", err, c.says)
			}
			if !strings.Contains(refused.Hint(), c.hint) {
				t.Errorf("hint is %q, expected it to say %q", refused.Hint(), c.hint)
			}
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	check(t, os.WriteFile(name, []byte(text), 0o644))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMalformed has journals that are whole, by their sums, and make no sense.
func TestMalformed(t *testing.T) {
	unknown := intent(1, "a", "1", "2")
	r := setting.CouldNotTell("no root")
	unknown.Before = &r
	bare := intent(1, "a", "1", "2")
	bare.Address = nil
	for name, records := range map[string][]Record{
		"line 2: intent of change 2 where change 1":      {intent(2, "a", "1", "2")},
		"line 3: intent of change 1 where change 2":      {intent(1, "a", "1", "2"), intent(1, "a", "1", "2")},
		"line 2: done of change 1, which has no open":    {done(1, "2")},
		"line 4: done of change 1, which has no open":    {intent(1, "a", "1", "2"), done(1, "2"), done(1, "2")},
		"line 2: undone of change 1, which has no":       {{Event: Undone, N: 1}},
		"line 2: intent with an unknown value":           {unknown},
		"line 2: intent without an address":              {bare},
		"line 2: unknown event \"exploded\"":             {{Event: "exploded"}},
		"line 3: confirmed after rolled_back":            {{Event: RolledBack}, {Event: Confirmed}},
		"line 2: confirm within 1e+09 seconds; expected": {{Event: ConfirmArmed, Seconds: 1e9}},
	} {
		d, _ := open(t)
		w := create(t, d, lock(t, d), Header{Kind: Apply})
		add(t, w, records...)
		if _, err := d.Load(w.TX()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error is %v, expected %q", err, name)
		}
	}
}

func TestNamesRise(t *testing.T) {
	now := time.Date(2026, 11, 20, 21, 0, 0, 0, time.UTC)
	first, err := newID(now, "")
	if err != nil || !idForm.MatchString(first) {
		t.Fatalf("%q, %v", first, err)
	}
	for _, back := range []time.Duration{0, time.Nanosecond, -time.Hour, 48 * time.Hour} {
		next, err := newID(now.Add(back), first)
		if err != nil || next <= first || !idForm.MatchString(next) {
			t.Errorf("%v later: %q is not behind %q, %v", back, next, first, err)
		}
	}
}

func TestLock(t *testing.T) {
	d, root := open(t)
	l := lock(t, d)
	var locked *Locked
	if _, err := d.Lock("again"); !errors.As(err, &locked) || locked.Holder.PID != os.Getpid() || !strings.Contains(err.Error(), "(test)") {
		t.Errorf("error is %v, expected it to name this process", err)
	}
	check(t, l.Serve("20200101T000000.000000Z-000000"))
	if h, err := d.Holder(); err != nil || h == nil || h.TX != "20200101T000000.000000Z-000000" {
		t.Errorf("holder is %+v, %v", h, err)
	}
	check(t, l.Release())
	if h, err := d.Holder(); err != nil || h != nil {
		t.Errorf("holder is %+v, %v; expected none", h, err)
	}
	// What a dead process left, or one whose number another process got.
	for _, left := range []string{
		`{"pid":999999999,"began":5,"command":"apply","since":"2026-01-01T00:00:00Z"}`,
		`{"pid":1,"began":123456789,"command":"apply","since":"2026-01-01T00:00:00Z"}`,
		"garbage", "\x00\x00",
	} {
		write(t, filepath.Join(root, HolderPath), left)
		if h, err := d.Holder(); err != nil || h != nil {
			t.Errorf("%s: holder is %+v, %v; expected none", left, h, err)
		}
		again, err := d.Lock("again")
		if err != nil {
			t.Fatalf("%s: %v", left, err)
		}
		check(t, again.Release())
	}
	if info, err := os.Stat(filepath.Join(root, LockPath)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("lock: %v, %v; expected mode 0600", info.Mode(), err)
	}
}

func TestFindByBeginning(t *testing.T) {
	d, _ := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply})
	add(t, w, Record{Event: Committed})
	ledger, err := d.Ledger()
	check(t, err)
	if got, err := ledger.Find(w.TX()[:15]); err != nil || got.Header.TX != w.TX() {
		t.Errorf("%v, %v", got, err)
	}
	for _, name := range []string{"", "1999", "../../etc"} {
		if _, err := ledger.Find(name); !errors.Is(err, ErrNoTransaction) {
			t.Errorf("%q: %v, expected no such transaction", name, err)
		}
	}
	if _, err := d.Load("../../../etc/passwd"); !errors.Is(err, ErrNoTransaction) {
		t.Errorf("a path as a name: %v", err)
	}
}

var record = flag.Bool("record", false, "write testdata anew; only before a format is released")

// TestSamples reads journals that were recorded when the format was made. Every later version must read them.
func TestSamples(t *testing.T) {
	if *record {
		recordSamples(t)
	}
	for name, want := range map[string]struct {
		state   State
		changes int
		torn    bool
	}{
		"applied": {Applied, 4, false}, "undone": {FailedUndone, 2, false}, "interrupted": {Interrupted, 2, true},
		"in-doubt": {Doubtful, 1, false}, "rollback": {Applied, 3, false}, "confirmed": {Applied, 1, false},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", name+suffix))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.State() != want.state || len(got.Changes()) != want.changes || got.Torn > 0 != want.torn {
			t.Errorf("%s: %s with %d changes, torn %d; expected %+v", name, got.State(), len(got.Changes()), got.Torn, want)
		}
	}
}

func recordSamples(t *testing.T) {
	t.Helper()
	save := func(name string, h Header, cut int, records ...Record) string {
		d, root := open(t)
		l := lock(t, d)
		w := create(t, d, l, h)
		add(t, w, records...)
		text, err := os.ReadFile(file(root, w.TX()))
		check(t, err)
		check(t, os.WriteFile(filepath.Join("testdata", name+suffix), text[:len(text)-cut], 0o644))
		return w.TX()
	}
	ring, rule, pin := setting.Of(setting.NICRing, "eth0", "rx"), setting.Of(setting.NetfilterRule, "nflog-skip", "nft"), setting.Of(setting.Domain, "vm1", "vcpupin", "0")
	known, absent := setting.Value("256"), setting.Missing("no such rule")
	to, want := setting.Value("4000"), setting.Least(4000)
	rounded, present, wantRule := setting.Value("4096"), setting.Value("present"), setting.Exact("present")
	pinned, pinWant, one := setting.Missing("not in the definition"), setting.Exact("1"), setting.Value("1")
	header := Header{Kind: Apply, Goal: []byte(`{"pps":1800000,"frame_bytes":64,"loss":0}`), Digest: "4f1c", Changes: 4}
	already := setting.Of(setting.Sysctl, "net.core.dev_weight")
	tx := save("applied", header, 0,
		intent(1, "net.core.netdev_max_backlog", "1000", "250000"), done(1, "250000"),
		Record{Event: Already, N: 2, ID: "softirq.weight", Address: &already, Found: &known, Want: &want},
		Record{Event: Intent, N: 3, ID: "nic.ring.rx", Address: &ring, Before: &known, After: &to, Want: &want, Risk: "blip", Lasts: setting.UntilIfup},
		Record{Event: Done, N: 3, Found: &rounded},
		Record{Event: Intent, N: 4, ID: "netfilter.nflog_skip", Address: &rule, Before: &absent, After: &present, Want: &wantRule, Risk: "security", Lasts: setting.UntilRulesReset},
		Record{Event: Done, N: 4, Found: &present}, Record{Event: Committed})
	save("undone", header, 0, intent(1, "net.a", "1", "2"), done(1, "2"), intent(2, "net.b", "1", "2"),
		Record{Event: Failed, N: 2, Error: "sysctl:net.b: wanted 2: invalid argument"},
		Record{Event: Undone, N: 2, Found: &one}, Record{Event: UndoIntent, N: 1}, Record{Event: Undone, N: 1, Found: &one}, Record{Event: RolledBack})
	save("interrupted", header, 9, intent(1, "net.a", "1", "2"), done(1, "2"),
		Record{Event: Intent, N: 2, ID: "domain.vcpupin", Address: &pin, Before: &pinned, After: &one, Want: &pinWant, Risk: "guest-restart", Lasts: setting.InDefinition, Needs: "restart of guest vm1"},
		done(2, "1"))
	save("in-doubt", header, 0, intent(1, "net.a", "1", "2"), Record{Event: InDoubt, N: 1, Error: "sysctl:net.a: wanted 2: in doubt: it is not known whether it took effect: the write did not return within 10s"},
		Record{Event: UndoIntent, N: 1}, Record{Event: UndoFailed, N: 1, Error: "put back: sysctl:net.a: wanted 1: in doubt"},
		Record{Event: Incomplete, Error: "sysctl:net.a: in doubt"})
	hand := setting.Value("777")
	backlog := setting.Of(setting.Sysctl, "net.core.netdev_max_backlog")
	back := setting.Exact("256")
	gone := setting.NotThere()
	save("rollback", Header{Kind: Rollback, Of: tx, Why: "asked for", Changes: 4}, 0,
		Record{Event: Intent, N: 1, ID: "netfilter.nflog_skip", Address: &rule, Before: &present, After: &absent, Want: &gone},
		Record{Event: Done, N: 1, Found: &absent},
		Record{Event: Intent, N: 2, ID: "nic.ring.rx", Address: &ring, Before: &rounded, After: &known, Want: &back},
		Record{Event: Done, N: 2, Found: &known},
		Record{Event: Left, N: 3, ID: "softirq.backlog", Address: &backlog, Found: &hand, Why: "changed by somebody else since: is 777, mpps left it at 250000, before that it was 1000"},
		Record{Event: Committed})
	save("confirmed", Header{Kind: Apply, Changes: 1}, 0, Record{Event: ConfirmArmed, Seconds: 60}, intent(1, "net.a", "1", "2"), done(1, "2"),
		Record{Event: Committed}, Record{Event: Confirmed})
}

// FuzzParse: whatever a file holds, reading it ends, and what was accepted can be looked at in every way.
func FuzzParse(f *testing.F) {
	samples, err := filepath.Glob("testdata/*" + suffix)
	if err != nil || len(samples) == 0 {
		f.Fatalf("samples: %v, %v", samples, err)
	}
	for _, name := range samples {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// The sums of what the fuzzer made are put right, so that it gets past them.
		for _, candidate := range [][]byte{text, resum(text)} {
			got, err := Parse(candidate)
			if err != nil {
				continue
			}
			l := &Ledger{Transactions: []*Transaction{got}}
			if changes := got.Changes(); len(changes) > len(got.Records) {
				t.Errorf("%d changes of %d records", len(changes), len(got.Records))
			}
			l.State(got)
			l.Open()
			l.BuiltOn(got)
			got.Confirmation()
			if got.size+got.Torn != len(candidate) {
				t.Errorf("%d good and %d torn bytes of %d", got.size, got.Torn, len(candidate))
			}
		}
	})
}

// resum gives every line of a text the sum that it should have.
func resum(text []byte) []byte {
	var out []byte
	previous := ""
	for line := range bytes.Lines(text) {
		body, ended := bytes.CutSuffix(line, []byte("\n"))
		tail := len(sumMember) + sumLength + len(`"}`)
		if len(body) <= tail {
			return append(out, line...)
		}
		content := body[:len(body)-tail]
		previous = sum(previous, content)
		out = append(append(append(append(out, content...), sumMember...), previous...), `"}`...)
		if ended {
			out = append(out, '\n')
		}
	}
	return out
}
