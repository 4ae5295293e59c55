package export

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/measure"
	"mpps/internal/must"
)

// recorded reads a run of testdata, measured between namespaces: pps behind a shaper of 20 Mbit/s that lost packets (on
// a busy machine), rr over one connection, stream over two.
func recorded(t *testing.T, name string) *measure.Run {
	t.Helper()
	f := must.Get(os.Open(filepath.Join("testdata", name+".json")))(t)
	defer f.Close()
	r := must.Get(measure.Decode(f))(t)
	for i := range r.Samples { // the files hold buckets only
		if l := r.Samples[i].Latency; l != nil {
			l.Percentiles = measure.NewLatency(l.What, l.Buckets).Percentiles
		}
	}
	r.Judge()
	return r
}

// compared is an interleaved comparison of the recorded packets with the same at twice the speed.
func compared(t *testing.T) *measure.AB {
	t.Helper()
	before, after := recorded(t, "pps"), recorded(t, "pps")
	for i := range after.Samples {
		after.Samples[i].PPS *= 2
	}
	after.Judge()
	ab := &measure.AB{Schema: measure.SchemaAB, Kind: measure.PPS, Name: "mitigations", BeforeRun: *before,
		AfterRun:   *after,
		Comparison: measure.Compare(before.Values(), after.Values())}
	return ab
}

// set is all that a format has a place for.
func set(t *testing.T, f Format) *Set {
	t.Helper()
	s := &Set{Version: "0.1.0"}
	for _, name := range []string{"pps", "rr", "stream"} {
		if r := recorded(t, name); f.Fits(r.Kind, r.Latency != nil) == nil {
			s.Add("", r)
		}
	}
	s.AddAB(compared(t))
	return s
}

func written(t *testing.T, f Format, s *Set) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, Write(&b, f, s))
	return b.String()
}

// payload is a line's histogram: compressed, and so a matter of the compressor. TestHDRLog looks into it.
var payload = regexp.MustCompile(`,HIST[A-Za-z0-9+/=]+`)

// TestGolden compares what each format makes of the recorded runs with what was looked at. MPPS_UPDATE=1 writes it
// again.
func TestGolden(t *testing.T) {
	for _, name := range Formats() {
		f := Format(name)
		have := written(t, f, set(t, f))
		must.Hold(t, have == written(t, f, set(t, f)), "%s: the same runs gave two texts", f)
		have = payload.ReplaceAllString(have, ",…")
		file := filepath.Join("testdata", "golden."+name)
		golden.File(t, file, strings.ReplaceAll(have, "goarch: "+goarch, "goarch: amd64"))
	}
}

func TestNoPlace(t *testing.T) {
	for _, c := range []struct {
		f   Format
		run string
		fit bool
	}{{HDR, "stream", false}, {HDR, "rr", true}, {IPerf3, "rr", false}, {IPerf3, "stream", true}, {Netperf, "rr", true},
		{"tsv", "rr", false}} {
		s := &Set{}
		s.Add("", recorded(t, c.run))
		var b bytes.Buffer
		err := Write(&b, c.f, s)
		if (err == nil) != c.fit || !c.fit && b.Len() > 0 {
			t.Errorf("%s of a run of %s: error %v, %d bytes written", c.f, c.run, err, b.Len())
		}
	}
}

// Two runs of one name stay two series everywhere.
func TestSameNames(t *testing.T) {
	s := &Set{}
	s.Add("", recorded(t, "rr"))
	s.Add("", recorded(t, "rr"))
	if text := written(t, Prometheus, s); strings.Count(text, `run="one connection #2"`) != strings.Count(text,
		`run="one connection"`) {
		t.Errorf("the second run's series are not distinguished:\n%s", text)
	}
	must.Hold(t, !slices.ContainsFunc(s.Runs, func(l Labeled) bool { return l.Label != "" }),
		"Write changed the set that it was given")
}

// A run without a single trial is written without dividing by nothing.
func TestNothing(t *testing.T) {
	for _, kind := range []measure.Kind{measure.PPS, measure.RR, measure.Stream} {
		for _, name := range Formats() {
			s := &Set{}
			s.Add("", &measure.Run{Kind: kind})
			f := Format(name)
			if f.Fits(kind, false) != nil {
				continue
			}
			if text := written(t, f, s); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") ||
				strings.Contains(text, "%!") {
				t.Errorf("%s of an empty run of %s: %s", f, kind, text)
			}
		}
	}
}
