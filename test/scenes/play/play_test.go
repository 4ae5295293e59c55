package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/must"
	"mpps/test/scenes"
)

// said is what go test -json prints of a test's end.
func said(w io.Writer, action, test string) {
	fmt.Fprintf(w, "{\"Action\":\"output\",\"Test\":%q,\"Output\":\"output of "+
		"%s\\n\"}\n{\"Action\":%q,\"Test\":%q,\"Elapsed\":1.5}\n", test, test, action, test)
}

// TestPlay: what passes, fails, is cut off at the end of the time, and what is not begun, for it would not fit.
func TestPlay(t *testing.T) {
	for _, c := range []struct {
		name     string
		left     time.Duration
		run      func(ctx context.Context, s scenes.Set, w io.Writer) error
		ok       bool
		has, not []string
	}{
		{"pass", time.Hour, func(_ context.Context, s scenes.Set, w io.Writer) error {
			for _, test := range s.Tests {
				said(w, "pass", test)
			}
			return nil
		}, true, []string{"pass\ttest/a TestA\t1.5s", "ok  \tmpps/test/c"}, []string{"not played", "output of"}},
		{"a second try passes", time.Hour, func(_ context.Context, s scenes.Set, w io.Writer) error {
			for _, test := range s.Tests {
				said(w, "fail", test)
				said(w, "pass", test)
			}
			return nil
		}, true, []string{"pass\ttest/a TestA"}, []string{"FAIL", "not played"}},
		{"fail", time.Hour, func(_ context.Context, s scenes.Set, w io.Writer) error {
			said(w, "fail", s.Tests[0])
			return errors.New("exit status 1")
		}, false, []string{"fail\ttest/a TestA", "output of TestA", "FAIL\tmpps/test/a", "not played: test/a TestB"},
			nil},
		{"does not compile", time.Hour, func(_ context.Context, s scenes.Set, w io.Writer) error {
			fmt.Fprintln(w, "a_test.go:1: syntax error")
			return errors.New("exit status 1")
		}, false, []string{"syntax error", "not played: test/a TestA"}, nil},
		{"a scene is gone and nobody tells", time.Hour,
			func(context.Context, scenes.Set, io.Writer) error { return nil }, false,
			[]string{"not played: test/a TestA"}, nil},
		{"cut off", 250 * time.Second, func(ctx context.Context, s scenes.Set, w io.Writer) error {
			said(w, "pass", s.Tests[0])
			<-ctx.Done()
			return errors.New("signal: terminated")
		}, true, []string{"pass\ttest/a TestA", "not played: test/a TestB: cut off", "pass\ttest/c TestC",
			"not played: test/d TestD: takes 400 s, 0 s are left"}, []string{"FAIL", "nothing"}},
		{"one after another", 450 * time.Second, func(_ context.Context, s scenes.Set, w io.Writer) error {
			time.Sleep(time.Duration(s.Seconds) * time.Second)
			for _, test := range s.Tests {
				said(w, "pass", test)
			}
			return nil
		}, true, []string{"pass\ttest/a TestA", "not played: test/d TestD: takes 400 s, 250 s are left"}, nil},
		{"failed, then cut off", 250 * time.Second, func(ctx context.Context, s scenes.Set, w io.Writer) error {
			said(w, "fail", s.Tests[0])
			<-ctx.Done()
			return errors.New("signal: terminated")
		}, false, []string{"FAIL\tmpps/test/a"}, nil},
		{"no time at all", -time.Second,
			func(ctx context.Context, _ scenes.Set, _ io.Writer) error { return ctx.Err() }, false,
			[]string{"not played: test/a TestA: cut off", "not played: test/d TestD: takes 400 s, 0 s are left",
				"nothing was played"}, []string{"ok"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := player{until: time.Now().Add(c.left), run: c.run, out: &out}
				ok := p.play(t.Context(), []scenes.Set{
					{Package: "test/a", Tests: []string{"TestA", "TestB"}, Seconds: 200},
					{Package: "test/c", Tests: []string{"TestC"}, Seconds: 300},
					{Package: "test/d", Tests: []string{"TestD"}, Seconds: 400},
				})
				must.Equal(t, ok, c.ok, "ok")
				must.Contain(t, out.String(), c.has...)
				must.Lack(t, out.String(), c.not...)
			})
		})
	}
}

// TestVisitsPlayEverything: with 2000 s left each visit of a turn plays all its scenes, with 1400 s any two successive
// ones do, and twelve where all takes half as long again as scenes.txt says.
func TestVisitsPlayEverything(t *testing.T) {
	all := must.Get(scenes.All("../../.."))(t)
	for _, c := range []struct {
		left   time.Duration
		slower float64
		visits int
	}{{2000 * time.Second, 1, 1}, {1400 * time.Second, 1, 2}, {1400 * time.Second, 1.5, 12}} {
		seconds := map[string]float64{}
		for _, s := range all {
			seconds[s.Package+" "+s.Test] = c.slower * s.Seconds
		}
		for turn := range scenes.Turns {
			var played []map[string]bool
			for visit := range 36 {
				played = append(played, simulated(t, scenes.Turn(all, turn, visit), seconds, c.left))
			}
			for from := range len(played) - c.visits {
				for _, s := range all {
					must.Hold(t, !s.In(turn) || slices.ContainsFunc(played[from:from+c.visits],
						func(p map[string]bool) bool { return p[s.Package+" "+s.Test] }),
						"%v left, %g times as slow: %s is not among what the visits %d to %d of turn %d play", c.left,
						c.slower, s.Test, from, from+c.visits-1, turn)
				}
			}
		}
	}
}

// simulated returns the scenes that are played to their end within a time, of which each takes so many seconds.
func simulated(t *testing.T, sets []scenes.Set, seconds map[string]float64, left time.Duration) map[string]bool {
	t.Helper()
	var mu sync.Mutex
	played := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		p := player{until: time.Now().Add(left), out: io.Discard, run: func(ctx context.Context, s scenes.Set,
			w io.Writer) error {
			for _, test := range s.Tests {
				name := s.Package + " " + test
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-time.After(time.Duration(seconds[name] * float64(time.Second))):
				}
				said(w, "pass", test)
				mu.Lock()
				played[name] = true
				mu.Unlock()
			}
			return nil
		}}
		p.play(t.Context(), sets)
	})
	return played
}

// TestPlayIsEnded: a signal ends the turn, and that is a failure.
func TestPlayIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := player{out: io.Discard, run: func(context.Context, scenes.Set, io.Writer) error { cancel(); return errors.New("signal: terminated") }}
	must.Hold(t, !p.play(ctx, []scenes.Set{{Package: "test/a", Tests: []string{"TestA"}}}),
		"a turn that was ended is called a success")
}

func TestSummary(t *testing.T) {
	dir := t.TempDir()
	unit, labs, stats := filepath.Join(dir, "unit.log"), filepath.Join(dir, "lab.log"), filepath.Join(dir, "hosts")
	for name, text := range map[string]string{
		unit: "ok  \tmpps/a\t1.5s\nok  \tmpps/b\t(cached)\n?   \tmpps/c\t[no test files]\n    ok  " +
			"\tmpps/quoted\t9.0s\n",
		labs: "--- FAIL: TestD\nFAIL\nFAIL\tmpps/d\t20.0s\n",
		stats: `{"event":"boot","seconds":5}` + "\n" + `{"event":"restore","seconds":0.6}` + "\n" +
			`{"event":"restore","seconds":2.4}` + "\n" +
			`{"event":"death","cause":"Kernel panic\nand more"}` + "\n" + `{"event":"retry","cause":"hung"}` + "\n",
	} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	var out bytes.Buffer
	must.Do(t, summarise(&out, []string{unit, filepath.Join(dir, "netns.log"), labs}, stats))
	want := `    20.0 s  lab    mpps/d  FAIL
     1.5 s  unit   mpps/a
emulated hosts: 1 boots (5 s), 2 restores (3 s, the slowest 2.4 s), 1 deaths, 1 retries
  death: Kernel panic
  retry: hung
`
	must.Equal(t, out.String(), want, "output")
	must.Try(t, summarise(io.Discard, nil, filepath.Join(dir, "none")))
}

func TestOrder(t *testing.T) {
	var out bytes.Buffer
	must.Do(t, inOrder(&out, []string{"./test/nobody", "./test/catalogue", "./test/e2e"}))
	must.Equal(t, out.String(), "./test/e2e\n./test/catalogue\n./test/nobody\n", "packages")
}
