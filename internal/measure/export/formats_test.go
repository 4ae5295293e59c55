package export

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"mpps/internal/measure"
	"mpps/internal/must"
)

const goarch = runtime.GOARCH

func one(t *testing.T, name string) (*measure.Run, *Set) {
	s := &Set{Version: "0.1.0"}
	s.Add("", recorded(t, name))
	return s.Runs[0].Run, s
}

// fields are the lines of netperf's form.
func fields(t *testing.T, text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		must.Need(t, ok && strings.ToUpper(key) == key && value != "", "found %q, expected KEY=VALUE", line)
		all[key] = value
	}
	return all
}

func TestNetperfUnits(t *testing.T) {
	r, s := one(t, "rr")
	have := fields(t, written(t, Netperf, s))
	number := func(key string) float64 {
		v, err := strconv.ParseFloat(have[key], 64)
		must.Succeed(t, err, "%s", key)
		return v
	}
	p99, _ := r.Latency.Percentile(99)
	for key, want := range map[string]float64{ // microseconds from nanoseconds
		"THROUGHPUT": r.Median.Value, "TRANSACTION_RATE": r.Median.Value, "RT_LATENCY": 1e6 / r.Median.Value,
		"P99_LATENCY":  float64(p99) / 1e3,
		"MEAN_LATENCY": r.Latency.MeanNs / 1e3, "LOCAL_SD": r.CPUNsPerUnit / 1e3,
		"THROUGHPUT_CONFID": (r.Median.Hi - r.Median.Lo) / r.Median.Value * 100,
	} {
		if got := number(key); math.Abs(got-want) > 0.01 {
			t.Errorf("%s is %v, expected %v", key, got, want)
		}
	}
	// The mean of the times and what the rate makes of one connection are two ways to the same.
	if mean, rt := number("MEAN_LATENCY"), number("RT_LATENCY"); math.Abs(mean-rt) > rt/5 {
		t.Errorf("MEAN_LATENCY %v and RT_LATENCY %v lie apart", mean, rt)
	}
	must.Hold(t, have["THROUGHPUT_UNITS"] == "Trans/s" && have["DIRECTION"] == "Send|Recv" &&
		have["CONFIDENCE_LEVEL"] == "75" && have["SD_UNITS"] == "usec/Tran", "found %v", have)
	if util := number("LOCAL_CPU_UTIL"); util <= 0 || util > 100 {
		t.Errorf("LOCAL_CPU_UTIL is %v %%", util)
	}

	r, s = one(t, "stream")
	have = fields(t, written(t, Netperf, s))
	must.Hold(t, number("THROUGHPUT") == math.Round(r.Median.Value/1e4)/100 &&
		have["THROUGHPUT_UNITS"] == "10^6bits/s" && have["SD_UNITS"] == "usec/KB",
		"found %v, expected %v in 10^6bits/s", have, r.Median.Value)
	if _, there := have["P50_LATENCY"]; there {
		t.Error("a stream has no latency")
	}
}

// Few values have no percentile 99: it is left out and not made up.
func TestPercentilesWithinSamples(t *testing.T) {
	r, s := one(t, "rr")
	few := measure.NewLatency("round-trip", []measure.Bucket{{FromNs: 1000, ToNs: 1001, Count: 150},
		{FromNs: 2000, ToNs: 2003, Count: 50}})
	r.Latency = few
	for i := range r.Samples {
		r.Samples[i].Latency = few
	}
	for f, absent := range map[Format]string{Netperf: "P99_LATENCY", GoBench: "p99-ns", Prometheus: `quantile="0.99"`} {
		if text := written(t, f, s); strings.Contains(text, absent) {
			t.Errorf("%s tells %s of 200 values", f, absent)
		}
	}
	records := must.Get(csv.NewReader(strings.NewReader(written(t, CSV, s))).ReadAll())(t)
	at := slices.Index(records[0], "latency_p99_ns")
	if records[1][at] != "" || records[1][at-1] != "2003" {
		t.Errorf("p90 and p99 of 200 values are %q", records[1][at-1:at+1])
	}
}

// shape lists the members of a JSON value with their kinds; elements of lists are one.
func shape(prefix string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			shape(prefix+"."+name, member, into)
		}
	case []any:
		into[prefix] = "list"
		for _, element := range v {
			shape(prefix+"[]", element, into)
		}
	default:
		into[prefix] = reflect.TypeOf(v).String()
	}
}

func shapeOf(t *testing.T, text []byte) map[string]string {
	var v any
	must.Do(t, json.Unmarshal(text, &v))
	into := map[string]string{}
	shape("", v, into)
	return into
}

// TestIPerf3Shape compares with answers of iperf3 3.12 itself: no member that it does not have, none of another kind,
// and those that its readers look for are there.
func TestIPerf3Shape(t *testing.T) {
	for name, files := range map[string][]string{"pps": {"udp", "udp-server"}, "stream": {"tcp"}} {
		real := map[string]string{".title": "string"} // with -T
		for _, file := range files {
			text := must.Get(os.ReadFile(filepath.Join("testdata", "iperf3-3.12-"+file+".json")))(t)
			for member, kind := range shapeOf(t, text) {
				real[member] = kind
			}
		}
		_, s := one(t, name)
		ours := shapeOf(t, []byte(written(t, IPerf3, s)))
		for member, kind := range ours {
			if !strings.HasPrefix(member, ".mpps") && real[member] != kind {
				t.Errorf("%s: %s is a %s, iperf3 has %q there", name, member, kind, real[member])
			}
		}
		for _, member := range []string{".start.version", ".start.timestamp.timesecs", ".start.test_start.protocol",
			".intervals[].sum.bits_per_second",
			".end.sum_sent.bits_per_second", ".end.sum_received.bits_per_second", ".end.sum_received.bytes",
			".end.cpu_utilization_percent.host_total"} {
			must.Hold(t, ours[member] != "", "%s: %s is missing", name, member)
		}
	}
}

func TestIPerf3Counts(t *testing.T) {
	r, s := one(t, "pps")
	var have iperf
	must.Do(t, json.Unmarshal([]byte(written(t, IPerf3, s)), &have))
	if sum := have.End.Sum; *sum.Packets != r.Sent || *sum.LostPackets != r.Lost ||
		math.Abs(*sum.LostPercent-float64(r.Lost)/float64(r.Sent)*100) > 1e-9 || r.Lost == 0 {
		t.Errorf("found %d packets, %d lost, %v %%", *sum.Packets, *sum.LostPackets, *sum.LostPercent)
	}
	if have.Start.Test.Block != 18 || have.End.Sent.Bytes != r.Sent*18 { // the smallest frame carries 18 bytes over UDP
		t.Errorf("datagrams of %d bytes, %d bytes sent", have.Start.Test.Block, have.End.Sent.Bytes)
	}
	var packets uint64
	for i, interval := range have.Intervals {
		packets += *interval.Sum.Packets
		if i > 0 && interval.Sum.Start != have.Intervals[i-1].Sum.End {
			t.Errorf("interval %d begins at %v", i, interval.Sum.Start)
		}
	}
	must.Hold(t, packets == r.Sent && len(have.Intervals) == len(r.Samples),
		"%d intervals of %d packets", len(have.Intervals), packets)
}

// TestBenchstatReads reads the lines with benchstat's own reader and compares what it makes of the two sides.
func TestBenchstatReads(t *testing.T) {
	ab := compared(t)
	s := set(t, GoBench)
	reader := benchfmt.NewReader(strings.NewReader(written(t, GoBench, s)), "run")
	values := map[string][]float64{}
	n := 0
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(record)
		case *benchfmt.Result:
			n++
			must.Hold(t, record.Iters == 1 && record.GetConfig("pkg") == "mpps" && record.GetConfig("cpu") != "",
				"found %+v", record)
			base, parts := record.Name.Parts()
			if last := string(parts[len(parts)-1]); last[0] != '/' || !strings.Contains(last, "=") {
				t.Errorf("the name %s %q ends in a number of processors", base, parts)
			}
			for _, v := range record.Values {
				key := fmt.Sprint(string(base), record.GetConfig("side"), v.Unit)
				values[key] = append(values[key], v.Value)
			}
		}
	}
	must.Do(t, reader.Err())
	must.Hold(t, n == 3*5, "found %d lines, expected one for each of 3 trials of 5 runs", n)
	must.Equal(t, reader.Units().GetBetter("pkt/s"), 1, "better packets")
	if have := values["PPSafterpkt/s"]; !slices.Equal(have, ab.AfterRun.Values()) {
		t.Errorf("found %v, expected %v", have, ab.AfterRun.Values())
	}
	if cost := values["PPSsec/pkt-cpu"]; len(cost) != 3 ||
		math.Abs(cost[0]*1e9-recorded(t, "pps").Samples[0].CPUNsPerUnit) > 1e-3 {
		t.Errorf("cost in seconds: %v", cost)
	}
	before := benchmath.NewSample(values["PPSbeforepkt/s"], &benchmath.DefaultThresholds)
	if summary := benchmath.AssumeNothing.Summary(before,
		0.95); math.Abs(summary.Center-ab.BeforeRun.Median.Value) > 1e-6 {
		t.Errorf("benchstat's median is %v, ours %v", summary.Center, ab.BeforeRun.Median.Value)
	}
}

func TestBenchName(t *testing.T) {
	r := &measure.Run{Kind: measure.PPS, From: measure.Endpoint{Where: "netns:A", Interface: "veth-1"},
		To: measure.Endpoint{Where: "agent 10.0.0.2:7878"}, Load: measure.Load{FrameBytes: 64}}
	const want = "BenchmarkPPS/run=virtio,_4:8/from=netns:A:veth-1/to=agent@10.0.0.2:7878/flows=1/frame=64"
	if have := benchName(Labeled{Label: "virtio, 4/8", Run: r}); have != want {
		t.Errorf("found %q, expected %q", have, want)
	}
}

func TestCSV(t *testing.T) {
	_, s := one(t, "pps")
	s.Runs[0].Label = "a \"quoted\",\nname"
	text := written(t, CSV, s)
	if !strings.HasPrefix(text, strings.Join(header, ",")+"\r\n") {
		t.Errorf("the header is %q", text[:60])
	}
	records := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
	must.Hold(t, len(records) == 4 && records[1][0] == s.Runs[0].Label,
		"found %d lines, %q", len(records), records[1][0])
	if at := slices.Index(records[0], "transactions"); records[1][at] != "" {
		t.Errorf("a packet run has %q transactions", records[1][at])
	}
}

// TestHDRLog reads the log with the library's reader: counts and percentiles are those of the run.
func TestHDRLog(t *testing.T) {
	r, s := one(t, "rr")
	text := written(t, HDR, s)
	must.Hold(t, strings.Contains(text, "#[Histogram log format version 1.3]\n"), "the log begins with %.100q", text)
	reader := hdrhistogram.NewHistogramLogReader(strings.NewReader(text))
	var sum *hdrhistogram.Histogram
	for i := 0; ; i++ {
		h, err := reader.NextIntervalHistogram()
		if err == io.EOF || err == nil && h == nil {
			break
		}
		must.Do(t, err)
		if want := r.Samples[i].Latency; uint64(h.TotalCount()) != want.Count || h.Tag() != "one_connection" {
			t.Errorf("interval %d: %d values tagged %q, expected %d", i, h.TotalCount(), h.Tag(), want.Count)
		}
		if h.StartTimeMs() < r.Started.UnixMilli()-1000 || h.EndTimeMs() <= h.StartTimeMs() {
			t.Errorf("interval %d is from %d to %d", i, h.StartTimeMs(), h.EndTimeMs())
		}
		if sum == nil {
			sum = h
		} else if dropped := sum.Merge(h); dropped > 0 {
			t.Errorf("%d values were too long", dropped)
		}
	}
	if sum == nil {
		t.Fatal("the log has no interval")
	}
	step := 100 / float64(r.Latency.Count) // ranks are rounded differently
	for _, p := range r.Latency.Percentiles {
		have, lo, hi := float64(sum.ValueAtQuantile(p.P)), float64(r.Latency.At(p.P-step)),
			float64(r.Latency.At(p.P+step))
		if have < lo*0.999 || have > hi*1.001 {
			t.Errorf("p%g is %v ns, expected %v to %v", p.P, have, lo, hi)
		}
	}
	if have := float64(sum.Max()); math.Abs(have-float64(r.Latency.MaxNs)) > 0.001*have+1 {
		t.Errorf("the longest is %v ns, expected %d", have, r.Latency.MaxNs)
	}
}

// TestOpenLoop: an open loop has its delays twice, from the schedule and from the sending, and its lost requests.
func TestOpenLoop(t *testing.T) {
	r, s := one(t, "rr")
	r.Load.Rate, r.Load.Protocol = 1000, "udp"
	for i := range r.Samples {
		sample := &r.Samples[i]
		raw := *sample.Latency
		sample.Latency.Loop, sample.Latency.Since, raw.Loop, raw.Since = "open", "scheduled", "open", "sent"
		sample.LatencyRaw = &raw
		sample.Sent, sample.Lost = sample.Transactions+7, 7
	}
	r.Judge()
	log := written(t, HDR, s)
	must.Hold(t, strings.Count(log, "Tag=one_connection,") == 3 && strings.Count(log, "Tag=one_connection_sent,") == 3,
		"found %q", log)
	series := must.Get(parsed(written(t, Prometheus, s)))(t)
	const name = `{kind="rr",run="one connection",host="h1",from="netns:A/eth0",to="netns:B/eth0"`
	must.Equal(t, series["mpps_bench_lost_requests"+name+"}"], 21, "lost requests")
	for _, since := range []string{"scheduled", "sent"} {
		if series[`mpps_bench_latency_seconds_count`+name+`,what="round-trip",loop="open",since="`+since+`"}`] == 0 {
			t.Errorf("no delays since %s", since)
		}
	}
	have := fields(t, written(t, Netperf, s))
	if _, there := have["RT_LATENCY"]; there || have["PROTOCOL"] != "UDP" {
		t.Errorf("found %v, expected UDP and no time that follows from a rate that was set", have)
	}
	if lines := written(t, GoBench, s); !strings.Contains(lines, "/protocol=udp/rate=1000/") ||
		!strings.Contains(lines, " loss-%") {
		t.Errorf("found %s", lines)
	}
}

// TestModes: of a campaign a format has what it has a place for.
func TestModes(t *testing.T) {
	rr, stream := recorded(t, "rr"), recorded(t, "stream")
	m := &measure.Modes{Runs: []measure.Run{*rr, *stream, {Kind: measure.PPS}},
		Rows: []measure.ModeRow{{Mode: "vhost", Workload: "rr"}, {Mode: "vhost", Workload: "bulk"},
			{Mode: "vhost", Workload: "pps"}}}
	for f, want := range map[Format][]string{HDR: {"vhost"}, IPerf3: {"vhost bulk"}, CSV: {"vhost", "vhost bulk"}} {
		s := &Set{}
		s.AddModes(m, f)
		var have []string
		for _, l := range s.Runs {
			have = append(have, l.Label)
		}
		must.Hold(t, slices.Equal(have, want), "%s has %q, expected %q", f, have, want)
	}
	must.Is(t, Write(io.Discard, CSV, &Set{}), ErrNoPlace, "nothing at all gave")
}
