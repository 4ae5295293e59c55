package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/machine"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/outcome"
)

// appendLine adds a line to a file: "appendline FILE LINE".
func appendLine(ts *testscript.TestScript, args []string) {
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_APPEND, 0)
	ts.Check(err)
	_, err = fmt.Fprintln(f, args[1])
	ts.Check(err)
	ts.Check(f.Close())
}

// manyValues makes a scratch tree of N values that are "old" and a plan that makes them "new", so that an apply takes
// long enough to be hit on the way: "manyvalues ROOT FILE N". "allvalues ROOT N TEXT" checks that each holds a text.
func manyValues(ts *testscript.TestScript, args []string) {
	plan := args[:2:2]
	for i := range number(ts, args[2]) {
		name := valueFile(ts, args[0], i)
		ts.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		ts.Check(os.WriteFile(name, []byte("old\n"), 0o644))
		plan = append(plan, "sysctl:net."+filepath.Base(name)+"=new")
	}
	makePlan(false)(ts, plan)
}

func allValues(ts *testscript.TestScript, args []string) {
	for i := range number(ts, args[1]) {
		text, err := os.ReadFile(valueFile(ts, args[0], i))
		ts.Check(err)
		if got := strings.TrimSpace(string(text)); got != args[2] {
			ts.Fatalf("value %d is %q, expected %q", i, got, args[2])
		}
	}
}

func valueFile(ts *testscript.TestScript, root string, i int) string {
	return filepath.Join(ts.MkAbs(root), "proc/sys/net", fmt.Sprintf("v%05d", i))
}

func number(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

// makePlan plans values of a scratch tree: "makeplan ROOT FILE ADDRESS=VALUE[@RISK]…", and with what makes them last
// "makelasting …". The catalogue is made up of these, so that the cases of apply do not depend on what the real one
// thinks.
func makePlan(last bool) func(*testscript.TestScript, []string) {
	return func(ts *testscript.TestScript, args []string) {
		text, err := madePlan(ts.MkAbs(args[0]), args[2:], last)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o644))
	}
}

// madePlan is the file of a plan for the values ADDRESS=VALUE[@RISK] below a root, with what makes them last or
// without.
func madePlan(root string, values []string, last bool) ([]byte, error) {
	m, err := machine.Open(root)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	g := goal.Unlimited()
	g.Consent = []goal.Risk{goal.Security, goal.Data}
	var catalogue []*knob.Knob
	var addresses []setting.Address
	for _, arg := range values {
		where, value, found := strings.Cut(arg, "=")
		if !found {
			return nil, fmt.Errorf("%s: expected ADDRESS=VALUE", arg)
		}
		value, risk, found := strings.Cut(value, "@")
		if !found {
			risk = string(goal.None)
		}
		a, err := setting.ParseAddress(where)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, a)
		catalogue = append(catalogue, &knob.Knob{
			ID: "test." + filepath.Base(a.Path), Title: "a value of the case", Stage: datapath.Softirq,
			Risk: goal.Risk(risk), Tiers: goal.Tiers(),
			Where: func(*facts.Host) []setting.Address { return []setting.Address{a} },
			Want: func(*knob.View, setting.Address) knob.Advice {
				advice := knob.Wants(setting.Exact(value), "the case wants it")
				if a.Kind == setting.KernelArg {
					advice.Needs = setting.Reboot()
				}
				return advice
			},
		})
	}
	h := m.Inventory(context.Background())
	machine.Read(context.Background(), m.Mechanisms(), h, append(addresses, lasting.Addresses()...))
	for _, a := range addresses {
		if r := h.Readings.At(a); r.State == setting.Unknown {
			return nil, fmt.Errorf("%s: %s", a, r.Why)
		}
	}
	p, err := plan.Make(h, g, catalogue, nil)
	if err == nil && last {
		err = lasting.Add(p, h)
	}
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = plan.Encode(&text, p)
	return text.Bytes(), err
}

// holdLock holds the lock of a scratch tree until the end of the case: "holdlock ROOT".
func holdLock(ts *testscript.TestScript, args []string) {
	j, err := journal.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	lock, err := j.Lock("apply")
	ts.Check(err)
	ts.Defer(func() {
		ts.Check(lock.Release())
		ts.Check(j.Close())
	})
}

// cutJournal takes the end off the last journal of a scratch tree, as a crash does, from the last line that holds a
// text on: "cutjournal ROOT TEXT".
func cutJournal(ts *testscript.TestScript, args []string) {
	name := journals(ts, args[0], 1)
	text, err := os.ReadFile(name)
	ts.Check(err)
	at := bytes.LastIndex(text, []byte(args[1]))
	if at < 0 {
		ts.Fatalf("%s does not hold %q", name, args[1])
	}
	ts.Check(os.Chmod(name, 0o644)) // what had not ended could still be written
	ts.Check(os.Truncate(name, int64(bytes.LastIndexByte(text[:at], '\n')+1)))
}

// journals is the file of the n-th last transaction of a scratch tree.
func journals(ts *testscript.TestScript, root string, n int) string {
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(root), journal.Path, "*.jsonl"))
	ts.Check(err)
	if len(files) < n {
		ts.Fatalf("%d journals below %s, expected %d", len(files), root, n)
	}
	return files[len(files)-n]
}

// damage changes one byte of the first record of the last journal of a scratch tree: "damage ROOT".
func damage(ts *testscript.TestScript, args []string) {
	name := journals(ts, args[0], 1)
	text, err := os.ReadFile(name)
	ts.Check(err)
	text[bytes.IndexByte(text, '\n')+10] ^= 1
	ts.Check(os.WriteFile(name, text, 0o644))
}

// transaction sets TX to the name of the n-th last transaction of a scratch tree: "transaction ROOT N".
func transaction(ts *testscript.TestScript, args []string) {
	ts.Setenv("TX", strings.TrimSuffix(filepath.Base(journals(ts, args[0], number(ts, args[1]))), ".jsonl"))
}

// hangUp sends SIGHUP to the mpps that holds the lock of a scratch tree: "hangup ROOT". (The command kill knows none.)
func hangUp(ts *testscript.TestScript, args []string) {
	j, err := journal.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer j.Close()
	holder, err := j.Holder()
	ts.Check(err)
	if holder == nil {
		ts.Fatalf("nobody holds the lock below %s", args[0])
	}
	ts.Check(syscall.Kill(holder.PID, syscall.SIGHUP))
}

// within waits until a file holds a text: "within 5s FILE TEXT".
func within(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] within TIME FILE TEXT")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	holds := func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[1]))
		return err == nil && strings.TrimSpace(string(text)) == args[2]
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			if neg {
				ts.Fatalf("%s holds %q within %v", args[1], args[2], limit)
			}
			return
		}
	}
	if !neg {
		ts.Fatalf("%s does not hold %q within %v", args[1], args[2], limit)
	}
}

// pathOf is a trial command: a path through the host below a root directory, whose rate some values of it decide. With
// a number behind it the trial of that number never ends, which the file "hangs" beside the root tells.
func pathOf() {
	root, hangs := os.Args[1], 0
	if len(os.Args) > 2 {
		hangs, _ = strconv.Atoi(os.Args[2])
	}
	is := func(name, value string) bool {
		text, err := os.ReadFile(filepath.Join(root, "proc/sys", name))
		if err != nil {
			panic(err)
		}
		return strings.TrimSpace(string(text)) == value
	}
	noise := rand.New(rand.NewPCG(1, 1))
	in := json.NewDecoder(os.Stdin)
	for n := 1; ; n++ {
		var trial struct{ PPS, Seconds float64 }
		if in.Decode(&trial) != nil {
			return
		}
		if n == hangs {
			if err := os.WriteFile(filepath.Join(root, "../hangs"), []byte("yes"), 0o644); err != nil {
				panic(err)
			}
			time.Sleep(time.Hour)
		}
		rate := 400e3
		if is("net/bridge/bridge-nf-call-iptables", "0") {
			rate *= 2
		}
		if is("kernel/numa_balancing", "0") {
			rate *= 0.8
		}
		sent := uint64(trial.PPS * trial.Seconds)
		came := uint64(rate * (1 + 0.01*noise.NormFloat64()) * trial.Seconds)
		fmt.Fprintf(os.Stdout, `{"sent":%d,"received":%d,"seconds":%g}`+"\n", sent, min(sent, came), trial.Seconds)
	}
}

// refuses checks that every command that writes, and those that tell how the host stands, refuse the journal of a
// scratch tree with an error and a hint, and write nothing: "refuses ROOT ERROR HINT". The plan is more.json.
func refuses(ts *testscript.TestScript, args []string) {
	says := regexp.MustCompile(`^mpps: error: journal /var/lib/mpps/journal.* is refused: .*` + args[1])
	hints := regexp.MustCompile(`(?m)^hint: .*` + args[2])
	before := treeText(ts, args[0])
	for _, command := range [][]string{
		{"apply", "--foreign", "--yes", "more.json"}, {"apply", "--foreign", "more.json", "--dry-run"},
		{"apply", "--foreign", "--yes", "more.json", "--confirm", "5s"},
		{"rollback"}, {"rollback", "--force"}, {"confirm"}, {"status"}, {"verify"}, {"status", "--json"},
	} {
		var out, problems bytes.Buffer
		code := run(inside(ts, append(command, "--root", args[0])), bytes.NewReader(nil), &out, &problems)
		text := problems.String()
		if code != outcome.CodeFailed || out.Len() > 0 || !says.MatchString(text) || !hints.MatchString(text) {
			ts.Fatalf("mpps %v: exit code %d\n%s%s", command, code, out.String(), text)
		}
	}
	if after := treeText(ts, args[0]); after != before {
		ts.Fatalf("something was written:\n%s\nit was\n%s", after, before)
	}
}

// inside makes the names of files in arguments those below the script's directory.
func inside(ts *testscript.TestScript, args []string) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		if _, err := os.Stat(ts.MkAbs(arg)); err == nil {
			arg = ts.MkAbs(arg)
		}
		all[i] = arg
	}
	return all
}

// treeText is every file below a directory with its mode; the lock says nothing.
func treeText(ts *testscript.TestScript, root string) string {
	var b bytes.Buffer
	ts.Check(filepath.WalkDir(ts.MkAbs(root), func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "run" {
			err = filepath.SkipDir
		}
		if err != nil {
			return err
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		b.WriteString(info.Mode().String() + " " + name + "\n")
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			b.Write(text)
		}
		return nil
	}))
	return b.String()
}

// isRoot is the condition [root] of scripts.
func isRoot(condition string) (bool, error) {
	return condition == "root" && os.Geteuid() == 0, nil
}

// sampleJournal puts a journal that was recorded when the format was made on a scratch tree: "samplejournal NAME ROOT".
func sampleJournal(ts *testscript.TestScript, args []string) {
	text, err := os.ReadFile(filepath.Join("../../internal/change/journal/testdata", args[0]+".jsonl"))
	ts.Check(err)
	t, err := journal.Parse(text)
	ts.Check(err)
	into := filepath.Join(ts.MkAbs(args[1]), journal.Path)
	ts.Check(os.MkdirAll(into, 0o755))
	ts.Check(os.WriteFile(filepath.Join(into, t.Header.TX+".jsonl"), text, 0o644))
}
