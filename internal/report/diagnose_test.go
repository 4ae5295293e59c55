package report

import (
	"strings"
	"testing"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestDiagnosis(t *testing.T) {
	t.Parallel()
	d := &bottleneck.Diagnosis{
		Seconds: 5, Method: facts.ByTracepoints,
		Why: "vhost-2113 (queue 3) is at 99 % of CPU 17 while vCPUs are at 43 %", Bottleneck: &bottleneck.Bottleneck{
			Kind: bottleneck.Vhost, Stage: "vhost", Object: "vhost-2113 (queue 3)", Confidence: 0.93,
			Advice: "fewer vCPUs, more queues and vhost CPUs", Knobs: []string{"domain.queues", "vhost.threads"},
			Evidence: []bottleneck.Evidence{
				{What: "share of CPU 17 that vhost-2113 (queue 3) used", Value: 0.99, Unit: "share",
					Source: "/proc/2113/task/2117/schedstat"},
				{What: "lost before vm1", Value: 44200, Unit: "packets/s"}, {What: "wait for a CPU, 99th percentile",
					Value: 5240, Unit: "us"}, {What: "queues of vm1", Value: 4, Unit: "queues"},
				{What: "exits of its vCPUs for each packet", Value: 12.4, Unit: "exits"},
				{What: "rounds cut short", Value: 10, Unit: "rounds"}, {What: "vhost threads of vm1", Unit: "threads"},
				{What: "its time for each packet", Value: 246.2, Unit: "us"},
			},
		}, Next: &bottleneck.Bottleneck{Kind: bottleneck.GuestCPU, Say: "vm1 vCPU 2 is at 43 %", Confidence: 0.47},
		Stages: []bottleneck.Stage{{Name: "nic", Object: "eth0", Use: -1, PPS: 1.2e6},
			{Name: "vhost", Object: "vhost-2113 (queue 3)", Use: 0.99, PPS: -1,
				Errors: []bottleneck.Evidence{{What: "lost: tap", Value: 221000, Unit: "packets"}}}},
	}
	text := Draw(80, func(t *Text) { Diagnosis(t, d, &facts.Load{CostMS: 48}, true) })
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	one := strings.Join(strings.Fields(text), " ")
	must.Contain(t, one, "vhost-2113 (queue 3) is at 99 % of CPU 17 while vCPUs are at 43 %", "confidence 93 %", "do fewer vCPUs",
		"knobs domain.queues, vhost.threads", "99 % share of CPU 17",
		"/proc/2113/task/2117/schedstat", "44.2 kpps lost before vm1", "5.24 ms wait", "4 queues of vm1",
		"12.4 exits of its vCPUs", "10 rounds cut short", "0 vhost threads", "246 µs its time",
		"then the guest's CPUs have no time left: vm1 vCPU 2 is at 43 % (47 %)",
		"nic eth0 – 1.20 M", "▶ vhost", "221 k packets lost: tap", "took 48 ms of a CPU")
}
