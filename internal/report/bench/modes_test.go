package bench

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/report"
)

// TestBenchModes draws six modes as the lab has them, narrow and wide.
func TestBenchModes(t *testing.T) {
	m := &measure.Modes{Host: "l1", Native: "native", Samples: 54, Blocks: 3, Seed: 1, Notes: []string{"a note"},
		Environment: measure.Environment{Emulated: true}}
	modesInOrder := []string{"native", "e1000", "virtio", "vhost", "vhost-mq", "vf"}
	packets := measure.Load{FrameBytes: 64, Flows: 16, Duration: time.Second}
	for _, w := range []measure.Workload{
		{Name: "stream", Kind: measure.Stream, Load: measure.Load{Connections: 1, Duration: time.Second}},
		{Name: "rr", Kind: measure.RR, Load: measure.Load{Protocol: "tcp", Connections: 1, Request: 1, Response: 1,
			Duration: time.Second}},
		{Name: "pps", Kind: measure.PPS, Load: packets},
		{Name: "ndr", Kind: measure.PPS, Load: packets, Search: 10 * time.Second},
	} {
		m.Workloads = append(m.Workloads, w)
		for i, mode := range modesInOrder {
			if w.Name == "stream" {
				m.Modes = append(m.Modes, measure.Mode{Name: mode})
			}
			v := 123456789.0 / float64(i+1)
			r := measure.ModeRow{
				Mode: mode, Workload: w.Name, Kind: w.Kind, Unit: w.Kind.Unit(),
				Median:  measure.Estimate{Value: v, Lo: 0.9 * v, Hi: 1.1 * v, N: 3},
				CPUIdle: measure.Estimate{Value: 12.5, N: 3}, CPUNs: measure.Estimate{Value: 51234.5, N: 3},
				Samples: []float64{v, v, v},
			}
			if i > 0 {
				r.Percent = &measure.Estimate{Value: 100 / float64(i+1), Lo: 10.03, Hi: 99.12, N: 6}
			}
			if w.Kind == measure.RR {
				r.What, r.Percentiles = "round-trip", []measure.Percentile{{P: 50, ValueNs: 2_790_000},
					{P: 90, ValueNs: 8_650_000}, {P: 99, ValueNs: 18_200_000}}
			}
			if w.Search > 0 {
				upper := 1.01 * v
				r.Search = &measure.ModeRates{NDRUpper: &upper, PDRLower: &v}
				if mode == "e1000" {
					r.Median, r.Percent, r.Search.PDRLower, r.Search.None = measure.Estimate{N: 3}, nil, nil,
						"no rate without loss; floor 0.03 %"
				}
			} else if w.Kind == measure.PPS {
				loss := 0.0442
				r.Loss, r.LimitedBy = &loss, measure.ByDevice
				if mode == "vhost" {
					r.LimitedBy = measure.ByGenerator
				}
			}
			m.Rows = append(m.Rows, r)
		}
	}
	for _, width := range []int{80, 200} {
		text := report.Draw(width, func(t *report.Text) { ModesText(t, m, []string{"/var/lib/mpps/runs/x.json"}) })
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if utf8.RuneCountInString(line) > width || strings.ContainsFunc(line,
				func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("wider than %d columns, or with a control character: %q\n%s", width, line, text)
			}
		}
		for _, want := range append(slices.Clone(modesInOrder), "EMULATED", "≥30.9M", "33.3 [10, 99.1]", "18.2ms",
			"4.4 %", "12 %", "100", "none") {
			must.Hold(t, strings.Contains(text, want), "at %d columns %q is missing:\n%s", width, want, text)
		}
		if lines := strings.Count(text, "\n  e1000 "); (width == 80) != (lines == 5) || width == 200 && lines != 1 {
			t.Errorf("at %d columns e1000 has %d lines:\n%s", width, lines, text)
		}
	}
}

func TestThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01234: "0.0123", 1: "1", 12.34: "12.3", 999.4: "999",
		999.6: "1k", 1234: "1.23k", 999499: "999k", 999600: "1M", 2.5e12: "2.5T"} {
		must.Equal(t, threeDigits(v), want, "%g", v)
	}
}

// TestAgentRates: several agents that count at once are listed; the directions of two-way traffic are not agents.
func TestAgentRates(t *testing.T) {
	r := &measure.Run{Samples: []measure.Sample{{Ways: []measure.Way{{PPS: 1000}, {PPS: 5000}}},
		{Ways: []measure.Way{{PPS: 3000}, {PPS: 5000}}}, {Ways: []measure.Way{{PPS: 2000}, {PPS: 6000}}}}}
	if got := agentRates(r); !slices.Equal(got, []string{"2k", "5k"}) {
		t.Errorf("rates %v", got)
	}
	r.Load.TwoWay = true
	if got := agentRates(r); got != nil {
		t.Errorf("directions: %v", got)
	}
}
