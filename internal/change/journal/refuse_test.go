package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestRefusals(t *testing.T) {
	cases := []struct {
		name  string
		spoil func(t *testing.T, root, name string)
		says  string
		hint  string
	}{
		{"empty", func(t *testing.T, _, name string) { write(t, name, "") }, "truncated", "by hand"},
		{"header cut", func(t *testing.T, _, name string) { write(t, name, `{"schema":"mpps.journal/1","tx":`) },
			"truncated", "by hand"},
		{"zeros", func(t *testing.T, _, name string) { write(t, name, strings.Repeat("\x00", 4096)) }, "truncated",
			"by hand"},
		{"not a journal", func(t *testing.T, _, name string) { write(t, name, "hello\nworld\n") },
			"line 1: not a journal line", "by hand"},
		{"a later version", func(t *testing.T, _, name string) {
			write(t, name, `{"schema":"mpps.journal/2","what":"ever"}`+"\n")
		}, "mpps.journal/2", "the version of mpps that wrote it"},
		{"huge", func(t *testing.T, _, name string) { check(t, os.Truncate(name, maxFile+1)) }, "larger than 64 MiB",
			"by hand"},
		{"another's", func(t *testing.T, _, name string) { check(t, os.Chown(name, 12345, 0)) },
			"belongs to user 12345", "chown"},
		{"group may write", func(t *testing.T, _, name string) { check(t, os.Chmod(name, 0o664)) }, "mode 0664",
			"chmod"},
		{"others may write", func(t *testing.T, _, name string) { check(t, os.Chmod(name, 0o646)) }, "mode 0646",
			"chmod"},
		{"a link", func(t *testing.T, _, name string) {
			check(t, os.Rename(name, name+".moved"))
			check(t, os.Symlink(filepath.Base(name)+".moved", name))
		}, "symbolic link", "move it away"},
		{"a directory", func(t *testing.T, _, name string) { check(t, os.Remove(name)); check(t, os.Mkdir(name, 0o755)) }, "is a directory", "move it away"},
		{"another name", func(t *testing.T, _, name string) {
			check(t, os.Rename(name, filepath.Join(filepath.Dir(name), "20200101T000000.000000Z-000000"+suffix)))
		}, "it holds the transaction", "by hand"},
		{"the directory is everybody's",
			func(t *testing.T, root, _ string) { check(t, os.Chmod(filepath.Join(root, Path), 0o777)) }, "mode 0777",
			"chmod 755"},
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
			must.Need(t, errors.As(err, &refused), "error is %v, expected a refusal", err)
			must.Hold(t, strings.Contains(err.Error(), c.says), "error is %q, expected it to say %q", err, c.says)
			must.Contain(t, refused.Hint(), c.hint)
		})
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	check(t, os.WriteFile(name, []byte(text), 0o644))
}

func check(t *testing.T, err error) {
	t.Helper()
	must.Do(t, err)
}

// TestCutOffLater: what ends before its transaction does is what a loss of power leaves, unless the transaction had
// ended.
func TestCutOffLater(t *testing.T) {
	for _, complete := range []bool{false, true} {
		d, root := open(t)
		l := lock(t, d)
		w := create(t, d, l, Header{Kind: Apply})
		add(t, w, intent(1, "a", "1", "2"), done(1, "2"), intent(2, "b", "1", "2"), done(2, "2"))
		if complete {
			add(t, w, Record{Event: Committed})
		}
		check(t, w.Close())
		must.Pass(d.Load(w.TX()))(t, "complete %v", complete)
		name := file(root, w.TX())
		info, err := os.Stat(name)
		check(t, err)
		check(t, os.Truncate(name, info.Size()-250))
		_, err = d.Load(w.TX())
		var refused *Refused
		if complete != (errors.As(err, &refused) && strings.Contains(err.Error(), "truncated: it was complete")) ||
			!complete && err != nil {
			t.Errorf("complete %v, cut off: %v", complete, err)
		}
		if _, _, again := d.Reopen(l, w.TX()); complete != (again != nil) {
			t.Errorf("complete %v, cut off and continued: %v", complete, again)
		}
		if _, err := d.Load(w.TX()); complete != (err != nil) {
			t.Errorf("complete %v, cut off and read once more: %v", complete, err)
		}
	}
}

// TestConfirmedLater continues a transaction that has ended, and ends it again.
func TestConfirmedLater(t *testing.T) {
	d, root := open(t)
	l := lock(t, d)
	w := create(t, d, l, Header{Kind: Apply})
	add(t, w, Record{Event: ConfirmArmed, Seconds: 60}, intent(1, "a", "1", "2"), done(1, "2"),
		Record{Event: Committed})
	check(t, w.Close())
	again, _, err := d.Reopen(l, w.TX())
	check(t, err)
	add(t, again, Record{Event: Confirmed})
	check(t, again.Close())
	info, err := os.Stat(file(root, w.TX()))
	check(t, err)
	must.Equal(t, info.Mode().Perm(), 0o444, "mode")
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
		"line 2: kept of sysctl:a, which was not to":     {{Event: Kept, Address: unknown.Address, Found: unknown.After}},
		"line 2: beside without an address":              {{Event: Bystander}},
		"line 2: intent without an address":              {bare},
		"line 2: unknown event \"exploded\"":             {{Event: "exploded"}},
		"line 3: confirmed after rolled_back":            {{Event: RolledBack}, {Event: Confirmed}},
		"line 2: confirm within 1e+09 seconds; expected": {{Event: ConfirmArmed, Seconds: 1e9}},
	} {
		d, _ := open(t)
		w := create(t, d, lock(t, d), Header{Kind: Apply})
		add(t, w, records...)
		must.Say(t, must.Err(d.Load(w.TX())), name, "error")
	}
}
