package ops

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// recorded is the tree of a recorded host with two nodes.
func recorded(t *testing.T) *Env {
	t.Helper()
	root := t.TempDir()
	must.Do(t, golden.Tree("../../cmd/mpps/testdata/trees/two-nodes.txtar", root))
	return &Env{Root: root, Version: "test", Out: Deaf{}}
}

// TestGather: the machine and a snapshot of it are the same host; only the machine can be changed.
func TestGather(t *testing.T) {
	t.Parallel()
	env := recorded(t)
	h := must.Get(env.Gather(t.Context(), Look{Guest: NoGuest}))(t)
	defer h.Close()
	must.Hold(t, len(h.Facts.Readings) != 0 && h.Mechanisms != nil && h.Machine != nil,
		"%d readings, mechanisms %v", len(h.Facts.Readings), h.Mechanisms != nil)
	file := filepath.Join(t.TempDir(), "host.json")
	f := must.Get(os.Create(file))(t)
	must.Do(t, facts.Write(f, h.Facts, env.Version))
	must.Do(t, f.Close())
	s := must.Get(env.Gather(t.Context(), Look{Snapshot: file}))(t)
	must.Hold(t, s.Facts.Name == h.Facts.Name && len(s.Facts.Readings) == len(h.Facts.Readings) &&
		s.Mechanisms == nil && s.Site == nil,
		"snapshot: %s with %d readings, mechanisms %v", s.Facts.Name, len(s.Facts.Readings), s.Mechanisms != nil)
	must.Try(t, s.Close())
}

// TestGatherRefuses: what cannot be looked at ends with the exit code and the hint that say why.
func TestGatherRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for what, test := range map[string]struct {
		root string
		look Look
		code int
		hint string
	}{
		"no root":           {filepath.Join(dir, "none"), Look{}, outcome.CodeFailed, "--root takes"},
		"no snapshot":       {dir, Look{Snapshot: filepath.Join(dir, "none.json")}, outcome.CodeFailed, "make one"},
		"negative interval": {dir, Look{Interval: -time.Second}, outcome.CodeUsage, "leave it out"},
		"watched snapshot":  {dir, Look{Snapshot: "a.json", Interval: time.Second}, outcome.CodeUsage, "one of the two"},
	} {
		_, err := (&Env{Root: test.root, Out: Deaf{}}).Gather(t.Context(), test.look)
		if code, hint := outcome.Of(err); err == nil || code != test.code || !strings.Contains(hint, test.hint) {
			t.Errorf("%s: %v, code %d, hint %q", what, err, code, hint)
		}
	}
}

// TestHas: goals that a host cannot have are refused, with what it has.
func TestHas(t *testing.T) {
	t.Parallel()
	h := &facts.Host{Guests: []facts.Guest{{Name: "web1"}}}
	h.Topology.CPUs = []facts.CPU{{ID: 0}, {ID: 1}}
	for _, test := range []struct {
		host *facts.Host
		goal goal.Goal
		hint string
	}{
		{h, goal.Goal{}, ""},
		{h, goal.Goal{Guest: "web1", CPUs: setting.CPUs(1)}, ""},
		{h, goal.Goal{Guest: "web2"}, "web1"},
		{h, goal.Goal{CPUs: setting.CPUs(1, 2)}, "0-1"},
		{&facts.Host{}, goal.Goal{}, "--root"},
	} {
		err := CheckGoal(test.host, test.goal)
		if _, hint := outcome.Of(err); (err != nil) != (test.hint != "") || !strings.Contains(hint, test.hint) {
			t.Errorf("%+v: %v, hint %q, expected %q", test.goal, err, hint, test.hint)
		}
	}
}

// TestCaveats come in the order unseen, near the limit, not root.
func TestCaveats(t *testing.T) {
	t.Parallel()
	var codes []string
	for _, w := range Caveats(&facts.Host{Unseen: []facts.Unseen{{What: "a", Why: "b"}}},
		goal.Goal{PPS: 2.9e6, Frame: 64}) {
		codes = append(codes, w.Code)
	}
	if got := strings.Join(codes, " "); got != "unseen near-limit not-root" {
		t.Errorf("found %q", got)
	}
}

// TestAttest: what is said is listed afterwards, with what was said before, and can be taken back.
func TestAttest(t *testing.T) {
	t.Parallel()
	env := recorded(t)
	const id = "firmware.smt"
	for _, said := range []struct{ value, before string }{{"enabled", ""}, {"disabled", "enabled"}, {"", "disabled"}} {
		what := id + "=" + said.value
		if said.value == "" {
			what = id
		}
		a := must.Get(env.Attest([]string{what}, "Erika", said.value == ""))(t)
		if row := a.Attested[0]; row.Value != said.value || row.Before != said.before || row.By != "Erika" {
			t.Errorf("%+v: found %+v", said, row)
		}
		all := must.Get(env.Attestations())(t)
		for _, row := range all.Attested {
			if row.ID == id && row.Value != said.value {
				t.Errorf("listed %+v, expected %q", row, said.value)
			}
		}
	}
}

// TestAttestRefuses: what cannot be said, or was said by nobody, is not recorded.
func TestAttestRefuses(t *testing.T) {
	t.Parallel()
	env := &Env{Root: t.TempDir(), Out: Deaf{}}
	for _, test := range []struct {
		given  []string
		by     string
		forget bool
		want   string
	}{
		{[]string{"firmware.smtt=disabled"}, "Erika", false, "cannot be attested"},
		{[]string{"firmware.smt"}, "Erika", false, "expected ID=VALUE"},
		{[]string{"firmware.smt=disabled"}, "Erika", true, "expected an ID alone"},
		{[]string{"firmware.smt=maybe"}, "Erika", false, "expected one of disabled, enabled"},
		{[]string{"firmware.smt=disabled", "firmware.smt=enabled"}, "Erika", false, "twice"},
		{[]string{"firmware.smt=disabled"}, "E\x00", false, "--by NAME"},
	} {
		_, err := env.Attest(test.given, test.by, test.forget)
		if code, _ := outcome.Of(err); err == nil || code != outcome.CodeUsage ||
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, expected %q", test.given, err, test.want)
		}
	}
}

// said keeps what is said.
type said struct {
	Listener
	lines []string
}

func (s *said) Progress(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// TestCountdown: each second what is under way, how far it is and how long it takes, and nothing once it is over.
func TestCountdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		heard := &said{}
		done := (&Env{Out: heard}).Countdown("watching", 5*time.Second)
		time.Sleep(2500 * time.Millisecond)
		done()
		time.Sleep(5 * time.Second)
		want := []string{"watching for 5s", "watching: 1s of 5s", "watching: 2s of 5s"}
		must.Hold(t, slices.Equal(heard.lines, want), "said %q, expected %q", heard.lines, want)
		must.Equal(t, Elapsed(41500*time.Millisecond, 10*time.Second), "10s, begun 41s ago", "its beginning took time")
	})
}
