package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"mpps/internal/change/journal"
	"mpps/internal/outcome"
)

// refuses checks that every command that writes, and those that tell how the host stands, refuse the journal of a
// scratch tree with an error and a hint, and write nothing: "refuses ROOT ERROR HINT". The plan is more.json.
func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: refuses ROOT ERROR HINT")
	}
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
func sampleJournal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: samplejournal NAME ROOT")
	}
	text, err := os.ReadFile(filepath.Join("../../internal/change/journal/testdata", args[0]+".jsonl"))
	ts.Check(err)
	t, err := journal.Parse(text)
	ts.Check(err)
	into := filepath.Join(ts.MkAbs(args[1]), journal.Path)
	ts.Check(os.MkdirAll(into, 0o755))
	ts.Check(os.WriteFile(filepath.Join(into, t.Header.TX+".jsonl"), text, 0o644))
}
