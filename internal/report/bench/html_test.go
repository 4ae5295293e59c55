package bench

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/report"
)

// run makes a packet run of n samples around a rate, with a CPU split.
func run(label string, rate, spread float64, n int, seed uint64) *measure.Run {
	random := rand.New(rand.NewPCG(seed, seed))
	r := &measure.Run{Schema: measure.Schema, Kind: measure.PPS, Name: label, LimitedBy: measure.ByDevice,
		Load:        measure.Load{FrameBytes: 64, Flows: 16, Duration: 3 * time.Second},
		Environment: measure.Environment{Generator: "xdp", Sink: "xdp", FarKernel: "6.12.1"}}
	var values []float64
	for range n {
		pps := rate * (1 + spread*(random.Float64()*2-1))
		values = append(values, pps)
		received := uint64(pps * 3)
		s := measure.Sample{PPS: pps, Sent: 60000, Received: received, Lost: 60000 - received, Seconds: 3}
		cpu := measure.MachineCPU{Where: "host", Seconds: 3}
		for c := range 4 {
			cpu.CPUs = append(cpu.CPUs, measure.CPUUse{CPU: c, Guest: float64(c) * 0.5, SoftIRQ: 0.4, System: 0.3,
				User: 0.2, Steal: 0.1, Idle: 2 - float64(c)*0.5})
		}
		s.CPU = []measure.MachineCPU{cpu}
		r.Samples = append(r.Samples, s)
		r.Sent, r.Received, r.Lost = r.Sent+s.Sent, r.Received+s.Received, r.Lost+s.Lost
	}
	r.Median = measure.Median(values)
	r.Losses = []measure.Loss{{Counter: measure.Counter{Where: "host", Interface: "vnet0", Name: "tx_dropped"},
		Packets: r.Lost}}
	r.CPUNsPerPacket = 3e9 / rate
	r.CPUNsPerUnit = r.CPUNsPerPacket
	for i := range r.Samples {
		r.Samples[i].CPUNsPerUnit = 3e9 / r.Samples[i].PPS
	}
	return r
}

// trips makes a transaction run whose latencies lie around a median, in nanoseconds.
func trips(label string, rate float64, median uint64, seed uint64) *measure.Run {
	r := run(label, rate, 0.1, 6, seed)
	r.Kind = measure.RR
	for i := range r.Samples {
		r.Samples[i].TPS = r.Samples[i].PPS
	}
	var buckets []measure.Bucket
	for i := range uint64(60) {
		from := median/2 + i*i*median/100
		buckets = append(buckets, measure.Bucket{FromNs: from, ToNs: from + median/50, Count: 40000 / (1 + i*i*i)})
	}
	r.Latency = measure.NewLatency("round-trip", buckets)
	for i := range r.Samples {
		var own []measure.Bucket
		for j, b := range buckets {
			own = append(own, measure.Bucket{FromNs: b.FromNs, ToNs: b.ToNs * uint64(100+(i-3)*j/10) / 100,
				Count: b.Count / 6})
		}
		r.Samples[i].Latency = measure.NewLatency("round-trip", own)
	}
	return r
}

func document() *Document {
	before, after, again := run("before", 620, 0.12, 6, 1), run("after", 8800, 0.08, 6, 2),
		run("rolled back", 640, 0.1, 6, 3)
	c := measure.Compare(before.Values(), after.Values())
	rr := measure.Compare([]float64{200, 210, 205, 190}, []float64{420, 400, 450, 430})
	return &Document{
		Schema: DocumentSchema, Title: "mpps demo: one guest on one host",
		Made: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), Version: "0.1.0",
		Seconds: 214, Host: HostLine{Name: "l1", Kernel: "6.12.94", CPU: "AMD EPYC-Rome", CPUs: 4, Nodes: 2,
			Memory: 6 << 30, Emulated: true},
		Goal: "500k packets per second of 64 bytes without loss", Path: []Stop{
			{Stage: "sender", Name: "veth", Before: "XDP live frames", Packets: 60000},
			{Stage: "bridge", Name: "br0", Before: "frames run through 40 iptables rules",
				After: "frames skip iptables"},
			{Stage: "tap", Name: "vnet0", Before: "1 queue", After: "2 queues", Lost: 52000},
			{Stage: "vhost", Name: "vhost-812", Before: "none: QEMU emulates registers",
				After: "2 threads on CPUs 0 and 1"},
			{Stage: "guest", Name: "web1", Before: "e1000", After: "virtio, 2 queues, vCPUs pinned to 2-3"},
		}, Series: []Series{{Label: "before", Run: before, RR: trips("before", 200, 4e6, 5)},
			{Label: "after", Run: after, RR: trips("after", 430, 2e6, 6)}, {Label: "rolled back", Run: again}},
		Compared: &Compared{From: "before", To: "after", Throughput: c, RoundTrips: &rr},
		Changes: []report.ChangeRow{{ID: "domain.nic_model", Title: "Model of the guest's NIC", Stage: "domain",
			Address: "domain:web1/interface/52:54:00:00:00:01/model", From: "e1000", To: "virtio",
			Because: "an emulated e1000 costs several exits a packet", Risk: "guest-restart",
			Lasts: "in the guest's definition",
			Needs: "restart of guest web1", Undo: "mpps rollback 20261120T120000-ab12"},
			{ID: "netfilter.bridge", Title: "Bridged frames skip iptables", Stage: "netfilter",
				Address: "sysfs:class/net/br0/bridge/nf_call_iptables", From: "1", To: "0",
				Because: "every bridged frame runs through 40 rules that match none of them <script>", Risk: "security",
				Lasts: "until reboot", Undo: "mpps rollback"}},
		Refused: []report.ChangeRow{{ID: "nic.ring.rx", Title: "Receive descriptors",
			Because: "no counters over an interval: no verdict"}},
		Rollback: &RollbackRow{Identical: true, Compared: 412, Seconds: 3.2},
		Warnings: []report.Caveat{{Warning: report.Warning{Code: "emulated",
			Text: "The host runs under software emulation."}, Hint: "Repeat on hardware before you rely on a figure."}},
		Method: []string{"Before, after and rolled back were measured in this order, each after a start of the guest."},
	}
}

func TestHTMLStandsAlone(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, HTML(&b, document()))
	page := b.String()
	if file := os.Getenv("MPPS_PAGE"); file != "" {
		must.Do(t, os.WriteFile(file, b.Bytes(), 0o644))
	}
	must.Lack(t, page, "http://", "https://", "src=", "@import", "url(", "<script>", "ZgotmplZ", "NaN", "%!")
	must.Contain(t, page, "13× more packets", "identical", "e1000", "tx_dropped", "prefers-color-scheme", "rolled back")
	data := regexp.MustCompile(`(?s)id="mpps-data">(.*?)</script>`).FindStringSubmatch(page)
	if data == nil {
		t.Fatal("no embedded data")
	}
	var back Document
	if err := json.Unmarshal([]byte(data[1]), &back); err != nil {
		t.Fatalf("embedded data: %v", err)
	}
	must.Hold(t, len(back.Changes) == 2 && back.Series[1].Run.Median.Value == document().Series[1].Run.Median.Value,
		"embedded data came back as %+v", back)
}

func TestHTMLOfLittle(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, HTML(&b, &Document{Title: "one run", Series: []Series{{Label: "run", Run: run("run", 1000, 0, 1, 1)}}}))
	if page := b.String(); strings.Contains(page, "NaN") || strings.Contains(page, "Put back") {
		t.Error("a page of one run shows what it has not")
	}
}

func TestVerdictIsHonest(t *testing.T) {
	d := document()
	same := measure.Compare([]float64{100, 101, 99, 100, 102, 98}, []float64{100, 99, 101, 100, 98, 102})
	d.Compared.Throughput = same
	must.Equal(t, Verdict(d), "No significant difference in packets per second.", "verdict on equal series")
	same.Warnings = []measure.Warning{{Code: "different-flows", Text: "different flows: 1 and 4"}}
	d.Compared.Throughput = same
	if have := Verdict(d); !strings.HasSuffix(have, "The load was not the same: different flows: 1 and 4.") {
		t.Errorf("verdict %q on runs with other flows", have)
	}
	d.Compared.Throughput = measure.Compare([]float64{100}, []float64{200})
	if have := Verdict(d); !strings.HasPrefix(have,
		"Too few trials to tell a difference in packets per second: 1 sample a side") {
		t.Errorf("verdict %q on one trial a side", have)
	}
	worse := measure.Compare([]float64{1000, 1010, 990, 1005, 1002, 998}, []float64{500, 510, 490, 505, 502, 498})
	d.Compared.Throughput = worse
	if have := Verdict(d); !strings.HasPrefix(have, "Worse: 0.5× the packets") {
		t.Errorf("verdict %q on a loss of half", have)
	}
}
