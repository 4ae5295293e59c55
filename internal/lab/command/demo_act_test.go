package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/lab"
	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/report/bench"
)

// fakeStage is a stage without a box; it counts the boxes and reports asked of it.
type fakeStage struct {
	*stage
	terminal, log  bytes.Buffer
	boxes, reports int
	died           error // what the box says of itself
}

func newFakeStage() *fakeStage {
	f := &fakeStage{}
	f.stage = &stage{terminal: &f.terminal, log: &f.log, limit: context.WithTimeout,
		reopen:     func(context.Context, string) error { f.boxes++; return nil },
		after:      func() error { f.reports++; return nil },
		checkAlive: func(context.Context) error { return f.died }}
	return f
}

// TestDemoBeats runs an act of a minute that prints nothing on the terminal: a line appears at least every 20 s.
func TestDemoBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStage()
		must.Do(t, f.play(t.Context(), []act{{what: "measure", about: 40 * time.Second, limit: 2 * time.Minute,
			do: func(context.Context) error {
				fmt.Fprintln(f, "trial 5 of 6")
				time.Sleep(time.Minute)
				return nil
			}}}))
		if n := strings.Count(f.terminal.String(), "trial 5 of 6"); n < 3 {
			t.Errorf("%d heartbeats in a minute, want 3:\n%s", n, f.terminal.String())
		}
		must.Equal(t, f.reports, 1, "reports after 1 act")
		must.Contain(t, f.terminal.String(),
			"running, 15 s of about 40 s: ", "running, 45 s; about 40 s on a quiet machine: ")
	})
}

// TestDemoBeatsOnATerminal: there a heartbeat takes one line, which what comes next replaces; the log has one each
// 15 s.
func TestDemoBeatsOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStage()
		f.live = true
		must.Do(t, f.play(t.Context(), []act{{what: "measure", about: 40 * time.Second, limit: 2 * time.Minute,
			do: func(context.Context) error {
				time.Sleep(time.Minute)
				f.say("  measured")
				time.Sleep(3 * time.Second)
				return nil
			}}}))
		const cleared = "\r\x1b[K"
		shown := f.terminal.String()
		must.Contain(t, shown, cleared+"… still running, 30 s of about 40 s", cleared+"  measured\n")
		must.Equal(t, strings.Count(shown, "\n"), 2, "lines in %q", shown)
		must.Hold(t, strings.HasSuffix(shown, cleared), "a heartbeat is left: %q", shown)
		if n := strings.Count(f.log.String(), "still running"); n < 3 || n > 4 {
			t.Errorf("%d heartbeats of a minute in the log:\n%s", n, f.log.String())
		}
	})
}

// TestDemoBeatsBetween: looking whether a box has died, and making a fresh one, are no silence either.
func TestDemoBeatsBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStage()
		f.reopen = func(context.Context, string) error { time.Sleep(40 * time.Second); return nil }
		f.checkAlive = func(context.Context) error { time.Sleep(40 * time.Second); return errors.New("panic") }
		failed := false
		must.Do(t, f.play(t.Context(), []act{{what: "measure", about: time.Second, limit: time.Minute,
			do: func(context.Context) error {
				if failed {
					return nil
				}
				failed = true
				return errors.New("no answer")
			}}}))
		if n := strings.Count(f.terminal.String(), "still running"); n < 4 {
			t.Errorf("%d heartbeats in 80 s, want 4:\n%s", n, f.terminal.String())
		}
	})
}

// TestDemoFreshBox begins again, from the first act, after a box died or an act passed its deadline, once.
func TestDemoFreshBox(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	gone := func(context.Context) error { return fmt.Errorf("lab demo: %w", lab.ErrGone) }
	broken := errors.New("broken")
	fails := func(context.Context) error { return broken }
	for name, c := range map[string]struct {
		fails        func(context.Context) error
		died         error // what the box says afterwards
		again        bool
		times, boxes int
		want         error
	}{
		"gone once":                   {fails: gone, times: 1, boxes: 1},
		"hangs once":                  {fails: hang, times: 1, boxes: 1},
		"gone twice":                  {fails: gone, times: 2, boxes: 1, want: lab.ErrGone},
		"hangs twice":                 {fails: hang, times: 2, boxes: 1, want: errDemoDeadline},
		"another error":               {fails: fails, times: 1, want: broken},
		"the guest died":              {fails: fails, died: errors.New("panic"), times: 1, boxes: 1},
		"the guest died twice":        {fails: fails, died: errors.New("panic"), times: 2, boxes: 1, want: broken},
		"a measurement":               {fails: fails, again: true, times: 1},
		"a measurement twice":         {fails: fails, again: true, times: 2, want: broken},
		"a measurement in a dead box": {fails: fails, died: errors.New("panic"), again: true, times: 1, boxes: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, opened, played := newFakeStage(), 0, 0
				f.died = c.died
				err := f.play(t.Context(), []act{
					{what: "open", about: time.Second, limit: time.Minute,
						do: func(context.Context) error { opened++; return nil }},
					{what: "work", about: time.Second, limit: time.Minute, repeat: c.again,
						do: func(ctx context.Context) error {
							if played++; played <= c.times {
								return c.fails(ctx)
							}
							return nil
						}},
				})
				must.Hold(t, errors.Is(err, c.want) && f.boxes == c.boxes && opened == c.boxes+1 &&
					f.reports == opened+played, "error %v (want %v), %d fresh boxes (want %d), %d opened, %d reports",
					err, c.want, f.boxes, c.boxes, opened, f.reports)
			})
		})
	}
}

// TestDemoLimit: whatever hangs, a demo is over after its limit, with a report. The build before it has its own time,
// and its failure is never called a box's.
func TestDemoLimit(t *testing.T) {
	slow := func(d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(d):
				return nil
			}
		}
	}
	for name, c := range map[string]struct {
		build, work time.Duration
		took        time.Duration
		boxes       int
		want        error
	}{
		"a slow build":      {build: 20 * time.Minute, work: time.Minute, took: 25 * time.Minute},
		"a build that ends": {build: time.Hour, took: 30 * time.Minute, want: errDemoDeadline},
		"slow acts":         {work: 4 * time.Minute, took: demoLimit, want: errDemoLimit},
		"acts that hang":    {work: time.Hour, took: 10 * time.Minute, boxes: 1, want: errDemoDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeStage()
				acts := []act{{what: "build", limit: 30 * time.Minute, noHost: true, do: slow(c.build)}}
				for range 5 {
					acts = append(acts, act{what: "work", limit: 5 * time.Minute, do: slow(c.work)})
				}
				began := time.Now()
				err := f.play(t.Context(), acts)
				took := time.Since(began)
				must.Hold(t, errors.Is(err, c.want) && took == c.took && f.boxes == c.boxes && f.reports > 0,
					"error %v (want %v) after %v (want %v), %d fresh boxes (want %d), %d reports", err, c.want,
					took, c.took, f.boxes, c.boxes, f.reports)
				must.Equal(t, strings.Contains(f.terminal.String(), "died or hung"), c.boxes > 0, "a box is blamed")
			})
		})
	}
}

// TestDemoInterrupted opens no fresh box after Ctrl-C, and still writes the report.
func TestDemoInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFakeStage()
		err := f.play(ctx, []act{{what: "work", about: time.Second, limit: time.Minute,
			do: func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }}})
		must.Hold(t, errors.Is(err, context.Canceled) && f.boxes == 0 && f.reports == 1,
			"error %v, %d fresh boxes, %d reports", err, f.boxes, f.reports)
	})
}

// TestDemoLines bounds what an act prints: 25 lines of 80 columns on the terminal, everything in the log. A word is
// never cut: it may be the report's path.
func TestDemoLines(t *testing.T) {
	f := newFakeStage()
	must.Do(t, f.play(t.Context(), []act{{what: "work", about: time.Second, limit: time.Minute,
		do: func(context.Context) error {
			for range 40 {
				f.say("%s", strings.Repeat("x", 100))
			}
			f.print(strings.Repeat("y", 100))
			return nil
		}}}))
	lines := strings.Split(strings.TrimSpace(f.terminal.String()), "\n")
	must.Need(t, len(lines) == demoLines+1, "%d lines", len(lines))
	beat := len([]rune(lines[demoLines]))
	must.Hold(t, len(lines[1]) == 100 && beat == 80, "the second of %d columns, the last of %d", len(lines[1]), beat)
	must.Equal(t, strings.Count(f.log.String(), strings.Repeat("x", 100)), 40, "lines in the log")
}

// TestDemoWraps: a sentence that is longer than a line goes on in the next, and is whole in the log.
func TestDemoWraps(t *testing.T) {
	f := newFakeStage()
	sentence := "  31 of 94 settings limit the target (worst: critical); 2 more differ harmlessly; 22 could not " +
		"be judged"
	f.say("%s", sentence)
	lines := strings.Split(strings.TrimSuffix(f.terminal.String(), "\n"), "\n")
	must.Hold(t, len(lines) == 2 && strings.HasPrefix(lines[1], "  ") && len([]rune(lines[0])) <= demoColumns &&
		lines[0]+" "+strings.TrimSpace(lines[1]) == sentence, "%q", lines)
	must.Contain(t, f.log.String(), sentence+"\n")
	for text, want := range map[string][]string{"": {""}, "a  b": {"a  b"},
		strings.Repeat("x", 90) + " y": {strings.Repeat("x", 90), "y"}} {
		must.Same(t, wrapped(text), want, "%q", text)
	}
}

// TestDemoKeepsResults: what a box has shown stays in the report until a fresh one has come further.
func TestDemoKeepsResults(t *testing.T) {
	run := &measure.Run{Schema: measure.Schema, Kind: measure.PPS, LimitedBy: measure.ByUnknown,
		Samples: []measure.Sample{{}}}
	d := &demo{out: t.TempDir(), pps: 500e3}
	d.state.hostBefore, d.state.before = &facts.Host{Name: "first"}, bench.Series{Label: "before", Run: run, RR: run}
	const why = "measure after: the guest died"
	must.Do(t, d.giveUp(t.Context(), why))
	reported := func(host string, boxes ...demoBox) {
		t.Helper()
		must.Do(t, d.write())
		text := must.Get(os.ReadFile(filepath.Join(d.out, "result.json")))(t)
		must.Try(t, valid("mpps.demo.2", string(text)))
		var r Result
		must.Do(t, json.Unmarshal(text, &r))
		must.Same(t, r.Boxes, boxes, "boxes of the result")
		page := must.Get(os.ReadFile(filepath.Join(d.out, "report.html")))(t)
		must.Contain(t, string(page), host,
			"Emulated host 1 of 2 died or hung and was given up: measure after: the guest died.")
	}
	reported("first", demoBox{why, true}, demoBox{"", false})
	d.state.hostBefore = &facts.Host{Name: "second"}
	reported("first", demoBox{why, true}, demoBox{"", false})
	d.state.before = bench.Series{Label: "before", Run: run, RR: run}
	reported("first", demoBox{why, true}, demoBox{"", false})
	d.state.hostAfter = &facts.Host{Name: "second"}
	reported("second", demoBox{why, false}, demoBox{"", true})
}

// TestDemoUnfinishedReport says what is missing and compares nothing where nothing was measured.
func TestDemoUnfinishedReport(t *testing.T) {
	d := &demo{pps: 500e3}
	doc := d.state.document(d)
	page, result, err := d.state.render(d)
	must.Do(t, err)
	must.Hold(t, doc.Compared == nil && doc.Rollback == nil && len(doc.Series) == 0,
		"claims without a measurement: %+v", doc)
	for _, part := range d.state.missing() {
		must.Hold(t, bytes.Contains(page, []byte(part)), "the page does not name %q", part)
	}
	must.Try(t, valid("mpps.demo.2", string(result)))
}
