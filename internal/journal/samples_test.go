package journal

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/setting"
)

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
		"in-doubt": {Doubtful, 1, false}, "rollback": {Applied, 3, false}, "confirmed": {Applied, 1, false}, "beside": {Applied, 1, false},
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
	irq, three, all, spread := setting.Of(setting.IRQAffinity, "eth0", "TxRx-0", "45"), setting.Value("3"), setting.Value("0-7"), setting.Of(setting.SysfsCPUs, "class/net/eth0/queues/tx-0/xps_cpus")
	save("beside", Header{Kind: Apply, Changes: 1}, 0,
		Record{Event: Beside, Address: &irq, Found: &three}, Record{Event: Beside, Address: &spread, Found: &three},
		Record{Event: Intent, N: 1, ID: "nic.ring.rx", Address: &ring, Before: &known, After: &to, Want: &want}, Record{Event: Done, N: 1, Found: &rounded},
		Record{Event: Kept, Address: &irq, Before: &all, Found: &three},
		Record{Event: Moved, Address: &spread, Before: &three, Found: &all, Error: "sysfs-cpus:class/net/eth0/queues/tx-0/xps_cpus: wanted 3: input/output error"},
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
