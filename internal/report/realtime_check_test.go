package report

import (
	"fmt"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/realtime"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func TestRealtimeCheckDraws(t *testing.T) {
	r := &realtime.Report{
		State: realtime.Contradicted, Verdict: "CPUs 2-3 (isolcpus): 6 contradictions and intruders, 1 high, 5 low",
		Scope: realtime.Scope{CPUs: setting.CPUs(2, 3)}, House: setting.CPUs(0,
			1), Guests: []string{"rt1"}, Seconds: 5, Watching: 12, Findings: []realtime.Finding{
			{ID: "irq.came", Object: "irq 40 nvme0q1", Severity: knob.High, Found: "it came 7 times in 5.0 s to CPU 2",
				Why: "each interrupt takes the vCPU out of the guest", Do: "nothing can move it"},
		}, Unjudged: []realtime.Unjudged{{What: "irqbalance", Why: "its environment could not be read"}},
	}
	for i := range 6 {
		r.Findings = append(r.Findings, realtime.Finding{
			ID: "irq.may", Object: fmt.Sprintf("irq %d eth0",
				50+i), Severity: knob.Low, Found: "its mask is 0-3", Why: "the kernel may choose again",
			Do: "mpps plan moves it", Knob: "rt.irq_affinity", Mendable: true,
		})
	}
	for i := range 20 {
		r.Ran = append(r.Ran, realtime.Ran{Thread: fmt.Sprintf("kworker/2:%d (%d)", i, 60+i), Of: "kernel", CPU: 2,
			RunMS: 0.1, Switches: 1, Policy: "SCHED_OTHER", Expected: i > 0})
	}
	for _, verbose := range []bool{false, true} {
		drawn := Draw(80, func(t *Text) { RealtimeCheck(t, r, verbose) })
		for _, want := range []string{
			"the host keeps CPUs 0-1; guests rt1; watched for 5.0 s, which took 12 ms of a\nCPU\n",
			"\nhigh     irq 40 nvme0q1: it came 7 times in 5.0 s to CPU 2\n         each interrupt takes the vCPU " +
				"out of the guest\n         nothing can move it\n         (irq.came)\n",
			"\nlow      irq 50 eth0: its mask is 0-3\n         irq 51 eth0: its mask is 0-3\n",
			"         do: mpps plan moves it\n         (irq.may; mpps explain rt.irq_affinity)\n",
			"\n!  kworker/2:0 (60)   kernel  2    0.1  1      OTHER\n   kworker/2:1 (61)",
			"\n  irqbalance: its environment could not be read\n",
		} {
			must.Hold(t, strings.Contains(drawn, want), "verbose %v: expected %q in\n%s", verbose, want, drawn)
		}
		must.Hold(t, strings.Contains(drawn, "irq 55 eth0") == verbose &&
			strings.Contains(drawn, "and 2 more like these") != verbose &&
			strings.Contains(drawn, "and 8 more") != verbose, "verbose %v:\n%s", verbose, drawn)
		must.Fit(t, drawn, 80, Visible)
	}
	if drawn := Draw(80, func(t *Text) {
		RealtimeCheck(t, &realtime.Report{State: realtime.NotIsolated, Verdict: "no CPU is set aside"}, false)
	}); !strings.Contains(drawn, "mpps plan --latency 20us\n--cpus LIST") || strings.Contains(drawn, "the host keeps") {
		t.Error(drawn)
	}
}
