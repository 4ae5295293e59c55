package accept

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mpps/internal/measure/acceptance"
	"mpps/internal/must"
	"mpps/internal/ops"
)

// TestResumeOfOthers: a report from somebody else names neither the commands that a resumed run makes nor the folder of
// its files, and what it calls a transaction is not taken for an option.
func TestResumeOfOthers(t *testing.T) {
	modes := acceptance.Find("modes")
	for name, c := range map[string]struct {
		change func(r *acceptance.Run, elsewhere string)
		runs   bool
	}{
		"commands":         {func(*acceptance.Run, string) {}, true},
		"further commands": {func(r *acceptance.Run, _ string) { r.Steps[0].ID = "first" }, false},
		"a folder":         {func(r *acceptance.Run, elsewhere string) { r.Inputs.Dir = filepath.Join(elsewhere, "x") }, false},
	} {
		dir := t.TempDir()
		r := modes.Begin(acceptance.Inputs{Dir: filepath.Join(dir, "modes-1")}, time.Unix(0, 0))
		r.Machine = &acceptance.Machine{}
		planted := []string{"search", "--trial-command", "touch /planted"}
		for i := range r.Steps {
			r.Steps[i].Argv, r.Steps[i].Beside = planted, planted
		}
		c.change(r, t.TempDir())
		p := &Report{&acceptance.Report{Schema: acceptance.Schema, Machine: r.Machine, Runs: []*acceptance.Run{r}}, dir}
		var ran [][]string
		x := &Runner{Env: &ops.Env{Root: t.TempDir(), Out: ops.Deaf{}}, Report: p,
			Execute: func(_ context.Context, argv []string, _ func()) (Answer, error) {
				ran = append(ran, argv)
				return Answer{}, errors.New("refused")
			}}
		_, err := x.Run(t.Context(), []*acceptance.Experiment{modes}, acceptance.Inputs{}, true)
		must.Hold(t, (len(ran) > 0) == c.runs && (err == nil) == c.runs, "%s: %v, ran %q", name, err, ran)
		for _, argv := range ran {
			must.Hold(t, !slices.Equal(argv, planted), "%s: ran %q", name, argv)
		}
	}
	var ran []string
	x := &Runner{Execute: func(_ context.Context, argv []string, _ func()) (Answer, error) {
		ran = argv
		return Answer{}, errors.New("refused")
	}}
	r := &acceptance.Run{Standing: []string{"--root=/elsewhere"}}
	must.Refuse(t, x.undo(t.Context(), r, &acceptance.StepDone{}), "a refused rollback")
	must.Hold(t, slices.Equal(ran, []string{"rollback", "--", "--root=/elsewhere"}), "ran %q", ran)
}
