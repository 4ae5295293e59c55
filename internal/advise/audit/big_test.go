package audit

import (
	"runtime"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// big is a host at the upper end in the worst state: nothing is as it should be, so that every value makes a finding.
func big() *facts.Host {
	h := facts.Synthetic(facts.Large)
	h.Interval = &facts.Interval{Seconds: 2, Softnet: []facts.Softnet{{Processed: 1e7, Dropped: 9, Squeezed: 9}}}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		switch a.Kind {
		case setting.SysfsCPUs, setting.IRQAffinity, setting.ThreadAffinity:
			h.Readings[a] = setting.Value("0-255")
		case setting.Domain:
			h.Readings[a] = setting.Missing("not in the definition")
		default:
			h.Readings[a] = setting.Value("1")
		}
	}
	return h
}

func BenchmarkAudit(b *testing.B) {
	h := big()
	b.ReportAllocs()
	for b.Loop() {
		r := Run(h, goal.Unlimited(), knob.Catalogue())
		b.ReportMetric(float64(len(r.Findings)), "findings")
	}
}

func BenchmarkAddresses(b *testing.B) {
	h := facts.Synthetic(facts.Large)
	b.ReportAllocs()
	for b.Loop() {
		b.ReportMetric(float64(len(knob.Addresses(h, knob.Catalogue()))), "addresses")
	}
}

// TestLargeHost holds the audit of a large host to the memory that it may take; BenchmarkAudit measures the time.
func TestLargeHost(t *testing.T) {
	h := big()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := Run(h, goal.Unlimited(), knob.Catalogue())
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 260<<20 {
		t.Errorf("the audit allocated %d MiB; expected at most 260", n>>20)
	}
	must.Hold(t, len(r.Findings) >= 5000 && r.Counts[Off] >= 1000,
		"%d findings, %d off; expected thousands", len(r.Findings), r.Counts[Off])
}
