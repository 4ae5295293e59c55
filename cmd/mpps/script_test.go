package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"pathof":   pathOf,
		"mpps":     main,
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
