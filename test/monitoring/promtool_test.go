package monitoring

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/change/watch"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// metrics returns the text of a watch that has seen something of everything.
func metrics() string {
	h := facts.Synthetic(facts.Size{CPUs: 16, NICs: 2, Queues: 2, Guests: 2})
	for i := range h.Taps {
		h.Taps[i].Guest = h.Guests[i/2].Name
		h.Taps[i].Stats = map[string]uint64{"rx_packets": 1, "tx_packets": 2, "tx_dropped": 3, "rx_dropped": 4}
	}
	h.NICs[0].Stats = map[string]uint64{"rx_missed_errors": 1, "rx_dropped": 2}
	h.Softnet = []facts.Softnet{{CPU: 0, Dropped: 1}}
	p := watch.PathOf(h)
	p.Judged, p.Limit = true, &watch.Limit{Stage: "vhost", Kind: "vhost.cpu", Object: "vhost-1 (queue 3)"}
	w := watch.New()
	w.Observe(watch.Look{Path: &p, Saw: map[watch.Source]bool{watch.Values: true, watch.Isolated: true},
		Unseen: map[watch.Source]string{watch.Boots: "no boot loader"}, Values: 3, Drifted: 1,
		States:   map[string]int{"waiting": 1, "drifted": 1, "compliant": 1},
		Findings: []watch.Finding{{Source: watch.Isolated, Code: "irq.aimed", Object: "irq 4", Severity: knob.High}}})
	return w.Metrics("1.0")
}

// promtool runs Prometheus's own checker. Where it is not installed the test is skipped; 'make test' demands it.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		must.Need(t, os.Getenv("MPPS_PROMTOOL") != "required",
			"promtool is required and not installed: it is in Debian's package prometheus")
		t.Skip("promtool is not installed: it is in Debian's package prometheus")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = "../../deploy/prometheus"
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "FAILED") {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestMetricsFormat: Prometheus's linter has nothing to say of the metrics.
func TestMetricsFormat(t *testing.T) {
	t.Parallel()
	promtool(t, metrics(), "check", "metrics")
}

// TestRules: the alerts are valid and fire as their tests say, a stopped watch after SIGTERM and after SIGKILL.
func TestRules(t *testing.T) {
	t.Parallel()
	promtool(t, "", "check", "rules", "mpps.rules.yml")
	promtool(t, "", "test", "rules", "mpps.rules_test.yml")
}
