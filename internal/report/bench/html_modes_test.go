package bench

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/must"
)

// campaign is a document of modes and searches, as a comparison of a NIC's modes gives it.
func campaign() *Document {
	bar := func(mode string, value, percent, idle float64) ModeBar {
		return ModeBar{Mode: mode, Value: value, Lo: value * 0.97, Hi: value * 1.04, N: 6, Percent: percent,
			PercentLo: percent * 0.96, PercentHi: percent * 1.05, CPUIdle: &Percentage{idle, idle - 3, idle + 2}}
	}
	missing := ModeBar{Mode: "VF passthrough", Missing: "the NIC has no virtual functions"}
	limited := bar("vhost-net, 4 queues", 8.9e9, 94, 31)
	limited.Caveat = "limited by the generator"
	stream := Modes{Title: "TCP stream", Unit: "bit/s", Native: "native", Bars: []ModeBar{
		bar("e1000", 0.31e9, 3.3, 51), bar("virtio", 2.9e9, 31, 44), bar("vhost-net", 6.1e9, 64, 40),
		limited, missing, bar("native", 9.4e9, 100, 72)}}
	trips := Modes{Title: "TCP transactions", Unit: "transaction/s", Native: "native", Bars: []ModeBar{
		bar("e1000", 2100, 8.1, 71), bar("virtio", 9100, 35, 66), bar("vhost-net", 14200, 55, 61),
		bar("native", 26000, 100, 80)}}
	packets := Modes{Title: "Packets of 64 bytes", Unit: "packet/s", Note: "Counted in the guest.", Bars: []ModeBar{
		{Mode: "e1000", Value: 620, Lo: 600, Hi: 640, N: 6}, {Mode: "vhost-net", Value: 8800, Lo: 8100, Hi: 9300,
			N: 6}}}
	found := Rates{Label: "vhost-net", NDR: &RateBounds{LowerPPS: 8.802e6, UpperPPS: 8.846e6},
		PDR: &RateBounds{LowerPPS: 9.1e6, UpperPPS: 9.14e6}, PDRLoss: 0.005}
	for _, rate := range []float64{14.88e6, 11e6, 9.5e6, 9.14e6, 9.1e6, 8.95e6, 8.846e6, 8.802e6, 8.6e6} {
		loss := 0.0
		if rate > 8.82e6 {
			loss = math.Max(rate-9.05e6, 3e3) / rate
		}
		found.Trials = append(found.Trials, RateTrial{rate, loss, 1})
	}
	found.Trials = append(found.Trials, RateTrial{8.802e6, 0, 4})
	floor := Rates{Label: "virtio", PDR: &RateBounds{LowerPPS: 1.2e6, UpperPPS: 1.21e6}, PDRLoss: 0.005, Floor: 0.0003}
	return &Document{Title: "mpps bench modes", Version: "0.1.0", Host: HostLine{Name: "l1", Kernel: "6.12.94",
		CPU: "AMD EPYC-Rome", CPUs: 4}, Modes: []Modes{stream, trips, packets}, Rates: []Rates{found, floor}}
}

func page1(t *testing.T, d *Document, env string) string {
	t.Helper()
	var b bytes.Buffer
	must.Do(t, HTML(&b, d))
	if file := os.Getenv(env); file != "" {
		must.Do(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	must.Lack(t, b.String(), "NaN", "Inf", "%!", "ZgotmplZ", "src=", "<script>")
	return b.String()
}

func TestModesPage(t *testing.T) {
	page := page1(t, campaign(), "MPPS_PAGE_MODES")
	must.Contain(t, page, "vhost-net reaches 64\u00a0% [61,\u00a067] of native: TCP stream.", "e1000 3.3 % [3.2, 3.5]",
		"the NIC has no virtual functions", "limited by the generator",
		"NDR, no loss: [8.802 M, 8.846 M] packets/s", "PDR, loss up to 0.5 %", "no rate without loss: floor 0.03 %",
		"CPU time left idle")
}

func TestRatesVerdict(t *testing.T) {
	d := &Document{Rates: campaign().Rates}
	must.Equal(t, Verdict(d), "8.802\u00a0M packets per second without loss.", "Verdict(d)")
	d.Rates = d.Rates[1:]
	must.Equal(t, Verdict(d), "No rate without loss: floor 0.03 %.", "Verdict(d)")
}

// TestKinds: streams and transactions by themselves are compared and drawn as what they are.
func TestKinds(t *testing.T) {
	stream := func(label string, rate float64, seed uint64) *measure.Run {
		r := run(label, rate, 0.02, 6, seed)
		r.Kind, r.Load = measure.Stream, measure.Load{Connections: 4}
		for i := range r.Samples {
			r.Samples[i].BitsPerS = r.Samples[i].PPS
		}
		return r
	}
	d := &Document{Title: "streams"}
	d.Add("before", stream("before", 9.4e9, 1))
	d.Add("after", stream("after", 11.2e9, 2))
	d.Add("before", trips("before", 200, 4e6, 5))
	d.Add("after", trips("after", 430, 2e6, 6))
	d.CompareFirstTwo()
	page := page1(t, d, "MPPS_PAGE_STREAM")
	if len(d.Series) != 2 || d.Compared.RoundTrips == nil || d.Compared.Cost == nil {
		t.Fatalf("found %d series, compared %+v", len(d.Series), d.Compared)
	}
	must.Contain(t, page, "% more throughput: 9.5\u00a0G → 11\u00a0G bits per second.", "Bits per second",
		"TCP over 4 connections", "Transactions per second", "taken one after the other")
	must.Lack(t, page, "Packets per second", "64-byte frames")

	crr := trips("before", 90, 9e6, 7)
	crr.Kind = measure.CRR
	d.Add("before", crr)
	if page := page1(t, d, ""); len(d.Series) != 3 ||
		!strings.Contains(page, "Transactions with a connection each, per second") ||
		!strings.Contains(page, "Transactions per second") {
		t.Errorf("found %d series: the two kinds of transactions are not distinguished", len(d.Series))
	}

	d = &Document{Title: "transactions"}
	d.Add("before", trips("before", 200, 4e6, 5))
	d.Add("after", trips("after", 430, 2e6, 6))
	d.CompareFirstTwo()
	if have := Verdict(d); !strings.HasPrefix(have, "2.2× more transactions: ") {
		t.Errorf("found %q", have)
	}
}

// TestLatencyWithinSamples: no curve and no table goes where fewer than ten samples are left.
func TestLatencyWithinSamples(t *testing.T) {
	r := trips("few", 200, 4e6, 5)
	r.Latency = measure.NewLatency("round-trip", []measure.Bucket{{FromNs: 1e6, ToNs: 1e6, Count: 1980},
		{FromNs: 2e6, ToNs: 2e6, Count: 19}, {FromNs: 9e7, ToNs: 9e7, Count: 1}})
	c := curveOf(r)
	last := c[len(c)-1]
	if want := math.Log10(200); math.Abs(last.nines-want) > 1e-9 || last.value > 2e6 {
		t.Errorf("the curve of 2000 samples ends at %v nines, %v ns; expected %v nines, without the longest",
			last.nines, last.value, want)
	}
	if have := percentilesOf([]labeled{{Run: r, Label: "few"}}); !slices.Equal(have, []float64{50, 90, 99}) {
		t.Errorf("the table's columns are %v", have)
	}
}

func TestLossBars(t *testing.T) {
	r := run("lossy", 620, 0.1, 6, 1)
	r.Losses[0].Packets -= 1000
	r.UnexplainedLoss = 1000
	rows := places(labeled{Run: r, Label: "lossy"})
	must.Hold(t, len(rows) == 2 && rows[1].Name == "seen by no counter" && rows[1].Packets == 1000, "found %+v", rows)
	r.Lost, r.Losses, r.UnexplainedLoss = 0, nil, 0
	must.Equal(t, lossBars([]labeled{{Run: r, Label: "clean"}}), "", "a run without loss is drawn")
}

// TestBusiestCPUs: of a machine with many CPUs the busiest are drawn, in their order, and the rest is said.
func TestBusiestCPUs(t *testing.T) {
	r := run("many", 620, 0.1, 2, 1)
	for i := range r.Samples {
		var cpus []measure.CPUUse
		for c := range 80 {
			cpus = append(cpus, measure.CPUUse{CPU: c, System: float64(c) / 80, Idle: 1})
		}
		r.Samples[i].CPU[0].CPUs = cpus
	}
	use, left := nearCPUs(r)
	if len(use) != maxStrip || left != 16 || use[0].CPU != 16 || use[63].CPU != 79 {
		t.Errorf("found %d CPUs from %d to %d, %d left", len(use), use[0].CPU, use[len(use)-1].CPU, left)
	}
	for len(r.Samples) < 150 {
		r.Samples = append(r.Samples, r.Samples[0])
	}
	page := string(cpuStrip([]labeled{{Run: r, Label: "many"}}))
	must.Contain(t, page, "16 CPUs less busy not drawn", "CPU 79, trials 1 to 3: 50 % busy",
		"CPU 79, trials 148 to 150: 50 % busy")
	if cells := strings.Count(page, `class="heat"`); cells != maxStrip*50 {
		t.Errorf("found %d cells", cells)
	}
}

// TestCampaign: a campaign's result gives a group of bars for each workload, with what is missing and what cannot be
// distinguished, and its runs.
func TestCampaign(t *testing.T) {
	stream := run("native", 9.4e9, 0.02, 6, 1)
	stream.Kind = measure.Stream
	row := func(mode string, value float64) measure.ModeRow {
		return measure.ModeRow{Mode: mode, Workload: "stream", Kind: measure.Stream, Unit: "bit/s",
			Samples: []float64{value}, Median: measure.Estimate{Value: value, Lo: value * 0.9, Hi: value * 1.1, N: 6},
			CPUIdle: measure.Estimate{Value: 40, Lo: 30, Hi: 50, N: 6},
			Percent: &measure.Estimate{Value: 99, Lo: 95, Hi: 104, N: 6}}
	}
	native, vf, limited, gone := row("native", 9.4e9), row("vf", 9.3e9), row("vhost", 9e9), row("e1000", 0)
	native.Percent, gone.Percent, gone.Samples = nil, nil, nil
	limited.LimitedBy, limited.Differs = measure.ByGenerator, true
	m := &measure.Modes{Native: "native", Workloads: []measure.Workload{{Name: "stream", Kind: measure.Stream}},
		Notes: []string{"guests of two CPUs"}, Rows: []measure.ModeRow{native, vf, limited, gone},
		Runs:     []measure.Run{*stream, *stream, *stream, {}},
		Failures: []measure.ModeFault{{Turn: measure.Turn{Mode: "e1000", Workload: "stream"}, Error: "no answer"}}}
	d := &Document{Title: "campaign"}
	d.AddModes(m)
	page := page1(t, d, "MPPS_PAGE_CAMPAIGN")
	must.Contain(t, page, "TCP stream: no significant difference between vf and native.", "99 % [95, 104] ~",
		"limited by the generator", "not measured: no answer", "guests of two CPUs", "CPU time left idle")
	if bars := d.Modes[0].Bars; bars[0].Percent != 100 || math.Abs(bars[0].PercentLo-90) > 1e-9 ||
		bars[1].Percent != 99 || !bars[1].Same || bars[2].Same {
		t.Errorf("found %+v", bars)
	}
	for i := range m.Rows[1:3] {
		m.Rows[1+i].Percent.N = 3
	}
	d = &Document{Title: "campaign"}
	d.AddModes(m)
	must.Contain(t, page1(t, d, ""), "TCP stream: too few samples to compare vf with native.")
}

// TestOpenLoop: delays on a schedule are drawn from the schedule and from the sending.
func TestOpenLoop(t *testing.T) {
	r := trips("paced", 200, 4e6, 5)
	r.Load.Rate, r.LatencyRaw = 200, r.Latency
	d := &Document{Title: "open"}
	d.Add("paced", r)
	page := page1(t, d, "MPPS_PAGE_OPEN")
	must.Contain(t, page, "paced, from the schedule", "paced, from the sending", "on a schedule")
}

// TestTwoWays: of traffic both ways each direction has its figures, and mixed frames are called that.
func TestTwoWays(t *testing.T) {
	r := run("both", 8800, 0.02, 6, 3)
	r.Load.TwoWay, r.Load.Mix, r.Load.FrameBytes = true, "imix", 354
	for i := range r.Samples {
		s := &r.Samples[i]
		s.Ways = []measure.Way{{Sent: 100, Received: 90, Lost: 10, PPS: 3000}, {Sent: 100, Received: 100, PPS: 5800}}
	}
	r.Judge()
	rows := labeled{Run: r, Label: "both"}.Directions()
	if len(rows) != 2 || rows[0].Label != "both →" ||
		rateCell(rows[0].Median).Value != "3.00 k" && rateCell(rows[0].Median).Value != "3.0 k" ||
		rows[0].LostShare().Value != "10.0 %" || rows[1].Lost != 0 {
		t.Errorf("found %+v", rows)
	}
	d := &Document{Title: "two ways"}
	d.Add("both", r)
	if page := page1(t, d, ""); !strings.Contains(page,
		"IMIX frames of 354 bytes on average, both directions together") {
		t.Error("the page does not say what was sent")
	}
}

// TestCosts: what threads used stands on the page beside how the CPU time was split, and runs without it have no table.
func TestCosts(t *testing.T) {
	r := run("virtio", 60000, 0.1, 6, 1)
	d := &Document{}
	d.Add("virtio", r)
	if text := page1(t, d, ""); strings.Contains(text, "the busiest") ||
		!strings.Contains(text, "<th class=\"n\">softirq</th>") {
		t.Error("a run whose threads are not known has a table of them, or none of its CPU time")
	}
	for i := range r.Samples {
		r.Samples[i].Threads = []measure.ThreadUse{
			{Role: measure.Vhost, Guest: "<web>", Threads: 1, Seconds: 1.5, NsPerUnit: 8300},
			{Role: measure.VCPU, Guest: "<web>", Threads: 2, Seconds: 3, Busiest: "CPU 0/KVM", BusiestSeconds: 2.25,
				NsPerUnit: 16600},
		}
	}
	text := page1(t, d, "")
	must.Contain(t, text, "vhost of &lt;web&gt;", "vcpu of &lt;web&gt;", "0.75 of 2", "8.3 µs",
		"two views of the same time")
}
