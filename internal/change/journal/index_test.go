package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mpps/internal/must"
)

// writeFile writes the file of a transaction as a Writer does, but without its fsyncs, and returns its name.
func writeFile(t *testing.T, root string, number int, h Header, records ...Record) string {
	t.Helper()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(number) * time.Minute)
	h.Schema, h.Host, h.BootID, h.Version, h.Started = Schema, "box", "6ab6", "0.1.0", at
	h.TX = fmt.Sprintf("%s-%06x", at.Format(idTime), number)
	text, chain, err := encodeLine(h, "")
	for i, r := range records {
		if err != nil {
			break
		}
		var line []byte
		r.Seq, r.At = i+1, at
		line, chain, err = encodeLine(r, chain)
		text = append(text, line...)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, Path), 0o755)
	}
	if err == nil {
		mode := os.FileMode(0o644)
		if len(records) > 0 && records[len(records)-1].Event.ends() {
			mode = 0o444
		}
		err = os.WriteFile(file(root, h.TX), text, mode)
	}
	must.Do(t, err)
	return h.TX
}

// manyTrials writes n applies, each with its rollback, as a tuning run leaves them.
func manyTrials(t *testing.T, root string, n int) (applies, rollbacks []string) {
	t.Helper()
	for i := range n {
		tx := writeFile(t, root, 2*i, Header{Kind: Apply, Changes: 1, Digest: strings.Repeat("d", 64)},
			intent(1, "net.a", "1", "2"), done(1, "2"), Record{Event: Committed})
		back := writeFile(t, root, 2*i+1, Header{Kind: Rollback, Of: tx, Why: "asked for", Changes: 1},
			intent(1, "net.a", "2", "1"), done(1, "1"), Record{Event: Committed})
		applies, rollbacks = append(applies, tx), append(rollbacks, back)
	}
	return applies, rollbacks
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	must.Do(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick waits until the times of files have gone on.
func tick(t *testing.T, root string) {
	t.Helper()
	stamp := func() int64 {
		f := must.Get(os.CreateTemp(root, "tick"))(t)
		info, err := f.Stat()
		if err = errors.Join(err, f.Close(), os.Remove(f.Name())); err != nil {
			t.Fatal(err)
		}
		return identityOf(info).ctime
	}
	for began := stamp(); stamp() == began; {
		time.Sleep(time.Millisecond)
	}
}

// TestIndexTrustsNoEqualTimes: a file whose time is not earlier than that of the index may be written again with the
// same times, however coarse the clock. It is not noted.
func TestIndexTrustsNoEqualTimes(t *testing.T) {
	d, root := open(t)
	applies, _ := manyTrials(t, root, enough)
	tick(t, root)
	x := d.draftIndex(enough)
	if err := os.Chmod(file(root, applies[0]), 0o444); err != nil { // after the draft, and before it is read
		t.Fatal(err)
	}
	names := must.Get(d.names())(t)
	l := &Ledger{dir: d, rollbacks: map[string]*Transaction{}}
	if refused := l.read(names); len(refused) > 0 {
		t.Fatal(refused)
	}
	x.made = max(x.made, l.Transactions[0].file.ctime) // as if in one step of the clock
	x.write(nil, l.Transactions)
	if notes := d.index(); len(notes) != 2*enough-1 || notes[applies[0]].tx != "" {
		t.Errorf("%d notes, %+v", len(notes), notes[applies[0]])
	}
}

// TestRecordedTreeIsNotWritten: the journal of another root than the machine's own is only read.
func TestRecordedTreeIsNotWritten(t *testing.T) {
	_, root := open(t)
	manyTrials(t, root, enough)
	tick(t, root)
	d := must.Get(Open(root))(t)
	defer d.Close()
	if _, n := work(t, d); n != 2*enough {
		t.Errorf("%d journals read", n)
	}
	entries, err := os.ReadDir(filepath.Join(root, Path))
	must.Hold(t, err == nil && len(entries) == 2*enough, "%d files, %v", len(entries), err)
	if live, err := Open("/"); err != nil || !live.Indexed {
		t.Errorf("the machine's own journal has no index: %v", err)
	} else {
		live.Close()
	}
}

// work reads the ledger and returns how many journals were read for it.
func work(t *testing.T, d *Dir) (*Ledger, int) {
	t.Helper()
	before := d.read
	l := must.Get(d.Ledger())(t)
	return l, d.read - before
}

// TestTenThousand: journals of what is over are read once.
func TestTenThousand(t *testing.T) {
	d, root := open(t)
	applies, _ := manyTrials(t, root, 5000)
	stands := writeFile(t, root, 10_000, Header{Kind: Apply, Changes: 1}, intent(1, "net.b", "1", "2"), done(1, "2"),
		Record{Event: Committed})
	tick(t, root)
	if l, n := work(t, d); n != 10_001 || len(l.Open()) != 1 {
		t.Fatalf("%d journals read for the first time, %d open", n, len(l.Open()))
	}
	began := cpuTime(t)
	l, n := work(t, d)
	t.Logf("%v of CPU time", cpuTime(t)-began)
	if open := l.Open(); n != 1 || len(open) != 1 || open[0].Header.TX != stands || l.Newest() != stands {
		t.Errorf("%d journals read, open %v, newest %s; expected 1, the one that stands", n, open, l.Newest())
	}
	over, err := l.Find(applies[77])
	must.Hold(t, err == nil && l.State(over) == WasRolledBack && len(over.Changes()) == 1,
		"one that is over: %v, %v", over, err)
	last, before, err := l.Last(200)
	must.Hold(t, err == nil && len(last) == 200 && before == 9801 && last[199].Header.TX == stands,
		"the last: %d, %d before, %v", len(last), before, err)
	if all, before, err := l.Last(0); err != nil || len(all) != 10_001 || before != 0 {
		t.Errorf("all: %d, %d before, %v", len(all), before, err)
	}
	writeFile(t, root, 10_001, Header{Kind: Rollback, Of: applies[5]}, intent(1, "net.a", "2", "1"))
	if l, n = work(t, d); n != 4 || l.State(l.Transactions[0]) != Interrupted {
		t.Errorf("%d journals read, expected those of the transaction that is put back again", n)
	}
}

// TestIndexIsOnlyACache: whatever the index says, a journal that was touched is read, and one that may stand always is.
func TestIndexIsOnlyACache(t *testing.T) {
	index := func(root string) string { return filepath.Join(root, Path, indexName) }
	flip := func(t *testing.T, name string, at int) {
		info, err := os.Stat(name)
		text, readErr := os.ReadFile(name)
		if err = errors.Join(err, readErr); err == nil {
			text[at] ^= 1
			err = errors.Join(os.Chmod(name, 0o644), os.WriteFile(name, text, 0o644), os.Chmod(name, info.Mode()),
				os.Chtimes(name, info.ModTime(), info.ModTime()))
		}
		must.Do(t, err)
	}
	refused := func(part string) func(*testing.T, *Ledger, error) {
		return func(t *testing.T, _ *Ledger, err error) {
			var r *Refused
			must.Hold(t, errors.As(err, &r) && strings.Contains(err.Error(), part),
				"%v; expected a refusal for %q", err, part)
		}
	}
	stand := func(n int) func(*testing.T, *Ledger, error) {
		return func(t *testing.T, l *Ledger, err error) {
			if err != nil || len(l.Open()) != n {
				t.Errorf("%d open, %v; expected %d", len(l.Open()), err, n)
			}
		}
	}
	cases := []struct {
		name  string
		act   func(t *testing.T, root, tx, back string)
		check func(*testing.T, *Ledger, error)
	}{
		{"nothing", func(*testing.T, string, string, string) {}, stand(0)},
		{"a flipped bit", func(t *testing.T, root, tx, _ string) { flip(t, file(root, tx), 600) }, refused("sum")},
		{"a later version", func(t *testing.T, root, tx, _ string) {
			flip(t, file(root, tx), len(`{"schema":"mpps.journal/`))
		}, refused("its format is mpps.journal/0")},
		{"cut off", func(t *testing.T, root, _, back string) {
			must.Do(t, os.Truncate(file(root, back), 500))
		}, refused("truncated")},
		{"writable by others", func(t *testing.T, root, tx, _ string) {
			must.Do(t, os.Chmod(file(root, tx), 0o666))
		}, refused("others")},
		{"a rollback is gone", func(t *testing.T, root, _, back string) {
			must.Do(t, os.Remove(file(root, back)))
		}, stand(1)},
		{"a link", func(t *testing.T, root, tx, _ string) {
			must.Do(t, errors.Join(os.Rename(file(root, tx), root+"/moved"), os.Symlink(root+"/moved", file(root, tx))))
		}, refused("symbolic link")},
		{"a damaged index", func(t *testing.T, root, _, _ string) { flip(t, index(root), 2000) }, stand(0)},
		{"no index", func(t *testing.T, root, _, _ string) {
			must.Do(t, os.Remove(index(root)))
		}, stand(0)},
		{"an index that others wrote", func(t *testing.T, root, _, _ string) {
			must.Do(t, errors.Join(os.WriteFile(index(root), nil, 0o666), os.Chmod(index(root), 0o666)))
		}, stand(0)},
		{"a FIFO as index", func(t *testing.T, root, _, _ string) {
			must.Do(t, errors.Join(os.Remove(index(root)), syscall.Mkfifo(index(root), 0o644)))
		}, stand(0)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d, root := open(t)
			applies, rollbacks := manyTrials(t, root, enough)
			tick(t, root)
			work(t, d)
			if _, n := work(t, d); n != 0 {
				t.Fatalf("%d journals read", n)
			}
			c.act(t, root, applies[9], rollbacks[9])
			l, err := d.Ledger()
			c.check(t, l, err)
		})
	}
}

// TestNotSettled: of these more is needed than their end, so they are read each time.
func TestNotSettled(t *testing.T) {
	left := intent(1, "net.a", "2", "1")
	left.Event, left.Reason = Left, Needed
	left.Found = left.After
	domain := intent(1, "x", "2", "1")
	domain.Address.Kind, domain.Address.Path = "domain", "vm1/vcpu.placement"
	for name, records := range map[string][]Record{
		"not complete":            {intent(1, "net.a", "2", "1"), {Event: Failed, N: 1}, {Event: Incomplete}},
		"not ended":               {intent(1, "net.a", "2", "1")},
		"left what is used":       {left, {Event: Committed}},
		"a guest may run with it": {domain, done(1, "1"), {Event: Committed}},
	} {
		t.Run(name, func(t *testing.T) {
			d, root := open(t)
			applies, _ := manyTrials(t, root, enough)
			writeFile(t, root, 10_000, Header{Kind: Rollback, Of: applies[3]}, records...)
			tick(t, root)
			work(t, d)
			if l, n := work(t, d); n != 3 {
				t.Errorf("%d journals read (%v), expected the apply and its two rollbacks", n, l.Transactions)
			}
		})
	}
}
