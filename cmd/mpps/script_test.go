package main

import (
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

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

// TestScripts runs the cases of testdata/script: one file a command, its input files inline. "exitcode N" checks the
// exit code of the command before it.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"eventually":    eventually,
			"exits":         exits,
			"makeplan":      makePlan,
			"makelasting":   makeLasting,
			"appendline":    appendLine,
			"manyvalues":    manyValues,
			"allvalues":     allValues,
			"hangup":        hangUp,
			"holdlock":      holdLock,
			"cutjournal":    cutJournal,
			"damage":        damage,
			"transaction":   transaction,
			"within":        within,
			"refuses":       refuses,
			"samplejournal": sampleJournal,
			"tree":          recordedTree,
			"bigsnapshot":   bigSnapshot,
			"jsonvalid":     validJSON,
			"columns":       columns,
			"complaint":     complaint,
			"scramble":      scramble,
			"sparse":        sparse,
			"nested":        nested,
			"unprivileged":  unprivileged,
		},
		Condition: isRoot,
		Setup: func(env *testscript.Env) error {
			if corpus := os.Getenv("MPPS_CORPUS"); corpus != "" {
				env.Setenv("MPPS_CORPUS", corpus)
			}
			return nil
		},
	})
}

// run runs one command in this process and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return (&app{stdin: stdin, stdout: stdout, stderr: stderr}).run(args)
}
