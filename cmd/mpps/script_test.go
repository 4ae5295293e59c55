package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mpps/internal/lab/command"
)

func TestMain(m *testing.M) {
	// Under nohup all that the tests start would ignore hang-ups too. A signal that is listened to is the default again
	// in what is started (execve(2)); mpps itself, which is this binary under another name, does as it was told.
	if filepath.Ext(os.Args[0]) == ".test" && signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Main(m, map[string]func(){
		"pathof":   pathOf,
		"mpps":     main,
		"mpps-lab": func() { os.Exit(command.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"measured": measured,

		"panicking":  panicking,
		"smallshell": smallShell,
	})
}

// TestScripts runs the cases of testdata/script: one file a command, its input files inline.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds:                scriptCommands(),
		Condition:           isRoot,
		Setup: func(env *testscript.Env) error {
			if corpus := os.Getenv("MPPS_CORPUS"); corpus != "" {
				env.Setenv("MPPS_CORPUS", corpus)
			}
			return nil
		},
	})
}

// scriptCommands returns the commands of scripts by name. The table has them as they are used: words in brackets may be
// left out, and … stands for more of the same. Only jsonvalid and within can be negated.
func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	all := map[string]func(*testscript.TestScript, bool, []string){"jsonvalid": validJSON, "within": within}
	for use, command := range map[string]func(*testscript.TestScript, []string){
		"eventually CODE PROGRAM [ARGS…]":             eventually,
		"exits CODE PROGRAM [ARGS…]":                  exits,
		"makeplan ROOT FILE ADDRESS=VALUE[@RISK]…":    makePlan(false),
		"makelasting ROOT FILE ADDRESS=VALUE[@RISK]…": makePlan(true),
		"appendline FILE LINE":                        appendLine,
		"manyvalues ROOT FILE N":                      manyValues,
		"allvalues ROOT N TEXT":                       allValues,
		"hangup ROOT":                                 hangUp,
		"holdlock ROOT":                               holdLock,
		"cutjournal ROOT TEXT":                        cutJournal,
		"damage ROOT":                                 damage,
		"transaction ROOT N":                          transaction,
		"refuses ROOT ERROR HINT":                     refuses,
		"samplejournal NAME ROOT":                     sampleJournal,
		"tree NAME DIR":                               recordedTree,
		"bigsnapshot FILE":                            bigSnapshot,
		"columns N FILE":                              columns,
		"complaint":                                   complaint,
		"scramble FILE DIR N":                         scramble,
		"sparse FILE GIGABYTES [TEXT]":                sparse,
		"nested FILE BEFORE TEXT N AFTER":             nested,
		"unprivileged CODE PROGRAM [ARGS…]":           unprivileged,
	} {
		words := strings.Fields(use)
		least, most := len(words)-1, len(words)-1
		if strings.HasPrefix(words[most], "[") {
			least--
		}
		if strings.Contains(words[most], "…") {
			most = math.MaxInt
		}
		all[words[0]] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < least || len(args) > most {
				ts.Fatalf("usage: %s", use)
			}
			command(ts, args)
		}
	}
	return all
}

// run runs one command in this process and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr}).run(args)
}

// exits runs a program and checks its exit code: "exits 64 mpps audit --pps nonsense". Standard output and error are
// kept for the commands stdout and stderr.
func exits(ts *testscript.TestScript, args []string) {
	if have, want := exitCode(ts, args[1:]), number(ts, args[0]); have != want {
		ts.Fatalf("exit code %d, expected %d", have, want)
	}
}

// eventually runs a program again and again, for 20 s, until it exits so, five times in a row: a process that puts
// things back may be about to begin. "eventually CODE PROGRAM ARGS…".
func eventually(ts *testscript.TestScript, args []string) {
	want, end := number(ts, args[0]), time.Now().Add(20*time.Second)
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

// nobody is the user that owns nothing.
const nobody = 65534

// unprivileged runs a program as a user without any rights and checks its exit code: "unprivileged 0 mpps inspect".
// Tests that are not run as root run it as they are.
func unprivileged(ts *testscript.TestScript, args []string) {
	program, err := lookPath(ts.Getenv("PATH"), args[1])
	ts.Check(err)
	cmd := exec.Command(program, args[2:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), ts.Stdout(), ts.Stderr()
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=/no-home"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		ts.Check(passable(program))
		ts.Check(passable(ts.MkAbs(".")))
	}
	var failed *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &failed) {
		ts.Fatalf("%v", err)
	}
	if have, want := cmd.ProcessState.ExitCode(), number(ts, args[0]); have != want {
		ts.Fatalf("exit code %d, expected %d", have, want)
	}
}

func lookPath(path, name string) (string, error) {
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); err == nil && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("no program %s", name)
}

// passable opens the directories of the tests that lead to a file to everybody: they are made for root alone.
func passable(file string) error {
	for at := file; strings.HasPrefix(at, os.TempDir()+"/"); at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		if err := os.Chmod(at, info.Mode().Perm()|0o055&^fs.FileMode(0o022)); err != nil {
			return err
		}
	}
	return nil
}
