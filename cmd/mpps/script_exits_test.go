package main

import (
	"errors"
	"os/exec"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// exits runs a program and checks its exit code: "exits 64 mpps audit --pps nonsense". Standard output and error are
// kept for the commands stdout and stderr.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	have := 0
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		have = failed.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if have != want {
		ts.Fatalf("exit code %d, expected %d", have, want)
	}
}
