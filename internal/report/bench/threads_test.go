package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mpps/internal/measure"
	"mpps/internal/must"
	"mpps/internal/report"
)

// TestThreadsAreDrawn: what vhost and the vCPUs cost stands in 80 columns, the largest first and the small ones
// counted.
func TestThreadsAreDrawn(t *testing.T) {
	s := measure.Sample{Received: 1000, Seconds: 1, CPUNsPerUnit: 900_000,
		CPU: []measure.MachineCPU{{Where: "host", Seconds: 1,
			CPUs: []measure.CPUUse{{SoftIRQ: 0.3, Guest: 0.6, Idle: 3.1}}}}}
	s.Threads = []measure.ThreadUse{
		{Role: measure.Vhost, Guest: "a guest with a name that is far too long for a table", Threads: 1, Seconds: 0.5,
			Waited: 0.125, NsPerUnit: 500_000},
		{Role: measure.VCPU, Guest: "web", Threads: 2, Seconds: 0.75, Busiest: "CPU 1/KVM", BusiestSeconds: 0.5,
			NsPerUnit: 750_000},
		{Role: measure.KSoftIRQ, Threads: 4, Seconds: 0.0001, NsPerUnit: 100},
	}
	for i := range mostThreads {
		s.Threads = append(s.Threads, measure.ThreadUse{Role: measure.Emulator, Guest: string(rune('a' + i)),
			Threads: 1, Seconds: 0.01, NsPerUnit: 10_000})
	}
	run := &measure.Run{Kind: measure.PPS, Load: measure.Load{Duration: time.Second, Repeat: 1},
		Samples: []measure.Sample{s}}
	var out bytes.Buffer
	answer := report.Answer{Verb: "bench-pps", Text: func(text *report.Text) { drawThreads(text, run) }}
	must.Do(t, report.NewPrinter(&out, &out, report.Options{}).Answer(answer))
	text := out.String()
	must.Contain(t, text, "ns/packet", "softirq 300k guest 600k", "vcpu of web", "0.50 of 2",
		"vhost of a guest", "0.12", "2 more used less", "softirqs")
	must.Hold(t, strings.Index(text, "vcpu of web") <= strings.Index(text, "vhost of") &&
		!strings.Contains(text, "ksoftirqd"), "not the largest first, or something that did not run:\n%s", text)
	must.Fit(t, text, 80, report.Visible)
}
