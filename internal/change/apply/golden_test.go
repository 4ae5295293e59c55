package apply

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/golden"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// goldenDir holds journals as mpps wrote them before reasons had members of their own, each with the values of its
// machine and with what that mpps made of both. They are kept for good: a journal of any age must be read, and rolled
// back, as by the version that wrote it.
const goldenDir = "testdata/golden"

var (
	confFolder = setting.Of(setting.Directory, "etc/sysctl.d")
	confFile   = setting.Of(setting.File, "etc/sysctl.d/90-mpps.conf")
	pinned     = setting.Of(setting.Domain, "vm1", "vcpupin", "0")
	queues     = setting.Of(setting.Domain, "vm1", "interface", "52:54:00:00:00:01", "driver.queues")
	model      = setting.Of(setting.Domain, "vm1", "interface", "52:54:00:00:00:01", "model")
	module     = setting.Of(setting.ModuleParam, "kvm", "halt_poll_ns")
	ringSize   = setting.Of(setting.NICRing, "eth0", "rx")
	vhost      = setting.Of(setting.ThreadAffinity, "vm1", "vhost", "52:54:00:00:00:01", "0")
	confOfA    = "# Written by mpps\nnet.a = 2\n"
	confOfAB   = "# Written by mpps\nnet.a = 2\nnet.b = 2\n"
	present    = setting.Value("present")
	missing    = setting.Missing("not there")
	kernelArg  = setting.Of(setting.KernelArg, "isolcpus")
	drifting   = setting.Of(setting.Sysctl, "net.drift")
	odd        = setting.Reading{State: setting.Known, Value: "4", AsFound: true,
		Why: "stands there, though it would be refused: queues: e1000 has one queue"}
	already = setting.Of(setting.Sysctl, "net.already")
)

// recordable are the machines and what is done to them. A recorded case is never made again.
var recordable = map[string]func(t *testing.T, f *fake, e *Engine){
	"applied": func(t *testing.T, f *fake, e *Engine) {
		f.values[ringSize] = setting.Value("256")
		f.becomes[ringSize] = map[string]string{"4000": "4096"}
		f.values[vhost] = setting.Value("0-3")
		f.values[already] = setting.Value("7")
		done(t, e, Options{}, to(address(0), "old", "new"), to(ringSize, "256", "4000"), to(vhost, "0-3", "1"),
			to(drifting, "old", "new"), to(already, "6", "7"))
		f.values[drifting] = setting.Value("777")
		f.values[vhost] = setting.Missing("the guest does not run")
	},
	"rolled-back": func(t *testing.T, f *fake, e *Engine) {
		f.values[vhost] = setting.Value("0-3")
		done(t, e, Options{}, to(address(0), "old", "new"), to(drifting, "old", "new"), to(address(1), "old", "new"),
			to(vhost, "0-3", "1"))
		f.values[drifting], f.values[address(1)] = setting.Value("777"), setting.Value("old")
		f.values[vhost] = setting.NoObject("guest vm1: no such guest")
		back(t, e)
	},
	"left-for-another": func(t *testing.T, f *fake, e *Engine) {
		folder := plan.Change{ID: "lasting.sysctl.directory", Address: confFolder, From: missing, To: present,
			Want: setting.Any("present", "shared"), Lasts: setting.AcrossReboot}
		first := done(t, e, Options{}, to(address(0), "old", "new"), folder, file(missing, confOfA))
		done(t, e, Options{}, to(address(1), "old", "new"), folder, file(setting.Value(confOfA), confOfAB))
		must.Get(e.Rollback(t.Context(), RollbackOptions{TX: first}))(t)
	},
	"interrupted": func(t *testing.T, f *fake, e *Engine) {
		done(t, e, Options{}, to(address(2), "old", "new"))
		lock, err := e.Journal.Lock("apply")
		must.Do(t, err)
		w := must.Get(e.Journal.Create(lock, journal.Header{Kind: journal.Apply, Host: e.Host, BootID: e.BootID,
			Version: "test", Changes: 3}))(t)
		was, is, want := setting.Value("old"), setting.Value("new"), setting.Exact("new")
		for i := range 2 {
			a := address(i)
			err = errors.Join(err, w.Append(journal.Record{Event: journal.Intent, N: i + 1, ID: "test", Address: &a,
				Before: &was, After: &is, Want: &want, Risk: "none", Lasts: setting.UntilReboot}))
			if i == 0 {
				err = errors.Join(err, w.Append(journal.Record{Event: journal.Done, N: 1, Found: &is}))
			}
		}
		if err = errors.Join(err, w.Close(), lock.Release()); err != nil {
			t.Fatal(err)
		}
		f.values[address(0)], f.values[address(1)] = is, setting.Value("half")
	},
	"failed": func(t *testing.T, f *fake, e *Engine) {
		f.refuse[address(1)] = errors.New("invalid argument")
		f.refuseTo[address(0)] = map[string]error{"old": errors.New("device or resource busy")}
		if _, err := e.Run(t.Context(), planOf(to(address(0), "old", "new"), to(address(1), "old", "new")),
			Options{}); err == nil {
			t.Fatal("it did not fail")
		}
	},
	"guests": func(t *testing.T, f *fake, e *Engine) {
		f.values[queues], f.values[model] = odd, setting.Value("e1000")
		f.values[pinned] = setting.Missing("not in the definition")
		pin := guestChange(t, pinned, f.values[pinned], setting.Value("1"))
		done(t, e, Options{}, guestChange(t, queues, odd, setting.Missing("")), guestChange(t, model,
			setting.Value("e1000"), setting.Value("virtio")), pin)
	},
	"waiting": func(t *testing.T, f *fake, e *Engine) {
		f.values[kernelArg], f.values[module] = missing, setting.Value("200000")
		argument := plan.Change{ID: "boot.isolcpus", Address: kernelArg, From: missing, To: setting.Value("2-3"),
			Want: setting.Exact("2-3"), Risk: goal.Reboot, Lasts: setting.InBootLoader}
		loaded := to(module, "200000", "0")
		argument.Needs = setting.Reboot()
		loaded.Needs = setting.Reboot()
		done(t, e, Options{Resume: kept(t)}, argument, loaded, to(address(0), "old", "new"))
	},
	"gone-on-with": func(t *testing.T, f *fake, e *Engine) {
		f.values[kernelArg] = missing
		argument := plan.Change{ID: "boot.isolcpus", Address: kernelArg, From: missing, To: setting.Value("2-3"),
			Want: setting.Exact("2-3"), Risk: goal.Reboot, Lasts: setting.InBootLoader}
		argument.Needs = setting.Reboot()
		first := done(t, e, Options{Resume: kept(t)}, argument, to(address(0), "old", "new"))
		e.BootID = "boot-2"
		done(t, e, Options{Resume: kept(t), Follows: first}, to(address(1), "old", "new"), guestChange(t, pinned,
			missing, setting.Value("1")))
	},
}

func kept(t *testing.T) json.RawMessage {
	t.Helper()
	text := must.Get(journal.Resume{
		Goal: goal.Goal{Latency: 50 * time.Microsecond, CPUs: setting.CPUs(2, 3)}, Kernel: "6.12-rt",
		Later: []journal.Postponed{{After: "reboot of the host", IDs: []string{"rt.rcuc"},
			Why: "the kernel that runs has none"}},
	}.Encode())(t)
	return text
}

func to(a setting.Address, from, value string) plan.Change {
	return plan.Change{ID: "test." + a.Path, Address: a, From: setting.Value(from), To: setting.Value(value),
		Want: wantFor(a, value), Risk: "none",
		Lasts: setting.UntilReboot, Because: "the test wants it"}
}

func wantFor(a setting.Address, value string) setting.Want {
	if a == ringSize {
		return setting.Least(4000)
	}
	return setting.Exact(value)
}

func file(from setting.Reading, text string) plan.Change {
	return plan.Change{ID: "lasting.sysctl", Address: confFile, From: from, To: setting.Value(text),
		Want: setting.Exact(text), Lasts: setting.AcrossReboot}
}

func guestChange(t *testing.T, a setting.Address, from, value setting.Reading) plan.Change {
	t.Helper()
	c := plan.Change{ID: "domain.test", Address: a, From: from, To: value, Want: wantOf(value),
		Risk: goal.GuestRestart, Lasts: setting.InDefinition}
	c.Needs = setting.RestartOf("vm1")
	return c
}

func planOf(all ...plan.Change) *plan.Plan {
	return &plan.Plan{Digest: "d1", Goal: goal.Unlimited(), Changes: all}
}

func done(t *testing.T, e *Engine, o Options, all ...plan.Change) string {
	t.Helper()
	r := must.Get(e.Run(t.Context(), planOf(all...), o))(t)
	return r.TX
}

func back(t *testing.T, e *Engine) {
	t.Helper()
	must.Get(e.Rollback(t.Context(), RollbackOptions{}))(t)
}

func goldenMachine(t *testing.T) *fake {
	f := newFake(t, 3)
	f.values[drifting] = setting.Value("old")
	return f
}

// cell is one value of a recorded machine.
type cell struct {
	Address setting.Address `json:"address"`
	Reading setting.Reading `json:"reading"`
}

// TestGoldenJournals reads and rolls back the recorded journals.
func TestGoldenJournals(t *testing.T) {
	for name, record := range recordable {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(goldenDir, name)
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && golden.Updating() {
				recordGolden(t, dir, record)
			}
			root := t.TempDir()
			must.Do(t, os.CopyFS(root, os.DirFS(dir)))
			believable(t, root)
			f := newFake(t, 0)
			text := must.Get(os.ReadFile(filepath.Join(dir, "machine.json")))(t)
			var cells []cell
			must.Do(t, json.Unmarshal(text, &cells))
			for _, c := range cells {
				f.values[c.Address] = c.Reading
			}
			found := replay(t, f, on(t, root, f.mechanisms()), same)
			want, err := os.ReadFile(filepath.Join(dir, "replay.txt"))
			if errors.Is(err, fs.ErrNotExist) && golden.Updating() {
				want, err = []byte(found), os.WriteFile(filepath.Join(dir, "replay.txt"), []byte(found), 0o644)
			}
			must.Do(t, err)
			must.Hold(t, string(want) == found, "found\n%s\nexpected\n%s", found, want)
		})
	}
}

func same(text string) string { return text }

// TestWordsDoNothing plays the same machines with this version's journals: with its words, and with other ones in the
// journals, in readings, in what others tell and in results.
func TestWordsDoNothing(t *testing.T) {
	for name, record := range recordable {
		t.Run(name, func(t *testing.T) {
			must.NoDiff(t, gocmp.Diff(played(t, record, same), played(t, record, golden.Scramble)),
				"with other words (+)")
		})
	}
}

func played(t *testing.T, record func(*testing.T, *fake, *Engine), other func(string) string) string {
	t.Helper()
	root := t.TempDir()
	f := goldenMachine(t)
	record(t, f, on(t, root, f.mechanisms()))
	files, err := filepath.Glob(filepath.Join(root, journal.Path, "*.jsonl"))
	must.Need(t, err == nil && len(files) != 0, "no journal: %v", err)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.Chmod(name, 0o644)
		}
		if err = errors.Join(err, os.WriteFile(name, golden.RewordJournal(t, text, other), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for a, r := range f.values {
		r.Why = other(r.Why)
		f.values[a] = r
	}
	e := on(t, root, f.mechanisms())
	e.Waiting = func(c journal.Change) string {
		if c.Address == kernelArg && e.BootID == "boot-1" {
			return other("the running kernel has it otherwise")
		}
		return ""
	}
	e.Owner = func(c journal.Change, _ setting.Reading) string {
		if c.Address == drifting {
			return other("somebody's file sets it")
		}
		return ""
	}
	return replay(t, f, e, other)
}

func recordGolden(t *testing.T, dir string, record func(*testing.T, *fake, *Engine)) {
	t.Helper()
	root := t.TempDir()
	f := goldenMachine(t)
	record(t, f, on(t, root, f.mechanisms()))
	var cells []cell
	for _, a := range slices.SortedFunc(maps.Keys(f.values), setting.Address.Compare) {
		cells = append(cells, cell{a, f.values[a]})
	}
	text := must.Get(json.MarshalIndent(cells, "", "  "))(t)
	must.Do(t, os.CopyFS(filepath.Join(dir, journal.Path), os.DirFS(filepath.Join(root, journal.Path))))
	must.Do(t, os.WriteFile(filepath.Join(dir, "machine.json"), append(text, '\n'), 0o644))
}

// believable gives files the modes of a journal: a checkout gives them those of whoever makes it.
func believable(t *testing.T, root string) {
	t.Helper()
	must.Do(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return errors.Join(err, os.Chmod(name, 0o755))
		}
		return os.Chmod(name, 0o644)
	}))
}

// replay looks at a machine, rolls everything back, and tells what came of it without a word of prose.
func replay(t *testing.T, f *fake, e *Engine, other func(string) string) string {
	t.Helper()
	var b strings.Builder
	names := map[string]string{} // transactions by their place
	ledger := must.Get(e.Journal.Ledger())(t)
	for i, one := range ledger.Transactions {
		names[one.Header.TX] = fmt.Sprint("tx", i+1)
		detail := must.Get(e.Detail(t.Context(), one.Header.TX))(t)
		fmt.Fprintf(&b, "%s %s of %q follows %q: %s\n", names[one.Header.TX], detail.Kind, names[detail.Of],
			names[detail.Follows], detail.State)
		for j, c := range one.Changes() {
			fmt.Fprintf(&b, "  %s %s: %s → %s %s, needs %s, still %s, left %s\n", c.ID, c.Address, line(c.Before),
				line(c.After), c.State,
				jsonOf(t, c.Needs), jsonOf(t, detail.List[j].Needs), cmp.Or(string(c.Reason), "-"))
		}
	}
	for _, boot := range []string{"boot-1", "boot-2"} {
		e.BootID = boot
		tellStatus(t, &b, e, names)
	}
	e.BootID = "boot-1"
	for round := 1; round <= 5; round++ {
		all, err := e.Rollback(t.Context(), RollbackOptions{})
		if len(all) == 0 {
			fmt.Fprintf(&b, "round %d: nothing, failed %t\n", round, err != nil)
			break
		}
		for _, r := range all {
			for i := range r.Changes {
				r.Changes[i].Why = other(r.Changes[i].Why)
			}
			fmt.Fprintf(&b, "round %d: %s %s, failed %t, %d written, %d drifted\n", round, names[r.Of], r.State,
				err != nil, r.Written(), r.Drifted())
			for _, c := range r.Changes {
				fmt.Fprintf(&b, "  %s: %q → %q %s, needs %s\n", c.Address, c.From, c.To, c.State, jsonOf(t, c.Needs))
			}
		}
	}
	fmt.Fprintf(&b, "writes %q\n", f.writes)
	for _, a := range slices.SortedFunc(maps.Keys(f.values), setting.Address.Compare) {
		fmt.Fprintf(&b, "%s is %s\n", a, line(f.values[a]))
	}
	tellStatus(t, &b, e, names)
	return b.String()
}

func tellStatus(t *testing.T, b *strings.Builder, e *Engine, names map[string]string) {
	t.Helper()
	s := must.Get(e.Status(t.Context()))(t)
	fmt.Fprintf(b, "status %s\n", s.State)
	for _, r := range s.Rows {
		fmt.Fprintf(b, "  %s %s: wanted %q, found %q, %s\n", names[r.TX], r.Address, r.Wanted, r.Found, r.State)
	}
	if r := s.Remains; r != nil {
		fmt.Fprintf(b, "  remains of %s: %d done, waits %s, later %s, against %t, %s\n", names[r.TX], r.Done,
			jsonOf(t, r.Waits), jsonOf(t, len(r.Later)), r.Against != "", r.Flags)
	}
}

// line is a reading with what a write of it depends on.
func line(r setting.Reading) string {
	text := fmt.Sprintf("%q", r)
	if r.Verbatim != "" {
		text += " verbatim"
	}
	if r.AsFound {
		text += " as found"
	}
	return text
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}
