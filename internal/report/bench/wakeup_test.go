package bench

import (
	"bytes"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/model/facts"
	"mpps/internal/must"
	"mpps/internal/report/svg"
)

// awake is a measurement whose wake-ups lie around a length, with one long one.
func awake(usual, longest uint64) *wakeup.File {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var buckets []measure.Bucket
	for i := range uint64(40) {
		buckets = append(buckets, measure.Bucket{FromNs: usual + i*1000, ToNs: usual + i*1000,
			Count: 1_000_000 / (1 + i*i*i)})
	}
	buckets = append(buckets, measure.Bucket{FromNs: longest, ToNs: longest, Count: 1})
	f := &wakeup.File{Schema: wakeup.Schema, Host: "h", Tool: wakeup.Tool{Name: "cyclictest", What: "how late"},
		Counted: &wakeup.Series{Ends: []float64{1}}}
	for i := range 2 {
		r := wakeup.Run{Started: begin,
			Distribution: wakeup.Distribution{Latency: measure.NewLatency(wakeup.TimerWakeup, buckets)}}
		r.Slices = []wakeup.Slice{{From: begin.Add(time.Duration(i) * time.Second),
			To: begin.Add(time.Duration(i+10) * time.Second), Count: 5, MaxNs: longest - uint64(i)}}
		f.Runs = append(f.Runs, r)
	}
	f.Finish()
	f.Causes.Found = []wakeup.Cause{{Kind: facts.SMI, CPU: -1, Confidence: wakeup.Strong, Evidence: "<script>",
		Advice: "the firmware"}}
	return f
}

// TestBinsHoldAll: whatever the buckets, every wake-up is in a bin, and in its own.
func TestBinsHoldAll(t *testing.T) {
	for _, l := range []*measure.Latency{awake(9000, 1_475_000).Total.Latency, awake(1000, 2000).Total.Latency,
		measure.NewLatency("x", []measure.Bucket{{FromNs: 3, ToNs: 7, Count: 5}}), measure.NewLatency("x",
			[]measure.Bucket{{FromNs: 100_000, ToNs: 4_000_000, Count: 7}, {FromNs: 0, ToNs: 0, Count: 1}})} {
		var sum, last float64
		for _, b := range bins(l) {
			if b.from != last || b.to <= b.from {
				t.Fatalf("bins %+v", bins(l))
			}
			sum, last = sum+b.share, b.to
		}
		if math.Abs(sum-1) > 1e-9 || last <= float64(l.MaxNs) {
			t.Errorf("shares of %g up to %g, longest %d", sum, last, l.MaxNs)
		}
	}
}

// TestWakeupPage: before and after in one picture, percentiles and the longest marked, with when it was; the host's
// counters left out.
func TestWakeupPage(t *testing.T) {
	d := &Document{Schema: DocumentSchema, Title: "t"}
	d.AddWakeups("before", awake(9000, 1_475_000))
	d.AddWakeups("after", awake(5000, 52_000))
	var page bytes.Buffer
	must.Do(t, HTML(&page, d))
	text := page.String()
	must.Contain(t, text, "Longest wake-up 1.48 ms → 52 µs: 28× shorter.", "histogram of wake-ups",
		"max 1.48 ms, within 0.0 s–10.0 s of run 1", "p99.99", "Wake-ups by percentile", "&lt;script&gt;",
		"the firmware", "no significant difference")
	must.Hold(t, !strings.Contains(text, "ends_s"), "the page holds what the host counted")
	for _, number := range regexp.MustCompile(`(?:x|y|cx|cy|x1|y1|x2|y2)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		if strings.ContainsAny(number[1], "NI") {
			t.Fatalf("a drawing has %s", number[0])
		}
	}
	must.Contain(t, Verdict(&Document{Wakeups: d.Wakeups[:1]}), "Longest wake-up 1.48 ms of ")
	must.Contain(t, Verdict(&Document{Wakeups: []Wakeups{d.Wakeups[1], d.Wakeups[0]}}), "not shorter")
}

// small is a label of a drawing.
type small struct {
	text, anchor string
	x, y         float64
}

func (s small) span() (from, to float64) {
	width := 5.4 * float64(utf8.RuneCountInString(s.text))
	switch s.anchor {
	case "middle":
		return s.x - width/2, s.x + width/2
	case "end":
		return s.x - width, s.x
	}
	return s.x, s.x + width
}

func (s small) covers(other small) bool {
	const height = 10.5
	from, to := s.span()
	low, high := other.span()
	return from < high && low < to && s.y-height < other.y && other.y-height < s.y
}

// TestWakeupPicture: a curve begins at its own shortest wake-up, not with a line along the bottom from another's, and
// no label covers another, however alike the measurements are.
func TestWakeupPicture(t *testing.T) {
	for name, files := range map[string][]*wakeup.File{
		"apart":      {awake(90_000, 1_475_000), awake(5000, 52_000)},
		"alike":      {awake(9000, 52_000), awake(9000, 52_000), awake(9000, 52_000)},
		"nearly so":  {awake(9000, 60_000), awake(10_000, 59_000), awake(8000, 61_000)},
		"at an edge": {awake(1000, 41_000), awake(1000, 10_000_000)},
	} {
		all := facts.Map(files, func(f *wakeup.File) Wakeups { return Wakeups{Label: "l", File: f} })
		drawn := string(wakeupHistograms(all))
		var shown []small
		for _, m := range regexp.MustCompile(
			`<text class="small" text-anchor="(\w+)" x="([^"]+)" y="([^"]+)">([^<]+)<`).FindAllStringSubmatch(drawn,
			-1) {
			x, errX := strconv.ParseFloat(m[2], 64)
			y, errY := strconv.ParseFloat(m[3], 64)
			if errX != nil || errY != nil {
				t.Fatalf("%s: %q", name, m[0])
			}
			one := small{m[4], m[1], x, y}
			for _, other := range shown {
				must.Hold(t, !one.covers(other), "%s: %+v covers %+v", name, one, other)
			}
			if from, to := one.span(); from < 0 || to > svg.Width {
				t.Errorf("%s: %+v leaves the drawing", name, one)
			}
			shown = append(shown, one)
		}
		if want := 4 * len(files); len(shown) != want {
			t.Errorf("%s: %d labels, expected %d", name, len(shown), want)
		}
		shortest := math.Inf(1)
		for _, f := range files {
			shortest = math.Min(shortest, float64(f.Total.Latency.MinNs))
		}
		for i, m := range regexp.MustCompile(
			`<path class="curve s\d" d="M([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)`).FindAllStringSubmatch(drawn, -1) {
			if own := float64(files[i].Total.Latency.MinNs); own > 2*shortest && m[1] == "46.0" {
				t.Errorf("%s: the curve of %g ns and longer begins at the left edge", name, own)
			}
			if m[1] != m[3] || m[2] != "230.0" || m[4] == m[2] {
				t.Errorf("%s: the curve begins with %s", name, m[0])
			}
		}
	}
}
