//go:build netns

package planted

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestPlanted plants bottlenecks and has mpps diagnose find them: those that MPPS_PLANTED_ONLY names, else the short
// ones. It prints the table; MPPS_PLANTED_TABLE is a file for it, MPPS_PLANTED_RECORD a directory for the loads.
func TestPlanted(t *testing.T) {
	o := Options{Mpps: program(t), Record: os.Getenv("MPPS_PLANTED_RECORD"),
		Args: strings.Fields(os.Getenv("MPPS_PLANTED_ARGS"))}
	if text := os.Getenv("MPPS_PLANTED_SCALE"); text != "" {
		var err error
		if o.Scale, err = strconv.ParseFloat(text, 64); err != nil || o.Scale <= 0 || o.Scale > 10 {
			t.Fatalf("MPPS_PLANTED_SCALE is %q, expected a factor from 0 to 10", text)
		}
	}
	rounds := 1
	if text := os.Getenv("MPPS_PLANTED_ROUNDS"); text != "" {
		var err error
		if rounds, err = strconv.Atoi(text); err != nil || rounds < 1 || rounds > 1000 {
			t.Fatalf("MPPS_PLANTED_ROUNDS is %q, expected 1 to 1000", text)
		}
	}
	var all []Outcome
	for _, s := range slices.Repeat(chosen(scenarios(t)), rounds) {
		t.Run(s.Name, func(t *testing.T) {
			play := func() Outcome { return Play(t.Context(), s, o) }
			outs := []Outcome{}
			if rounds > 1 { // each counts
				outs = append(outs, play())
			} else {
				outs = PlayTwice(play)
			}
			all = append(all, outs...)
			for _, out := range outs {
				table, _, _ := Table([]Outcome{out})
				t.Log(strings.Split(table, "\n")[2])
				if out.Found != nil {
					t.Log(out.Found.Why)
				}
			}
			out := outs[len(outs)-1]
			if out.Right() && s.KnownWrong != "" {
				t.Errorf("right now: take its known_wrong away (%s)", s.KnownWrong)
			}
			must.Try(t, out.Error)
			if out.LeftOut != "" {
				t.Skip(out.LeftOut)
			}
		})
	}
	table, right, ran := Table(all)
	t.Logf("%d of %d right\n%s", right, ran, table)
	if file := os.Getenv("MPPS_PLANTED_TABLE"); file != "" {
		must.Try(t, os.WriteFile(file, []byte(table), 0o644))
	}
	if ran == 0 && !slices.ContainsFunc(all, func(o Outcome) bool {
		return o.Wrong != "" && o.Scenario.KnownWrong != ""
	}) || float64(right) < 0.95*float64(ran) {
		t.Errorf("%d of %d right, expected 95 %%", right, ran)
	}
}

// program is the mpps that is judged: MPPS_BIN, or one built from this tree.
func program(t *testing.T) string {
	t.Helper()
	if file := os.Getenv("MPPS_BIN"); file != "" {
		return file
	}
	file := filepath.Join(t.TempDir(), "mpps")
	build := exec.Command("go", "build", "-o", file, "mpps/cmd/mpps")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return file
}
