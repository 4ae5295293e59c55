package wakeup

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/must"
)

func dist(max uint64, beyond uint64, cap uint64, counts ...uint64) Distribution {
	s := sampled{max: max, beyond: beyond, capNs: cap, min: 1000}
	for i, n := range counts {
		s.buckets = append(s.buckets, measure.Bucket{FromNs: uint64(i+1) * 1000, ToNs: uint64(i+1) * 1000, Count: n})
	}
	return s.distribution(TimerWakeup)
}

// TestMerge adds up bucket by bucket, and knows of what lies beyond the histograms no more than both do.
func TestMerge(t *testing.T) {
	a, b := dist(300_000, 3, 100_000, 5, 10), dist(900_000, 20, 100_000, 1, 0, 7)
	m := Merge(a, b, Distribution{})
	l := m.Latency
	must.Need(t, l.Count == 46 && m.Beyond == 23 && l.MinNs == 1000 && l.MaxNs == 900_000 && len(l.Buckets) == 4,
		"%+v", m)
	if last := l.Buckets[3]; last.FromNs != 100_000 || last.ToNs != 900_000 || last.Count != 23 {
		t.Errorf("beyond: %+v", last)
	}
	must.Hold(t, l.Buckets[0].Count == 6 && l.Buckets[1].Count == 10 && l.Buckets[2].Count == 7, "%+v", l.Buckets)
	if p, told := l.Percentile(90); told || p != 0 { // 4.6 samples lie above it
		t.Errorf("the 90th percentile of 46 samples is told as %d", p)
	}
	if merged := Merge(); merged.Latency != nil {
		t.Errorf("nothing merged is %+v", merged)
	}
	if mean := (a.Latency.MeanNs*18 + b.Latency.MeanNs*28) / 46; l.MeanNs < mean-1 || l.MeanNs > mean+1 {
		t.Errorf("mean %g, expected %g", l.MeanNs, mean)
	}
}

// TestNoPercentileBeyondTheLongest: a bucket's upper edge may be.
func TestNoPercentileBeyondTheLongest(t *testing.T) {
	s := sampled{max: 5200, min: 5000, buckets: []measure.Bucket{{FromNs: 5000, ToNs: 5999, Count: 100}}}
	for _, d := range []Distribution{s.distribution(TimerWakeup),
		Merge(s.distribution(TimerWakeup), s.distribution(TimerWakeup))} {
		if p, told := d.Latency.Percentile(50); !told || p != 5200 {
			t.Errorf("median %d of at most 5200", p)
		}
	}
}

// TestAdd: slices of a run, with and without times, and what is known of the worst.
func TestAdd(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r := Run{Started: begin}
	clock := Clock{Host: begin, There: 1000 * time.Second, Off: 10 * time.Millisecond, Known: true}
	at := func(s int) time.Time { return begin.Add(time.Duration(s) * time.Second) }
	r.Add(3, &Output{Threads: []Thread{{CPU: 1, Distribution: dist(400_000, 1, 100_000, 10)},
		{CPU: 2, Distribution: dist(5000, 0, 0, 10)}}}, at(0), at(10), 0, clock)
	if w := r.Worst; w.Ns != 400_000 || w.CPU != 1 || w.When() != "within 0.0 s–10.0 s of run 3" {
		t.Errorf("%s: %+v", w.When(), w)
	}
	out := &Output{Exact: true, Threads: []Thread{{CPU: 1, Distribution: dist(700_000, 1, 100_000, 10)}},
		Long: []Long{{CPU: 1, Ns: 200_000, When: 1011 * time.Second}, {CPU: 1, Ns: 700_000, When: 1013 * time.Second}}}
	r.Add(3, out, at(10), at(20), 100_000, clock)
	if w := r.Worst; w.Ns != 700_000 || w.When() != "13.010 s into run 3" || w.From.Seconds > 12.9894 ||
		w.From.Seconds < 12.98 {
		t.Errorf("%s: %+v", w.When(), w)
	}
	out.Lost = 5
	r.Add(3, out, at(20), at(30), 100_000, clock)
	must.Hold(t, r.Slices[2].TriggerNs == 0 && r.Slices[1].TriggerNs == 100_000 && r.Slices[0].TriggerNs == 0,
		"triggers of %+v", r.Slices)
	must.Hold(t, len(r.Threads) == 2 && r.Threads[0].Latency.Count+r.Threads[1].Latency.Count == r.Latency.Count &&
		r.Latency.Count == 43 && r.Beyond == 3,
		"%d wake-ups on %d threads, %d beyond", r.Latency.Count, len(r.Threads), r.Beyond)
}

// TestTrigger: about as many as there is room for.
func TestTrigger(t *testing.T) {
	d := Distribution{Latency: measure.NewLatency(TimerWakeup,
		[]measure.Bucket{{FromNs: 8000, ToNs: 8000, Count: 49000}, {FromNs: 20000, ToNs: 20000, Count: 900},
			{FromNs: 50000, ToNs: 50000, Count: 100}})}
	if got := Trigger(d, 1); got != 20_000 {
		t.Errorf("of one slice %d", got)
	}
	if got := Trigger(d, 0.1); got != 50_000 {
		t.Errorf("of a tenth %d", got)
	}
	if got := Trigger(Distribution{}, 1); got != 0 {
		t.Errorf("of none %d", got)
	}
}

// TestFile: what was written is read, and what no measurement wrote is refused.
func TestFile(t *testing.T) {
	f := scene{seed: 1, seconds: 20, exact: true, long: 3}.file()
	f.Schema = Schema
	var text bytes.Buffer
	must.Do(t, Encode(&text, f))
	again, err := Decode(strings.NewReader(text.String()))
	must.Need(t, err == nil && again.Total.Latency.Count == f.Total.Latency.Count &&
		len(again.Counted.Sources) == len(f.Counted.Sources), "%v", err)
	wrapped := `{"schema":"mpps.latency/1","result":` + text.String() + `}`
	if again, err = Decode(strings.NewReader(wrapped)); err != nil ||
		again.Total.Latency.Count != f.Total.Latency.Count {
		t.Errorf("out of an answer: %v", err)
	}
	for _, broken := range []string{"", "{}", "[]", `{"schema":"mpps.run/1"}`, `{"schema":"mpps.latency-run/1"}`,
		`{"schema":"mpps.latency-run/1","runs":5}`, text.String()[:text.Len()/2],
		strings.Replace(text.String(), `"deltas":[`, `"deltas":[1,`, 1)} {
		must.Is(t, must.Err(Decode(strings.NewReader(broken))), ErrNotAFile, "%.40q", broken)
	}
}

// TestCompare: six runs a side whose longest differ, and what else differs.
func TestCompare(t *testing.T) {
	file := func(longest uint64) *File {
		f := &File{Schema: Schema, Tool: Tool{Name: "cyclictest"}}
		for i := range uint64(6) {
			r := Run{Distribution: dist(longest+i*1000, 1, 10_000, 1000, 20)}
			f.Runs = append(f.Runs, r)
			f.Total = Merge(f.Total, r.Distribution)
		}
		return f
	}
	before, after := file(1_475_000), file(12_000)
	c := Compare(before, after)
	must.Hold(t, c.Longest.Significant && len(c.Warnings) == 0 &&
		c.Rows[len(c.Rows)-1] == (Row{"max", 1_480_000, 17_000}), "%+v", c)
	after.Tool.Name, after.Asked.Load = "own", "none"
	if c = Compare(before, after); len(c.Warnings) != 2 || c.Warnings[0].Code != "different-tool" {
		t.Errorf("%+v", c.Warnings)
	}
	if c = Compare(before, before); c.Longest.Significant {
		t.Error("it differs from itself")
	}
}

// TestPrograms: what each tool is started with.
func TestPrograms(t *testing.T) {
	asked := Asked{CPUs: []int{1, 3}, Interval: 200 * time.Microsecond, Priority: 95}
	want := map[string]string{
		"cyclictest": "cyclictest -q -m -p 95 -i 200 -d 0 -t 2 -a 1,3 -D 10 -h 100000 --json=- --histfile=/dev/null " +
			"--spike=42 --spike-nodes=4096",
		"timerlat": "rtla timerlat hist -c 1,3 -d 10s -p 200 -P f:95 -E 20000",
		"own":      "mpps latency loop --cpu 1,3 --for 10s --interval 200µs --priority 95",
		"oslat":    "oslat -q -c 1,3 -D 10 -b 1024 -f 95 --json=-",
	}
	for _, p := range Programs("mpps") {
		must.Try(t, p.CheckProbe("cyclictest V 2.40 timerlat loop --json=FILENAME --spike-nodes=[num of nodes]"))
		if got := strings.Join(p.Start(asked, 10*time.Second, 42_000), " "); got != want[p.Name] {
			t.Errorf("%s\nexpected %s", got, want[p.Name])
		}
		must.Refuse(t, p.CheckProbe("command not found"), "%s took what is not its own", p.Name)
	}
	old := Programs("mpps")[0]
	if err := old.CheckProbe("cyclictest V 1.00\n-h --histogram=US"); err != nil || old.Exact() {
		t.Errorf("%v, exact %v", err, old.Exact())
	}
	if got := strings.Join(old.Start(asked, time.Second, 42_000), " "); strings.Contains(got, "--") {
		t.Errorf("an old one is started with %s", got)
	}
	must.Hold(t, VersionIn("cyclictest V 1.00\n") == "1.00" && VersionIn("none") == "", "version")
}
