package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mpps/internal/lab"
)

// fakeStage is a stage without a box; it counts the boxes and reports asked of it.
type fakeStage struct {
	*stage
	terminal, log  bytes.Buffer
	boxes, reports int
}

func newFakeStage() *fakeStage {
	f := &fakeStage{}
	f.stage = &stage{terminal: &f.terminal, log: &f.log,
		reopen: func(context.Context) error { f.boxes++; return nil },
		after:  func() error { f.reports++; return nil }}
	return f
}

// TestDemoBeats runs an act of a minute that prints nothing on the terminal: a line appears at least every 20 s.
func TestDemoBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStage()
		err := f.play(t.Context(), []act{{"measure", 40 * time.Second, 2 * time.Minute, func(context.Context) error {
			fmt.Fprintln(f, "trial 5 of 6")
			time.Sleep(time.Minute)
			return nil
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(f.terminal.String(), "trial 5 of 6"); n < 3 {
			t.Errorf("%d heartbeats in a minute, want 3:\n%s", n, f.terminal.String())
		}
		if f.reports != 1 {
			t.Errorf("%d reports after 1 act", f.reports)
		}
	})
}

// TestDemoFreshBox begins again once, from the first act, after a box died or an act passed its deadline.
func TestDemoFreshBox(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	gone := func(context.Context) error { return fmt.Errorf("lab demo: %w", lab.ErrGone) }
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fails        func(context.Context) error
		times, boxes int
		want         error
	}{
		"gone once":     {gone, 1, 1, nil},
		"hangs once":    {hang, 1, 1, nil},
		"gone twice":    {gone, 2, 1, lab.ErrGone},
		"hangs twice":   {hang, 2, 1, errDemoDeadline},
		"another error": {func(context.Context) error { return broken }, 1, 0, broken},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, opened, played := newFakeStage(), 0, 0
				err := f.play(t.Context(), []act{
					{"open", time.Second, time.Minute, func(context.Context) error { opened++; return nil }},
					{"work", time.Second, time.Minute, func(ctx context.Context) error {
						if played++; played <= c.times {
							return c.fails(ctx)
						}
						return nil
					}},
				})
				if !errors.Is(err, c.want) || f.boxes != c.boxes || opened != c.boxes+1 || f.reports != 2*opened {
					t.Errorf("error %v (want %v), %d fresh boxes (want %d), %d opened, %d reports", err, c.want, f.boxes, c.boxes, opened, f.reports)
				}
			})
		})
	}
}

// TestDemoInterrupted opens no fresh box after Ctrl-C, and still writes the report.
func TestDemoInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := newFakeStage()
		err := f.play(ctx, []act{{"work", time.Second, time.Minute, func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() }}})
		if !errors.Is(err, context.Canceled) || f.boxes != 0 || f.reports != 1 {
			t.Errorf("error %v, %d fresh boxes, %d reports", err, f.boxes, f.reports)
		}
	})
}

// TestDemoLines bounds what an act prints: 25 lines of 80 columns on the terminal, everything in the log.
func TestDemoLines(t *testing.T) {
	f := newFakeStage()
	err := f.play(t.Context(), []act{{"work", time.Second, time.Minute, func(context.Context) error {
		for range 40 {
			f.say("%s", strings.Repeat("x", 100))
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(f.terminal.String()), "\n")
	if len(lines) != demoLines || len([]rune(lines[1])) != 80 {
		t.Errorf("%d lines, the second of %d columns", len(lines), len([]rune(lines[1])))
	}
	if n := strings.Count(f.log.String(), strings.Repeat("x", 100)); n != 40 {
		t.Errorf("%d of 40 lines in the log", n)
	}
}

// TestDemoUnfinishedReport says what is missing and compares nothing where nothing was measured.
func TestDemoUnfinishedReport(t *testing.T) {
	d := &demo{pps: 500e3}
	doc := d.state.document(d)
	page, result, err := d.state.render(d)
	if err != nil {
		t.Fatal(err)
	}
	if doc.Compared != nil || doc.Rollback != nil || len(doc.Series) != 0 {
		t.Errorf("claims without a measurement: %+v", doc)
	}
	for _, part := range d.state.missing() {
		if !bytes.Contains(page, []byte(part)) {
			t.Errorf("the page does not name %q", part)
		}
	}
	if err := validate("mpps.demo.2", string(result)); err != nil {
		t.Error(err)
	}
}
