package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// recordedTree unpacks a recorded machine of testdata/trees: "tree NAME DIR".
func recordedTree(ts *testscript.TestScript, args []string) {
	ts.Check(golden.Tree("testdata/trees/"+args[0]+".txtar", ts.MkAbs(args[1])))
}

// bigSnapshot writes a snapshot of the size that speed is measured with: "bigsnapshot FILE".
func bigSnapshot(ts *testscript.TestScript, args []string) {
	var text bytes.Buffer
	ts.Check(facts.Write(&text, facts.Synthetic(facts.Large), version))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o644))
}

// validJSON validates a file, or what a program printed, against a shipped schema, in which nothing may stand that the
// schema does not name: "jsonvalid mpps.audit.1 stdout".
func validJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: jsonvalid SCHEMA FILE")
	}
	err := validate(args[0], ts.ReadFile(args[1]))
	switch {
	case err != nil && !neg:
		ts.Fatalf("%v", err)
	case err == nil && neg:
		ts.Fatalf("%s is a %s", args[1], args[0])
	}
}

func validate(name, text string) error {
	return golden.Valid(filepath.Join(schemaFolder, name+".json"), text)
}

// columns checks that no line of a text is wider than a number of columns, and that none holds a control sequence:
// "columns 80 stdout".
func columns(ts *testscript.TestScript, args []string) {
	// where the script runs is nobody's choice
	text := strings.ReplaceAll(ts.ReadFile(args[1]), ts.Getenv("WORK"), "$WORK")
	ts.Check(wide(text, number(ts, args[0])))
}

func wide(text string, most int) error {
	for i, line := range strings.Split(text, "\n") {
		switch {
		case utf8.RuneCountInString(line) > most:
			return fmt.Errorf("line %d has %d columns, expected at most %d: %s", i+1, utf8.RuneCountInString(line),
				most, line)
		case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return fmt.Errorf("line %d holds a control character: %q", i+1, line)
		}
	}
	return nil
}

// complaint checks that standard error is one line with the error and one with what to do, and standard output empty:
// "complaint" after a command that was refused.
func complaint(ts *testscript.TestScript, args []string) {
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output holds %q", out)
	}
	ts.Check(complains(ts.ReadFile("stderr")))
}

// goError is how package os begins an error about a file.
var goError = regexp.MustCompile(`\b(open|openat|stat|lstat|statat|read|mkdir|rename|readlink) [^ ]+: `)

func complains(text string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	switch {
	case len(lines) != 2:
		return fmt.Errorf("%d lines, expected an error and a hint:\n%s", len(lines), text)
	case !strings.HasPrefix(lines[0], "mpps: error: ") || len(lines[0]) == len("mpps: error: "):
		return fmt.Errorf("no error: %q", lines[0])
	case !strings.HasPrefix(lines[1], "hint: ") || len(lines[1]) == len("hint: "):
		return fmt.Errorf("no hint: %q", lines[1])
	case strings.HasSuffix(lines[0], "."):
		return fmt.Errorf("a full stop: %q", lines[0])
	case goError.MatchString(lines[0]):
		return fmt.Errorf("an error in Go's words: %q", lines[0])
	}
	return wide(text, 500)
}

// TestScriptCommands shows that the checks above can fail.
func TestScriptCommands(t *testing.T) {
	for name, err := range map[string]error{
		"a missing member": validate("mpps.confirm.1",
			`{"schema":"mpps.confirm/1","mpps":"0","host":"h","result":{"tx":"t"},"warnings":[]}`),
		"an unknown member": validate("mpps.confirm.1",
			`{"schema":"mpps.confirm/1","mpps":"0","host":"h","result":{"tx":"t","confirmed":true,"x":1},"warnings":[]}`),
		"a null list": validate("mpps.confirm.1",
			`{"schema":"mpps.confirm/1","mpps":"0","host":"h","result":{"tx":"t","confirmed":true},"warnings":null}`),
		"another schema": validate("mpps.confirm.1",
			`{"schema":"mpps.audit/1","mpps":"0","host":"h","result":{"tx":"t","confirmed":true},"warnings":[]}`),
		"a wide line":         wide("12345\n", 4),
		"a colour":            wide("\x1b[1mx\x1b[0m", 80),
		"no hint":             complains("mpps: error: x\n"),
		"an error of 3 lines": complains("mpps: error: x\n  y\nhint: z\n"),
	} {
		must.Refuse(t, err, "%s is not noticed", name)
	}
	must.Try(t, validate("mpps.confirm.1",
		`{"schema":"mpps.confirm/1","mpps":"0","host":"h","result":{"tx":"t","confirmed":true},"warnings":[]}`))
}

var anyMAC = regexp.MustCompile(`\b[0-9a-f]{2}(:[0-9a-f]{2}){5}\b`)

// scramble writes a snapshot N times under other names of host, NICs, bridges, taps and guests, and with other MAC
// addresses: "scramble FILE DIR N" makes DIR/kvm-0.json and so on.
func scramble(ts *testscript.TestScript, args []string) {
	h, err := ops.ReadSnapshot(ts.MkAbs(args[0]))
	ts.Check(err)
	for i := range number(ts, args[2]) {
		name := fmt.Sprintf("kvm-%d", i)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), name+".json"), scrambled(ts, h, name, i), 0o644))
	}
}

func scrambled(ts *testscript.TestScript, h *facts.Host, name string, i int) []byte {
	var text bytes.Buffer
	ts.Check(facts.Write(&text, h, version))
	names := []string{h.Name, name}
	for j, n := range h.NICs {
		names = append(names, n.Name, fmt.Sprintf("ens%dp%d", i+1, j))
	}
	for j, b := range h.Bridges {
		names = append(names, b.Name, fmt.Sprintf("brq%d%d", i, j))
	}
	for j, t := range h.Taps {
		names = append(names, t.Name, fmt.Sprintf("tap%dx%d", i, j))
	}
	for j, g := range h.Guests {
		names = append(names, g.Name, fmt.Sprintf("tenant%d-%d", i, j))
	}
	var pairs []string
	for j := 0; j < len(names); j += 2 {
		for _, around := range []string{`""`, "//", `"/`, `/"`, ":/", "''", "><", `."`, ".."} {
			begin, end := around[:1], around[1:]
			pairs = append(pairs, begin+names[j]+end, begin+names[j+1]+end)
		}
	}
	scrambled := strings.NewReplacer(pairs...).Replace(text.String())
	return anyMAC.ReplaceAllFunc([]byte(scrambled), func(mac []byte) []byte {
		return fmt.Appendf(nil, "%s%02x%s", mac[:9], i, mac[11:])
	})
}

// exceeded is the exit code of measured where the program took more than it may.
const exceeded = 99

// measured is a program for scripts: "measured MIB SECONDS PROGRAM ARGS…" runs a program, passes its exit code on, and
// exits with 99 where it took more memory or CPU time. It is a separate program because a process's peak is never less
// than what its parent had when it started it (fs/exec.c, exec_mmap), and the tests' process is large.
func measured() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: measured MIB SECONDS PROGRAM ARGS…")
		os.Exit(exceeded)
	}
	mib, errMiB := strconv.ParseInt(os.Args[1], 10, 64)
	seconds, errSeconds := strconv.ParseFloat(os.Args[2], 64)
	if err := errors.Join(errMiB, errSeconds); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exceeded)
	}
	cmd := exec.Command(os.Args[3], os.Args[4:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exceeded)
	}
	state := cmd.ProcessState
	used := state.SysUsage().(*syscall.Rusage).Maxrss >> 10
	took := state.UserTime() + state.SystemTime()
	if used > mib || took > time.Duration(seconds*float64(time.Second)) {
		fmt.Fprintf(os.Stderr, "took %d MiB and %v of CPU time, allowed are %d MiB and %v s\n", used, took, mib,
			seconds)
		os.Exit(exceeded)
	}
	os.Exit(state.ExitCode())
}

// sparse makes a file of zeros that takes no room on the disk, behind a text: "sparse FILE GIGABYTES [TEXT]".
func sparse(ts *testscript.TestScript, args []string) {
	text := strings.Join(args[2:], "")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
	ts.Check(os.Truncate(ts.MkAbs(args[0]), int64(number(ts, args[1]))<<30))
}

// nested writes a text N times between two others: "nested FILE BEFORE TEXT N AFTER".
func nested(ts *testscript.TestScript, args []string) {
	var text bytes.Buffer
	text.WriteString(args[1])
	for range number(ts, args[3]) {
		text.WriteString(args[2])
	}
	text.WriteString(args[4])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o644))
}
