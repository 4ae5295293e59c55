package journal

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

var record = flag.String("record", "", "write the samples of testdata whose names match; what is released is never "+
	"recorded again")

// TestSamples reads journals that were recorded when the format was made. Every later version must read them: there is
// one of every version, state and event.
func TestSamples(t *testing.T) {
	if *record != "" {
		recordSamples(t, regexp.MustCompile(*record))
	}
	events := map[Event]bool{}
	states := map[State]bool{}
	for name, want := range map[string]struct {
		state   State
		changes int
		torn    bool
	}{
		"applied": {Applied, 4, false}, "undone": {FailedUndone, 2, false}, "interrupted": {Interrupted, 2, true},
		"in-doubt": {Doubtful, 1, false}, "rollback": {Applied, 3, false}, "confirmed": {Applied, 1, false},
		"beside": {Applied, 1, false},
		"failed": {FailedPartly, 2, false}, "lasting": {Applied, 5, false},
	} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", name+suffix)))(t)
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.State() != want.state || len(got.Changes()) != want.changes || got.Torn > 0 != want.torn {
			t.Errorf("%s: %s with %d changes, torn %d; expected %+v", name, got.State(), len(got.Changes()), got.Torn,
				want)
		}
		must.Equal(t, got.Header.Schema, Schema, "%s", name)
		states[got.State()] = true
		for _, r := range got.Records {
			events[r.Event] = true
		}
	}
	for _, e := range []Event{Intent, Already, Done, Failed, InDoubt, UndoIntent, Undone, UndoFailed, Left, Committed,
		RolledBack, Incomplete, Bystander, Kept, Moved, ConfirmArmed, Confirmed} {
		must.Hold(t, events[e], "no sample holds %s", e)
	}
	for _, s := range []State{Applied, FailedUndone, FailedPartly, Interrupted, Doubtful} {
		must.Hold(t, states[s], "no sample is %s", s)
	}
}

// TestSampleOfAMachine reads the journal of a machine on which everything has happened that one transaction does to
// another.
func TestSampleOfAMachine(t *testing.T) {
	const machine = "testdata/machine"
	if *record != "" && regexp.MustCompile(*record).MatchString("machine") {
		recordMachine(t, machine)
	}
	root := t.TempDir()
	check(t, os.CopyFS(root, os.DirFS(machine)))
	// A checkout gives files the modes of whoever makes it.
	check(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return errors.Join(err, os.Chmod(name, 0o644))
		}
		return os.Chmod(name, 0o755)
	}))
	d, err := Open(root)
	check(t, err)
	defer d.Close()
	l, err := d.Ledger()
	check(t, err)
	var states []State
	for _, transaction := range l.Transactions {
		states = append(states, l.State(transaction))
	}
	want := []State{WasRolledBack, WasSuperseded, Applied, FailedUndone, Applied, Applied, Interrupted, Interrupted}
	must.Hold(t, slices.Equal(states, want), "found %v, expected %v", states, want)
	if open := l.Open(); len(open) != 3 || len(l.Dependents(open[0])) != 1 || len(l.Unsettled()) != 1 {
		t.Errorf("%d transactions stand, %v built on the first, %d are unsettled", len(open), l.Dependents(open[0]),
			len(l.Unsettled()))
	}
	l.Holder = &Holder{PID: 1, TX: l.Transactions[7].Header.TX}
	must.Equal(t, l.State(l.Transactions[6]), InFlight, "the one whose rollback is under way")
}

// recordMachine makes it: one rolled back at the second try, one that failed, two of which the later built on the
// earlier, one that was killed, and whose rollback was.
func recordMachine(t *testing.T, into string) {
	t.Helper()
	d, root := open(t)
	l := lock(t, d)
	back := func(of string, n int, path, from, to string, ends ...Record) {
		a, before, after, want := setting.Of(setting.Sysctl, path), setting.Value(from), setting.Value(to),
			setting.Exact(to)
		w := create(t, d, l, Header{Kind: Rollback, Of: of, Why: "asked for", Changes: n})
		add(t, w, append([]Record{{Event: Intent, N: 1, ID: "test." + path, Address: &a, Before: &before, After: &after,
			Want: &want}}, ends...)...)
	}
	apply := func(records ...Record) string {
		w := create(t, d, l, Header{Kind: Apply, Digest: "4f1c", Changes: 1})
		add(t, w, records...)
		return w.TX()
	}
	one := setting.Value("1")
	first := apply(intent(1, "net.a", "1", "2"), done(1, "2"), Record{Event: Committed})
	back(first, 1, "net.a", "2", "1",
		Record{Event: Failed, N: 1, Error: "sysctl:net.a: wanted 1: device or resource busy"},
		Record{Event: Incomplete, Error: "device or resource busy"})
	back(first, 1, "net.a", "2", "1", done(1, "1"), Record{Event: Committed})
	apply(intent(1, "net.b", "1", "2"), Record{Event: Failed, N: 1, Error: "invalid argument"},
		Record{Event: Undone, N: 1, Found: &one}, Record{Event: RolledBack})
	apply(intent(1, "net.c", "1", "2"), done(1, "2"), Record{Event: Committed})
	apply(intent(1, "net.c", "2", "3"), done(1, "3"), Record{Event: Committed})
	killed := apply(intent(1, "net.d", "1", "2"))
	back(killed, 1, "net.d", "2", "1")
	check(t, os.RemoveAll(into))
	check(t, os.CopyFS(filepath.Join(into, Path), os.DirFS(filepath.Join(root, Path))))
}

func recordSamples(t *testing.T, which *regexp.Regexp) {
	t.Helper()
	save := func(name string, h Header, cut int, records ...Record) string {
		d, root := open(t)
		l := lock(t, d)
		w := create(t, d, l, h)
		add(t, w, records...)
		text, err := os.ReadFile(file(root, w.TX()))
		check(t, err)
		if which.MatchString(name) {
			check(t, os.WriteFile(filepath.Join("testdata", name+suffix), text[:len(text)-cut], 0o644))
		}
		return w.TX()
	}
	ring, rule, pin := setting.Of(setting.NICRing, "eth0", "rx"), setting.Of(setting.NetfilterRule, "nflog-skip",
		"nft"), setting.Of(setting.Domain, "vm1", "vcpupin", "0")
	known, absent := setting.Value("256"), setting.Missing("no such rule")
	to, want := setting.Value("4000"), setting.Least(4000)
	rounded, present, wantRule := setting.Value("4096"), setting.Value("present"), setting.Exact("present")
	pinned, pinWant, one := setting.Missing("not in the definition"), setting.Exact("1"), setting.Value("1")
	header := Header{Kind: Apply, Goal: []byte(`{"pps":1800000,"frame_bytes":64,"loss":0}`), Digest: "4f1c", Changes: 4}
	already := setting.Of(setting.Sysctl, "net.core.dev_weight")
	tx := save("applied", header, 0,
		intent(1, "net.core.netdev_max_backlog", "1000", "250000"), done(1, "250000"),
		Record{Event: Already, N: 2, ID: "softirq.weight", Address: &already, Found: &known, Want: &want},
		Record{Event: Intent, N: 3, ID: "nic.ring.rx", Address: &ring, Before: &known, After: &to, Want: &want,
			Risk: "blip", Lasts: setting.UntilIfup},
		Record{Event: Done, N: 3, Found: &rounded},
		Record{Event: Intent, N: 4, ID: "netfilter.nflog_skip", Address: &rule, Before: &absent, After: &present,
			Want: &wantRule, Risk: "security", Lasts: setting.UntilRulesReset},
		Record{Event: Done, N: 4, Found: &present}, Record{Event: Committed})
	save("undone", header, 0, intent(1, "net.a", "1", "2"), done(1, "2"), intent(2, "net.b", "1", "2"),
		Record{Event: Failed, N: 2, Error: "sysctl:net.b: wanted 2: invalid argument"},
		Record{Event: Undone, N: 2, Found: &one}, Record{Event: UndoIntent, N: 1},
		Record{Event: Undone, N: 1, Found: &one}, Record{Event: RolledBack})
	save("interrupted", header, 9, intent(1, "net.a", "1", "2"), done(1, "2"),
		Record{Event: Intent, N: 2, ID: "domain.vcpupin", Address: &pin, Before: &pinned, After: &one, Want: &pinWant,
			Risk: "guest-restart", Lasts: setting.InDefinition, Needs: setting.RestartOf("vm1")},
		done(2, "1"))
	save("in-doubt", header, 0, intent(1, "net.a", "1", "2"),
		Record{Event: InDoubt, N: 1, Error: "sysctl:net.a: wanted 2: in doubt: it is not known whether it took " +
			"effect: the write did not return within 10s"},
		Record{Event: UndoIntent, N: 1}, Record{Event: UndoFailed, N: 1, Error: "put back: sysctl:net.a: wanted 1: " +
			"in doubt"},
		Record{Event: Incomplete, Error: "sysctl:net.a: in doubt"})
	hand := setting.Value("777")
	backlog := setting.Of(setting.Sysctl, "net.core.netdev_max_backlog")
	back := setting.Exact("256")
	gone := setting.NotThere()
	save("rollback", Header{Kind: Rollback, Of: tx, Why: "asked for", Changes: 4}, 0,
		Record{Event: Intent, N: 1, ID: "netfilter.nflog_skip", Address: &rule, Before: &present, After: &absent,
			Want: &gone},
		Record{Event: Done, N: 1, Found: &absent},
		Record{Event: Intent, N: 2, ID: "nic.ring.rx", Address: &ring, Before: &rounded, After: &known, Want: &back},
		Record{Event: Done, N: 2, Found: &known},
		Record{Event: Left, N: 3, ID: "softirq.backlog", Address: &backlog, Found: &hand,
			Why: "changed by somebody else since: is 777, mpps left it at 250000, before that it was 1000"},
		Record{Event: Committed})
	irq, three, all, spread := setting.Of(setting.IRQAffinity, "eth0", "TxRx-0", "45"), setting.Value("3"),
		setting.Value("0-7"), setting.Of(setting.SysfsCPUs, "class/net/eth0/queues/tx-0/xps_cpus")
	save("beside", Header{Kind: Apply, Changes: 1}, 0,
		Record{Event: Bystander, Address: &irq, Found: &three},
		Record{Event: Bystander, Address: &spread, Found: &three},
		Record{Event: Intent, N: 1, ID: "nic.ring.rx", Address: &ring, Before: &known, After: &to, Want: &want},
		Record{Event: Done, N: 1, Found: &rounded},
		Record{Event: Kept, Address: &irq, Before: &all, Found: &three},
		Record{Event: Moved, Address: &spread, Before: &three, Found: &all,
			Error: "sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus: wanted 3: input/output error"},
		Record{Event: Committed})
	save("failed", header, 0, intent(1, "net.a", "1", "2"), done(1, "2"), intent(2, "net.b", "1", "2"),
		Record{Event: Failed, N: 2, Error: "sysctl:net.b: wanted 2: invalid argument"},
		Record{Event: Undone, N: 2, Found: &one}, Record{Event: UndoIntent, N: 1},
		Record{Event: UndoFailed, N: 1, Error: "put back: sysctl:net.a: wanted 1: device or resource busy"},
		Record{Event: Incomplete, Error: "sysctl:net.b: wanted 2: invalid argument; put back: sysctl:net.a: wanted " +
			"1: device or resource busy"})
	conf, folder, unit, argument := setting.Of(setting.File, "etc/sysctl.d/90-mpps.conf"),
		setting.Of(setting.Directory, "etc/sysctl.d"), setting.Of(setting.Unit, "mpps-restore.service"),
		setting.Of(setting.KernelArg, "isolcpus")
	text, enabled, cpus := setting.Value("# Written by mpps\nnet.core.dev_weight = 128\n"), setting.Value("enabled"),
		setting.Value("managed_irq,domain,2-5")
	none, wantFolder, wantText, wantUnit, wantCPUs := setting.Missing("not there"), setting.Any("present", "shared"),
		setting.Exact(text.Value), setting.Exact("enabled"), setting.Exact(cpus.Value)
	save("lasting", header, 0, intent(1, "net.core.dev_weight", "64", "128"), done(1, "128"),
		Record{Event: Intent, N: 2, ID: "boot.isolcpus", Address: &argument, Before: &none, After: &cpus,
			Want: &wantCPUs, Risk: "reboot", Lasts: setting.InBootLoader, Needs: setting.Reboot()},
		Record{Event: Done, N: 2, Found: &cpus},
		Record{Event: Intent, N: 3, ID: "lasting.sysctl.directory", Address: &folder, Before: &none, After: &present,
			Want: &wantFolder, Risk: "none", Lasts: setting.AcrossReboot},
		Record{Event: Done, N: 3, Found: &present},
		Record{Event: Intent, N: 4, ID: "lasting.sysctl", Address: &conf, Before: &none, After: &text, Want: &wantText,
			Risk: "none", Lasts: setting.AcrossReboot},
		Record{Event: Done, N: 4, Found: &text},
		Record{Event: Intent, N: 5, ID: "lasting.service", Address: &unit, Before: &none, After: &enabled,
			Want: &wantUnit, Risk: "none", Lasts: setting.AcrossReboot},
		Record{Event: Done, N: 5, Found: &enabled}, Record{Event: Committed})
	save("confirmed", Header{Kind: Apply, Changes: 1}, 0, Record{Event: ConfirmArmed, Seconds: 60},
		intent(1, "net.a", "1", "2"), done(1, "2"),
		Record{Event: Committed}, Record{Event: Confirmed})
}

// FuzzParse: whatever a file holds, reading it ends, and what was accepted can be looked at in every way.
func FuzzParse(f *testing.F) {
	samples, err := filepath.Glob("testdata/*" + suffix)
	must.Need(f, err == nil && len(samples) != 0, "samples: %v, %v", samples, err)
	for _, name := range samples {
		text := must.Get(os.ReadFile(name))(f)
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// The sums of what the fuzzer made are put right, so that it gets past them.
		for _, candidate := range [][]byte{text, resum(text)} {
			got, err := Parse(candidate)
			if err != nil {
				continue
			}
			l := &Ledger{Transactions: []*Transaction{got}, rollbacks: map[string]*Transaction{}}
			if got.Header.Kind == Rollback {
				l.rollbacks[got.Header.Of] = got
			}
			if changes := got.Changes(); len(changes) > len(got.Records) {
				t.Errorf("%d changes of %d records", len(changes), len(got.Records))
			}
			l.State(got)
			l.Open()
			l.Dependents(got)
			got.Confirmation()
			must.Equal(t, got.size+got.Torn, len(candidate), "%d good and %d torn bytes of", got.size, got.Torn)
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
