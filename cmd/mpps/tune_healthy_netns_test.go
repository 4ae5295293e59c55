//go:build netns

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/goal"
	"mpps/internal/must"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/tuning"
	"mpps/internal/report"
)

// healthy is a real path on which nothing that is tried does anything: what comes through is measured with packets,
// noise of this machine and all, and only the changes are none.
type healthy struct {
	gauge tuning.Gauge
	sent  float64
	tried int // changes that were made, had they been some
}

func (h *healthy) Candidates(context.Context) ([]tune.Candidate, error) {
	var all []tune.Candidate
	for i := range 3 {
		id := fmt.Sprintf("nothing.%d", i)
		all = append(all, tune.Candidate{Key: id, IDs: []string{id}, Title: "nothing", Stage: "bridge", Risk: goal.None,
			Weight: 1})
	}
	return all, nil
}

func (h *healthy) Diagnose(context.Context, float64) (*bottleneck.Diagnosis, error) { return nil, nil }

func (h *healthy) Try(context.Context, tune.Candidate) error {
	h.tried++
	return nil
}

func (h *healthy) Back(context.Context) error  { return nil }
func (h *healthy) Keep(context.Context) error  { return nil }
func (h *healthy) Reset(context.Context) error { return nil }

func (h *healthy) Whole(context.Context, []tune.Candidate) (tune.Candidate, error) {
	return tune.Candidate{Key: "everything that was kept"}, nil
}

func (h *healthy) Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error) {
	p, err := h.gauge.Sample(ctx, pps, time.Duration(length)*100*time.Millisecond, exact)
	h.sent = p.Sent
	return p.PPS, err
}

func (h *healthy) Sent() float64 { return h.sent }

func (h *healthy) Search(ctx context.Context) (tune.Rate, error) { return h.gauge.Search(ctx) }

func (h *healthy) Advise(*tune.Result, *bottleneck.Diagnosis) []tune.Advice { return nil }

// TestHealthyPaths: where nothing that is tried does anything, nothing is kept, on paths through a bridge with and
// without rules, with small and large frames, the noise of this machine and all. MPPS_HEALTHY is how many, 50 by 'make
// healthy'.
func TestHealthyPaths(t *testing.T) {
	paths := 1
	if text := os.Getenv("MPPS_HEALTHY"); text != "" {
		var err error
		if paths, err = strconv.Atoi(text); err != nil || paths < 1 {
			t.Fatalf("MPPS_HEALTHY=%s: expected a number", text)
		}
	}
	a := &app{root: "/", out: report.NewPrinter(io.Discard, io.Discard, report.Options{Quiet: true})}
	attempts, kept, able := 0, 0, 0
	for i := range paths {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			rules, frame := []int{20, 0, 200}[i%3], []int{64, 512}[i/3%2]
			b := newBridged(t, rules)
			ends := bench.Ends{From: traffic.Endpoint{Netns: b.from, Iface: "eth0"},
				To: traffic.Endpoint{Netns: b.to, Iface: "eth0"}}
			load := measure.Load{FrameBytes: frame, Flows: 16, Duration: time.Second, Repeat: 1}
			g := goal.Goal{PPS: 1e9, Frame: frame}
			by, err := tuning.NewPathGauge(t.Context(), a.env(), &bench.Path{Ends: ends}, load, g, 30*time.Second)
			must.Do(t, err)
			defer func() {
				must.Try(t, by.Close())
			}()
			h := &healthy{gauge: by}
			r, err := tune.Run(t.Context(), h, tune.Options{Goal: g, Seed: uint64(i), Trial: 100 * time.Millisecond})
			must.Do(t, err)
			// The generator may be what is the limit, and then nothing is tried.
			if r.Verdict != tune.NotDevice {
				able++
			}
			attempts += len(r.Attempts)
			for _, one := range r.Attempts {
				if one.Outcome == tune.Kept || one.Outcome == tune.Overcome {
					kept++
					t.Logf("kept for a time: %s", one.Why)
				}
			}
			if len(r.Kept) > 0 {
				t.Errorf("kept %v on a path on which nothing does anything", r.Kept)
			}
			t.Logf("%d rules, frames of %d: %s: %s", rules, frame, r.Verdict, r.Why)
		})
	}
	t.Logf("%d attempts on %d paths, %d kept for a time", attempts, paths, kept)
	if able == 0 {
		t.Skip("the generator is the limit on this machine, on every path: nothing could be tried")
	}
	if attempts < 3*able {
		t.Errorf("%d attempts on %d paths, expected three or more on each", attempts, able)
	}
}
