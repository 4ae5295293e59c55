// Package export writes runs in the formats of other programs, so that their tools can read them: netperf's KEY=VALUE
// lines, iperf3's JSON, Go benchmark lines for benchstat, Prometheus text, CSV and HdrHistogram logs.
//
// A format says less than a Run (what limited it, where packets were lost, warnings). Fields without a known value are
// left out, never made up. It is pure: values in, text out.
package export

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"mpps/internal/measure"
)

// Format is an output format.
type Format string

const (
	Netperf    Format = "netperf"    // KEY=VALUE lines, a block per run, with an empty line between blocks
	IPerf3     Format = "iperf3"     // a JSON object per run
	GoBench    Format = "gobench"    // Go benchmark lines, one per sample
	Prometheus Format = "prometheus" // text exposition format 0.0.4
	CSV        Format = "csv"        // RFC 4180 with a header, a row per sample
	HDR        Format = "hdr"        // HdrHistogram log 1.3, a line per sample; nanoseconds
)

var writers = map[Format]func(io.Writer, *Set) error{
	Netperf: netperf, IPerf3: iperf3, GoBench: gobench, Prometheus: prometheus, CSV: rows, HDR: hdr,
}

// Formats returns the names of all formats, in the order of output.
func Formats() []string {
	return []string{string(Netperf), string(IPerf3), string(GoBench), string(Prometheus), string(CSV), string(HDR)}
}

// Named reports whether a name is one of Formats.
func Named(name string) bool { return slices.Contains(Formats(), name) }

// Set is what is written together.
type Set struct {
	Version string // of this program
	Runs    []Labeled
	Ratios  []Ratio
}

// Labeled is a run and its identity. Label and Side together should be unique; Write makes them so.
type Labeled struct {
	Label string // empty: the run's own name
	Side  string // "before" or "after" of a comparison; empty for a single run
	Run   *measure.Run
}

// Ratio is a comparison of two runs of the set. Only Prometheus has a place for it: the other formats hold measured
// values, and their readers compare.
type Ratio struct {
	Label      string
	Kind       measure.Kind
	Comparison measure.Comparison
}

// Add adds a single run.
func (s *Set) Add(label string, r *measure.Run) {
	s.Runs = append(s.Runs, Labeled{Label: label, Run: r})
}

// AddAB adds both sides of an interleaved comparison and its verdict.
func (s *Set) AddAB(ab *measure.AB) {
	s.Runs = append(s.Runs, Labeled{ab.Name, "before", &ab.BeforeRun}, Labeled{ab.Name, "after", &ab.AfterRun})
	s.Ratios = append(s.Ratios, Ratio{ab.Name, ab.Kind, ab.Comparison})
}

// AddModes adds those runs of a campaign over NIC modes, which has several kinds, that fit a format.
func (s *Set) AddModes(m *measure.Modes, f Format) {
	for i := range m.Runs {
		r, row := &m.Runs[i], m.Rows[i]
		if len(r.Samples) == 0 || f.Fits(r.Kind, r.Latency != nil) != nil {
			continue
		}
		label := row.Mode
		if row.Workload != string(r.Kind) {
			label += " " + row.Workload
		}
		s.Runs = append(s.Runs, Labeled{Label: label, Run: r})
	}
}

// ErrNoPlace is wrapped if a run does not fit a format.
var ErrNoPlace = errors.New("the format has no place for it")

// ErrNoLatency is the ErrNoPlace of a format for latency.
var ErrNoLatency = fmt.Errorf("the run has no latency: %w", ErrNoPlace)

// Fits returns why a run of a kind, with or without latency, cannot be written in a format; nil if it can. It lets a
// command refuse before it measures.
func (f Format) Fits(kind measure.Kind, latency bool) error {
	switch {
	case f == HDR && !latency:
		return fmt.Errorf("hdr: %w", ErrNoLatency)
	case f == IPerf3 && transactional(kind):
		return fmt.Errorf("iperf3: it does no transactions (%s): %w", kind, ErrNoPlace)
	}
	return nil
}

// Write writes the runs of a set in a format. If one does not fit, it fails without writing anything.
func Write(w io.Writer, f Format, s *Set) error {
	write, ok := writers[f]
	if !ok {
		return fmt.Errorf("found format %q, expected %s", f, strings.Join(Formats(), ", "))
	}
	if len(s.Runs) == 0 {
		return fmt.Errorf("%s: nothing that was measured fits: %w", f, ErrNoPlace)
	}
	for _, l := range s.Runs {
		if err := f.Fits(l.Run.Kind, l.Run.Latency != nil); err != nil {
			return err
		}
	}
	return write(w, s.distinct())
}

// distinct returns the set with labels filled in and made unique: two runs of the same name would be one series.
func (s *Set) distinct() *Set {
	out := *s
	out.Runs = nil
	seen := map[[3]string]int{}
	for _, l := range s.Runs {
		l.Label = cmp.Or(l.Label, l.Run.Name)
		key := [3]string{l.Label, l.Side, string(l.Run.Kind)}
		if seen[key]++; seen[key] > 1 {
			l.Label = strings.TrimSpace(fmt.Sprintf("%s #%d", l.Label, seen[key]))
		}
		out.Runs = append(out.Runs, l)
	}
	return &out
}

// transactional reports whether a kind counts answered requests.
func transactional(k measure.Kind) bool { return k.Unit() == measure.RR.Unit() }
