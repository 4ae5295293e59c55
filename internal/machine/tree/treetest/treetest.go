// Package treetest makes recorded trees for tests.
package treetest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mpps/internal/machine/tree"
	"mpps/internal/must"
)

// Recorded writes files and opens them as a recorded machine. A text "-> target" makes a symbolic link, a name that
// ends in a slash a directory.
func Recorded(tb testing.TB, files map[string]string) *tree.Tree {
	tb.Helper()
	root := tb.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		must.Do(tb, os.MkdirAll(filepath.Dir(file), 0o755))
		target, isLink := strings.CutPrefix(text, "-> ")
		var err error
		switch {
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(file, 0o755)
		case isLink:
			err = os.Symlink(target, file)
		default:
			err = os.WriteFile(file, []byte(text), 0o644)
		}
		must.Do(tb, err)
	}
	return open(tb, root)
}

// Lines is Recorded for files of one line each, given without the newline.
func Lines(tb testing.TB, files map[string]string) *tree.Tree {
	tb.Helper()
	ended := make(map[string]string, len(files))
	for name, text := range files {
		ended[name] = text + "\n"
	}
	return Recorded(tb, ended)
}

// Live opens the machine that the test runs on.
func Live(tb testing.TB) *tree.Tree {
	tb.Helper()
	return open(tb, "/")
}

func open(tb testing.TB, root string) *tree.Tree {
	tb.Helper()
	t := must.Get(tree.Open(root))(tb)
	tb.Cleanup(func() { t.Close() })
	return t
}

// Program writes a shell script and returns its path.
func Program(tb testing.TB, lines string) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "program")
	// Without the lock a program that another test forks now holds the file open for writing: "text file busy".
	syscall.ForkLock.RLock()
	err := os.WriteFile(name, []byte("#!/bin/sh\n"+lines+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	must.Do(tb, err)
	return name
}

// Corpus returns the folder of a part of the recorded machines: of the full collection if it is there, else of
// testdata.
func Corpus(tb testing.TB, part string) string {
	tb.Helper()
	folder := os.Getenv("MPPS_CORPUS")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared", "corpus")
	}
	if _, err := os.Stat(filepath.Join(folder, part)); err == nil {
		return filepath.Join(folder, part)
	}
	sample := filepath.Join("testdata", part)
	if _, err := os.Stat(sample); err != nil {
		tb.Skipf("recorded machines are not here (set MPPS_CORPUS): %v", err)
	}
	return sample
}
