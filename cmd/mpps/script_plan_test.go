package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
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
)

// makePlan plans values of a scratch tree: "makeplan ROOT FILE ADDRESS=VALUE[@RISK]…". The catalogue is made up of
// these, so that the cases of apply do not depend on what the real one thinks.
func makePlan(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: makeplan ROOT FILE ADDRESS=VALUE[@RISK]…")
	}
	writePlan(ts, args, false)
}

// makeLasting is makePlan with what makes the values last: "makelasting ROOT FILE ADDRESS=VALUE[@RISK]…".
func makeLasting(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: makelasting ROOT FILE ADDRESS=VALUE[@RISK]…")
	}
	writePlan(ts, args, true)
}

// appendLine adds a line to a file: "appendline FILE LINE".
func appendLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: appendline FILE LINE")
	}
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_APPEND, 0)
	ts.Check(err)
	_, err = fmt.Fprintln(f, args[1])
	ts.Check(err)
	ts.Check(f.Close())
}

// manyValues makes a scratch tree of N values that are "old" and a plan that makes them "new", so that an apply takes
// long enough to be hit on the way: "manyvalues ROOT FILE N". "allvalues ROOT N TEXT" checks that each holds a text.
func manyValues(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: manyvalues ROOT FILE N")
	}
	plan := args[:2:2]
	for i := range number(ts, args[2]) {
		name := valueFile(ts, args[0], i)
		ts.Check(os.MkdirAll(filepath.Dir(name), 0o755))
		ts.Check(os.WriteFile(name, []byte("old\n"), 0o644))
		plan = append(plan, "sysctl:net."+filepath.Base(name)+"=new")
	}
	writePlan(ts, plan, false)
}

func allValues(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: allvalues ROOT N TEXT")
	}
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

func writePlan(ts *testscript.TestScript, args []string, last bool) {
	text, err := madePlan(ts.MkAbs(args[0]), args[2:], last)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o644))
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
func holdLock(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: holdlock ROOT")
	}
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
func cutJournal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cutjournal ROOT TEXT")
	}
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
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: damage ROOT")
	}
	name := journals(ts, args[0], 1)
	text, err := os.ReadFile(name)
	ts.Check(err)
	text[bytes.IndexByte(text, '\n')+10] ^= 1
	ts.Check(os.WriteFile(name, text, 0o644))
}

// transaction sets TX to the name of the n-th last transaction of a scratch tree: "transaction ROOT N".
func transaction(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: transaction ROOT N")
	}
	ts.Setenv("TX", strings.TrimSuffix(filepath.Base(journals(ts, args[0], number(ts, args[1]))), ".jsonl"))
}

// hangUp sends SIGHUP to the mpps that holds the lock of a scratch tree: "hangup ROOT". (The command kill knows none.)
func hangUp(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hangup ROOT")
	}
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
