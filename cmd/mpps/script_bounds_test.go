package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// exceeded is the exit code of measured where the program took more than it may.
const exceeded = 99

// measured is a program for scripts: "measured MIB SECONDS PROGRAM ARGS…" runs a program, passes its exit code on, and
// exits with 99 where it took more memory or CPU time. It is a program of its own because a process's maximum is never
// less than what its parent had when it started it (fs/exec.c, exec_mmap), and the tests' process is large.
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
func sparse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: sparse FILE GIGABYTES [TEXT]")
	}
	text := strings.Join(args[2:], "")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o644))
	ts.Check(os.Truncate(ts.MkAbs(args[0]), int64(number(ts, args[1]))<<30))
}

// nested writes a text N times between two others: "nested FILE BEFORE TEXT N AFTER".
func nested(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: nested FILE BEFORE TEXT N AFTER")
	}
	var text bytes.Buffer
	text.WriteString(args[1])
	for range number(ts, args[3]) {
		text.WriteString(args[2])
	}
	text.WriteString(args[4])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text.Bytes(), 0o644))
}
