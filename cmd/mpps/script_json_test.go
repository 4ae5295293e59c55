package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/testscript"

	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// recordedTree unpacks a recorded machine of testdata/trees: "tree NAME DIR".
func recordedTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: tree NAME DIR")
	}
	ts.Check(golden.Tree("testdata/trees/"+args[0]+".txtar", ts.MkAbs(args[1])))
}

// bigSnapshot writes a snapshot of the size that speed is measured with: "bigsnapshot FILE".
func bigSnapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bigsnapshot FILE")
	}
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
func columns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: columns N FILE")
	}
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
func complaint(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: complaint")
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output holds %q", out)
	}
	ts.Check(complains(ts.ReadFile("stderr")))
}

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
		if err == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
	must.Try(t, validate("mpps.confirm.1",
		`{"schema":"mpps.confirm/1","mpps":"0","host":"h","result":{"tx":"t","confirmed":true},"warnings":[]}`))
}
