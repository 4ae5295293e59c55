package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"mpps/internal/advise/knob"
	"mpps/internal/change/journal"
	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestProseDrivesNothing plans, applies, goes on behind a reboot and rolls back twice: with the words of this version,
// and with other ones in the catalogue, in snapshots, in plans and in journals between the commands. Everything but the
// words must be the same.
func TestProseDrivesNothing(t *testing.T) {
	same := func(text string) string { return text }
	overReboot, planned := playWorded(t, same), planWorded(t, same)
	rewordCatalogue(t)
	must.NoDiff(t, cmp.Diff(overReboot, playWorded(t, golden.Scramble)), "with other words (+)")
	must.NoDiff(t, cmp.Diff(planned, planWorded(t, golden.Scramble)), "plans with other words (+)")
}

// rewordCatalogue gives all knobs other words until the test ends.
func rewordCatalogue(t *testing.T) {
	t.Helper()
	for _, k := range knob.Catalogue() {
		as := *k
		t.Cleanup(func() { *k = as })
		k.Title = golden.Scramble(as.Title)
		k.Want = func(v *knob.View, a setting.Address) knob.Advice {
			advice := as.Want(v, a)
			for _, text := range []*string{&advice.Because, &advice.Skip, &advice.Unsure, &advice.Warning} {
				*text = golden.Scramble(*text)
			}
			return advice
		}
	}
}

// worded is a tree on which commands run, and what came of each.
type worded struct {
	t     *testing.T
	root  string
	dir   string // for files
	other func(string) string
	names map[string]string // of transactions
	log   strings.Builder
}

// mpps runs a command, notes all but the words of what it answers and of the tree, and gives the journal other words.
func (w *worded) mpps(args ...string) {
	w.t.Helper()
	var out, said bytes.Buffer
	code := run(append(args, "--root", w.root), strings.NewReader(""), &out, &said)
	fmt.Fprintf(&w.log, "%s: exit %d\n", w.plain(strings.Join(args, " ")), code)
	if bytes.HasPrefix(out.Bytes(), []byte("{")) {
		w.log.WriteString(w.plain(string(golden.Reword(w.t, out.Bytes(), func(string) string { return "…" }))))
	}
	must.Do(w.t, filepath.WalkDir(w.root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasSuffix(name, "lock") ||
			strings.HasPrefix(d.Name(), "reserve-") { // room for a journal, without text
			return err
		}
		text, err := os.ReadFile(name)
		if filepath.Ext(name) == ".jsonl" {
			w.journal(name, text)
		} else {
			fmt.Fprintf(&w.log, "%s\n%s", strings.TrimPrefix(name, w.root), text)
		}
		return err
	}))
}

// journal notes the values of a transaction, and rewrites it.
func (w *worded) journal(name string, text []byte) {
	w.t.Helper()
	w.names[strings.TrimSuffix(filepath.Base(name), ".jsonl")] = fmt.Sprint("tx", len(w.names)+1)
	one := must.Get(journal.Parse(text))(w.t)
	for _, c := range one.Changes() {
		fmt.Fprintf(&w.log, "  %d %s %s: %s → %s %s %s\n", c.N, c.ID, c.Address, c.Before, c.After, c.State, c.Reason)
	}
	must.Do(w.t, os.WriteFile(name, golden.RewordJournal(w.t, text, w.other), 0o644))
}

var (
	txForm = regexp.MustCompile(`\d{8}T\d{6}\.\d{6}Z-[0-9a-f]{6}`)
	// What could not be seen stands among the rules that an operator consents to, and that the digest covers, as it was
	// shown.
	shown    = regexp.MustCompile(`unknown: [^"]* could not be seen \([^"]*\)|"digest": "[^"]*"`)
	volatile = regexp.MustCompile(`"(seconds|started|ended|made|time|taken)": ("[^"]*"|[0-9.e-]+)`)
)

// plain is a text without what differs from run to run.
func (w *worded) plain(text string) string {
	text = strings.NewReplacer(w.root, "ROOT", w.dir, "DIR").Replace(volatile.ReplaceAllString(text, `"$1": 0`))
	return txForm.ReplaceAllStringFunc(text, func(tx string) string { return w.names[tx] })
}

// put replaces files of the tree.
func (w *worded) put(files ...string) {
	w.t.Helper()
	for i := 0; i < len(files); i += 2 {
		must.Do(w.t, os.WriteFile(filepath.Join(w.root, files[i]), []byte(files[i+1]), 0o644))
	}
}

// newest is the name of the newest transaction.
func (w *worded) newest() string {
	w.t.Helper()
	files, err := filepath.Glob(filepath.Join(w.root, journal.Path, "*.jsonl"))
	must.Need(w.t, err == nil && len(files) != 0, "no journal: %v", err)
	return strings.TrimSuffix(filepath.Base(files[len(files)-1]), ".jsonl")
}

// reworded gives a file other words.
func (w *worded) reworded(name string) {
	w.t.Helper()
	text := must.Get(os.ReadFile(name))(w.t)
	must.Do(w.t, os.WriteFile(name, golden.Reword(w.t, text, w.other), 0o644))
}

// playWorded goes through a plan over a reboot and its rollback, on the tree of resume.txtar.
func playWorded(t *testing.T, other func(string) string) []string {
	t.Helper()
	w := &worded{t: t, root: t.TempDir(), dir: t.TempDir(), other: other, names: map[string]string{}}
	archive := must.Get(txtar.ParseFile("testdata/script/resume.txtar"))(t)
	for _, f := range archive.Files {
		if name, of := strings.CutPrefix(f.Name, "root/"); of {
			must.Do(t, os.MkdirAll(filepath.Join(w.root, filepath.Dir(name)), 0o755))
			w.put(name, string(f.Data))
		}
	}
	file := filepath.Join(w.dir, "plan.json")
	boots := "proc/sys/kernel/random/boot_id"
	entry := func() string {
		text := must.Get(os.ReadFile(filepath.Join(w.root, "efi/loader/entries/debian-6.12.conf")))(t)
		_, options, _ := strings.Cut(string(text), "options")
		options, _, _ = strings.Cut(options, "\n")
		return strings.TrimSpace(options) + "\n"
	}
	runs := "proc/cmdline"
	before := entry()

	w.mpps("plan", "--latency", "50us", "--cpus", "2-3", "-o", file)
	w.reworded(file)
	w.mpps("apply", "--yes", file, "--json")
	first := w.newest()
	w.mpps("status", "--json")
	w.mpps("apply", "--yes", "--resume", "--json") // too early
	w.put(boots, "second\n", runs, entry(), "sys/devices/system/cpu/isolated", "2-3\n",
		"proc/sys/kernel/sched_rt_runtime_us", "950000\n")
	w.mpps("status", "--json")
	w.mpps("apply", "--yes", "--resume", "--json")
	w.mpps("status", "--json")
	w.mpps("rollback", first, "--json") // something built on it
	w.put("proc/sys/vm/stat_interval", "7\n")
	w.mpps("verify", "--json")
	w.mpps("rollback", first, "--with-later", "--json", "--dry-run")
	w.mpps("rollback", first, "--with-later", "--json")
	w.mpps("history", first, "--json")
	w.mpps("status", "--json")
	w.put(boots, "third\n", runs, before)
	w.mpps("status", "--json")
	return strings.Split(w.log.String(), "\n")
}

// planWorded plans for a recorded host, and for the snapshot of it.
func planWorded(t *testing.T, other func(string) string) []string {
	t.Helper()
	w := &worded{t: t, root: t.TempDir(), dir: t.TempDir(), other: other}
	must.Do(t, golden.Tree("testdata/trees/two-nodes.txtar", w.root))
	snapshot := filepath.Join(w.dir, "snapshot.json")
	w.mpps("snapshot", "-o", snapshot)
	text := must.Get(os.ReadFile(snapshot))(t)
	unseen := must.Get(json.Marshal([]facts.Unseen{facts.RulesUnseen("iptables-legacy", "nat", "needs root"),
		facts.GuestsUnseen("needs root")}))(t)
	text = regexp.MustCompile(`"unseen": \[[^\]]*\]`).ReplaceAll(text, append([]byte(`"unseen": `), unseen...))
	must.Do(t, os.WriteFile(snapshot, text, 0o644))
	w.reworded(snapshot)
	for _, goal := range [][]string{{"--pps", "1.8M"}, {"--latency", "50us", "--cpus", "2-3"}, {"--pps", "3M",
		"--loss", "0", "--consent", "security"}} {
		for _, verb := range []string{"audit", "plan"} {
			w.mpps(append([]string{verb, "--json"}, goal...)...)
			var out, said bytes.Buffer
			code := run(append([]string{verb, "--json", "--snapshot", snapshot}, goal...), strings.NewReader(""),
				&out, &said)
			fmt.Fprintf(&w.log, "%s of the snapshot: exit %d\n%s", verb, code,
				shown.ReplaceAllString(w.plain(string(golden.Reword(t, out.Bytes(),
					func(string) string { return "…" }))), "…"))
		}
	}
	return strings.Split(w.log.String(), "\n")
}
