package measure

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"mpps/internal/must"
)

// inTurns are two runs over a device that carries 1 Mpps, and three times that with the other configuration.
func inTurns(d *device, bring func(Side) error) (sides [2]Configuration) {
	d.makes, d.carries, d.counts = 9e6, 1e6, 2e7
	for side, carries := range []float64{1e6, 3e6} {
		sides[side] = Configuration{Run: newRun(0), Switch: func(context.Context) error {
			d.carries = carries
			return bring(Side(side))
		}}
	}
	return sides
}

func TestTurns(t *testing.T) { inNoTime(turnsOf)(t) }

func turnsOf(t *testing.T) {
	d := &device{}
	standing, brought := A, 0
	sides := inTurns(d, func(side Side) error {
		must.Hold(t, side != standing, "%v was brought about where it stood", side)
		standing = side
		brought++
		return nil
	})
	r := must.Get(quick(d).Interleave(t.Context(), sides, 6, 3))(t)
	switches, last := 0, A
	for _, order := range r.Order {
		for _, side := range order {
			if side != last {
				switches, last = switches+1, side
			}
		}
	}
	must.Hold(t, brought == switches && len(r.Order) == 6,
		"%d times brought about, %d changes of sides in %v", brought, switches, r.Order)
	before, after := sides[A].Run, sides[B].Run
	for _, c := range []struct {
		run  *Run
		want float64
	}{{before, 1e6}, {after, 3e6}} {
		if len(c.run.Samples) != 12 || math.Abs(c.run.PPS-c.want) > 1 || c.run.LimitedBy != ByDevice || c.run.Partial ||
			c.run.Baseline.Generator == nil {
			t.Errorf("%d samples, %v pps, expected %v; limited by %s", len(c.run.Samples), c.run.PPS, c.want,
				c.run.LimitedBy)
		}
		// The counters are those of this side's trials alone.
		must.Hold(t, len(c.run.Losses) == 1 && c.run.Losses[0].Packets == c.run.Lost && c.run.UnexplainedLoss == 0,
			"losses %+v of %d, %d unexplained", c.run.Losses, c.run.Lost, c.run.UnexplainedLoss)
	}
	ab := must.Get(NewAB(r, before, after, 6))(t)
	if !ab.Significant || math.Abs(ab.Ratio.Value-3) > 0.01 || ab.Test != "signed-rank" || !ab.Valid() ||
		len(ab.Values) != 6 {
		t.Errorf("%s by %s", ab.Comparison, ab.Test)
	}
	if ab.Cost == nil || math.Abs(ab.Cost.Ratio.Value-1.0/3) > 0.01 {
		t.Errorf("cost %+v", ab.Cost)
	}
	for _, w := range ab.Warnings {
		must.Hold(t, w.Code != "not-interleaved", "an interleaved comparison says that it is not")
	}
	var text bytes.Buffer
	must.Do(t, Encode(&text, ab))
	must.Is(t, must.Err(Decode(bytes.NewReader(text.Bytes()))), ErrInterleaved, "read as a run")
	again, err := DecodeAB(&text)
	must.Hold(t, err == nil && again.Verdict == ab.Verdict &&
		strings.Join(again.Order, " ") == strings.Join(ab.Order, " ") && len(again.AfterRun.Samples) == 12,
		"read back: %v, %+v", err, again)
}

func TestTurnsThatEndEarly(t *testing.T) { inNoTime(turnsThatEndEarly)(t) }

func turnsThatEndEarly(t *testing.T) {
	broken := errors.New("device or resource busy")
	n := 0
	d := &device{}
	sides := inTurns(d, func(Side) error {
		if n++; n == 6 {
			return broken
		}
		return nil
	})
	r, err := quick(d).Interleave(t.Context(), sides, 6, 3)
	must.Hold(t, errors.Is(err, broken) && r.Partial && len(r.Order) != 0 && len(r.Order) <= 4,
		"error %v, partial %v, order %v", err, r.Partial, r.Order)
	for _, s := range sides {
		must.Hold(t, len(s.Run.Samples) == 2*len(r.Order) && s.Run.Partial && s.Run.UnexplainedLoss == 0,
			"%d samples of %d blocks, partial %v", len(s.Run.Samples), len(r.Order), s.Run.Partial)
	}
	// A trial that was cut short counts on neither side.
	ctx, cancel := context.WithCancel(t.Context())
	d, n = &device{}, 0
	sides = inTurns(d, func(Side) error { return nil })
	d.afterSend = func() {
		if n++; n == 11 {
			cancel()
		}
	}
	r, err = quick(d).Interleave(ctx, sides, 6, 3)
	must.Hold(t, errors.Is(err, context.Canceled) && r.Partial && len(r.Order) == 2 && len(sides[A].Run.Samples) == 4,
		"error %v, partial %v, order %v", err, r.Partial, r.Order)
}

func FuzzDecodeAB(f *testing.F) {
	f.Add(`{"schema": "mpps.ab/1", "kind": "pps", "before_run": {"schema": "mpps.run/1", "kind": "pps"}, "after_run": {"schema": "mpps.run/1", "kind": "rr"}}`)
	f.Add(`{"schema": "mpps.bench-ab/1", "result": {"schema": "mpps.ab/1", "values": [{"a": [1], "b": []}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		ab, err := DecodeAB(strings.NewReader(text))
		if err != nil {
			return
		}
		CompareBlocks(ab.Values) // must not panic on anything that was accepted
		ab.BeforeRun.Judge()
	})
}
