package lab

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestParseAnswer(t *testing.T) {
	for _, c := range []struct {
		line, want string
		ok         bool
	}{
		{"@@ 7-a rc 0\n", "0", true},
		{"@@ 7-a rc 0\r\n", "0", true},
		{"@@ 7-a rc\n", "", true},
		{"@@ 7-b rc 0\n", "", false},
		{"@@ 7-a pid 12\n", "", false},
		{"x @@ 7-a rc 0\n", "", false},
		{"\n", "", false},
	} {
		if v, ok := parseAnswer(c.line, "7-a", "rc"); v != c.want || ok != c.ok {
			t.Errorf("%q: found %q, %v", c.line, v, ok)
		}
	}
}

func TestQuoteSurvivesAShell(t *testing.T) {
	argv := []string{"a b", "", "'", `"$HOME" \`, "*", "line\nbreak", "-n", "ü"}
	out := must.Get(exec.Command("sh", "-c", "for a in "+quote(argv)+`; do printf '%s\0' "$a"; done`).Output())(t)
	must.NoDiff(t, cmp.Diff(argv, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")), "difference")
}

func TestStage(t *testing.T) {
	for _, c := range []Cmd{{}, {Argv: []string{"x"}, Script: "y"}} {
		must.Refuse(t, stageCommand(filepath.Join(t.TempDir(), "d"), c), "%+v: was accepted", c)
	}
}
