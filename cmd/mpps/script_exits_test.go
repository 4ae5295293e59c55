package main

import (
	"errors"
	"os/exec"
	"strconv"
	"time"

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
	if have := exitCode(ts, args[1:]); have != want {
		ts.Fatalf("exit code %d, expected %d", have, want)
	}
}

// eventually runs a program again and again, for 20 s, until it exits so, five times in a row: a process that puts
// things back may be about to begin. "eventually CODE PROGRAM ARGS…".
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually CODE PROGRAM ARGS…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	end := time.Now().Add(20 * time.Second)
	for times := 0; times < 5; time.Sleep(50 * time.Millisecond) {
		have := exitCode(ts, args[1:])
		switch times++; {
		case have == want:
			continue
		case time.Now().After(end):
			ts.Fatalf("exit code %d, expected %d", have, want)
		}
		times = 0
	}
}

func exitCode(ts *testscript.TestScript, argv []string) int {
	var failed *exec.ExitError
	switch err := ts.Exec(argv[0], argv[1:]...); {
	case errors.As(err, &failed):
		return failed.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	return 0
}
