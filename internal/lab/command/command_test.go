package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/golden"
	"mpps/internal/lab"
	"mpps/internal/measure"
	"mpps/internal/measure/acceptance"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/bench"
)

// valid checks JSON against a shipped schema.
func valid(name, text string) error {
	return golden.Valid(filepath.Join("../../../docs/schemas", name+".json"), text)
}

// TestLabAnswers validates the answers of up and list.
func TestLabAnswers(t *testing.T) {
	for verb, result := range map[string]any{
		"lab-up": Up{Name: "default", Accel: lab.TCG, Share: "/share", Netns: "mpps-default"},
		"lab-list": List{Labs: []lab.Info{
			{Name: "a", Mode: lab.Systemd, Accel: lab.KVM, Running: true, Owner: 1}, {Mode: lab.Shell, Accel: lab.TCG},
		}},
	} {
		var out bytes.Buffer
		p := report.NewPrinter(&out, &out, report.Options{JSON: true})
		must.Do(t, p.Answer(report.Answer{Verb: verb, Result: result}))
		must.Succeed(t, valid("mpps."+verb+".1", out.String()), "%s", verb)
	}
}

// TestListNamesWhatIsLeft: a lab of a process that was killed and folders that nobody uses are named with the command
// that removes them.
func TestListNamesWhatIsLeft(t *testing.T) {
	var out bytes.Buffer
	p := report.NewPrinter(&out, &out, report.Options{})
	err := p.Answer(listed(List{Unused: []string{"/cache/build-1"}, Labs: []lab.Info{
		{Name: "a", Mode: lab.Shell, Accel: lab.TCG, Running: true, Orphaned: true},
		{Name: "b", Mode: lab.Shell, Accel: lab.TCG, Running: true}, {Name: "c", Mode: lab.Shell, Accel: lab.TCG},
	}}))
	want := `a                shell    tcg      its process has ended
b                shell    tcg      running
c                shell    tcg      not running
left by a process that has ended, removed by 'mpps-lab down --name a'
in use by no lab, removed by 'mpps-lab clean':
  /cache/build-1
`
	must.Hold(t, err == nil && out.String() == want, "%v, found\n%s", err, out.String())
}

// TestEmptyDemoFitsItsSchema validates a result of which everything is missing that can be.
func TestEmptyDemoFitsItsSchema(t *testing.T) {
	run := &measure.Run{Schema: measure.Schema, Kind: measure.PPS, LimitedBy: measure.ByUnknown,
		Samples: []measure.Sample{{}}}
	bare := demoSide{LimitedBy: measure.ByUnknown}
	result := Result{Schema: "mpps.demo/2", Before: &bare, After: &bare}
	result.RolledBack = side(bench.Series{Run: run, RR: run})
	text := must.Get(json.Marshal(facts.NonNil(result)))(t)
	must.Try(t, valid("mpps.demo.2", string(text)))
}

// TestPrograms finds mpps by --mpps, MPPS_BIN, or beside the own executable, and its init beside it.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	mpps := filepath.Join(dir, "mpps")
	t.Setenv("MPPS_BIN", "")
	for _, a := range []*app{{}, {mpps: mpps}, {mpps: dir}} { // beside a test's executable there is none
		_, err := a.host()
		if code, hint := outcome.Of(err); code != outcome.CodeNotConfigured || !strings.Contains(hint, "make build") {
			t.Errorf("%q: %v, exit code %d, hint %q", a.mpps, err, code, hint)
		}
	}
	must.Do(t, os.WriteFile(mpps, nil, 0o755))
	must.Say(t, must.Err((&app{mpps: mpps}).programs()), "mpps-guest", "without an init")
	must.Do(t, os.WriteFile(mpps+"-guest", nil, 0o755))
	t.Setenv("MPPS_BIN", mpps)
	if p, err := (&app{}).programs(); err != nil || p.host != mpps || p.init != mpps+"-guest" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestTakeOver adds runs of an emulated host's report to one here, with their files, and marks them as emulated.
func TestTakeOver(t *testing.T) {
	from, dir := t.TempDir(), t.TempDir()
	p := must.Get(accept.Open(dir))(t)
	for n, state := range []acceptance.RunState{acceptance.Done, acceptance.Failed, acceptance.Lacking} {
		in := inputs("modes")
		in.Dir = "/share/acceptance/modes-1"
		r := acceptance.Find("modes").Begin(in, time.Now())
		r.State, r.Machine = state, &acceptance.Machine{CPU: "emulated"}
		must.Do(t, os.MkdirAll(filepath.Join(from, "modes-1"), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(from, "modes-1", "modes.jsonl"), []byte("{}"), 0o644))
		if err := takeOver(p, r, from); err != nil {
			t.Fatalf("%s: %v", state, err)
		}
		again := must.Get(accept.Open(dir))(t)
		last := again.Last("modes")
		must.Hold(t, len(again.Runs) == n+1 && last.State == state && last.Inputs.Lab && again.Machine.Emulated,
			"%s: %d runs, the last %+v", state, len(again.Runs), last)
		_, err := os.Stat(filepath.Join(last.Inputs.Dir, "modes.jsonl"))
		if state != acceptance.Lacking && (err != nil || filepath.Dir(last.Inputs.Dir) != p.Dir) {
			t.Errorf("%s: files in %s: %v", state, last.Inputs.Dir, err)
		}
	}
}
