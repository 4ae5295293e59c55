package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestIntervalOfRecordedServer: a server whose softirqs were squeezed 1913 times since boot, and not once while it was
// recorded, at 105,000 packets. Totals say nothing; the interval says that all is well, or that it is not.
func TestIntervalOfRecordedServer(t *testing.T) {
	corpus := os.Getenv("MPPS_CORPUS")
	if corpus == "" {
		corpus = "../../../shared/corpus"
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(corpus, "hosts", "softnet_stat", name))
		if err != nil {
			t.Skip("the recorded server is not here: set MPPS_CORPUS")
		}
		return string(text)
	}
	look := func(softnet string) *facts.Host {
		root := t.TempDir()
		for name, text := range map[string]string{
			"proc/net/softnet_stat": softnet, "proc/sys/net/core/netdev_budget": "300\n",
			"proc/sys/net/core/netdev_max_backlog": "1000\n",
			"proc/cpuinfo":                         "processor\t: 0\nphysical id\t: 0\ncore id\t\t: 0\n",
		} {
			file := filepath.Join(root, name)
			must.Do(t, os.MkdirAll(filepath.Dir(file), 0o755))
			must.Do(t, os.WriteFile(file, []byte(text), 0o644))
		}
		m := must.Get(machine.Open(root))(t)
		defer m.Close()
		h := m.Inventory(t.Context())
		machine.Read(t.Context(), m.Mechanisms(), h, knob.Addresses(h, knob.Catalogue()))
		return h
	}
	before, after := look(read("softnet_stat1")), look(read("softnet_stat5"))
	squeezed := look(strings.Replace(read("softnet_stat5"), " 000001b3 ", " 000001c3 ", 1))
	judge := func(h *facts.Host, over bool, sysctl string) audit.Finding {
		t.Helper()
		h.Interval = nil
		if over {
			h.Taken = before.Taken.Add(time.Second)
			h.Interval = facts.Between(before, h)
		}
		for _, f := range audit.Run(h, goal.Unlimited(), knob.Catalogue()).Findings {
			if f.Address == setting.Of(setting.Sysctl, sysctl) {
				return f
			}
		}
		t.Fatalf("no finding of %s", sysctl)
		return audit.Finding{}
	}
	for _, sysctl := range []string{"net.core.netdev_budget", "net.core.netdev_max_backlog"} {
		if f := judge(after, false, sysctl); f.State != audit.Unknown ||
			!strings.Contains(f.Why, "not by totals since boot") {
			t.Errorf("%s by totals: %s, %s", sysctl, f.State, f.Why)
		}
		if f := judge(after, true, sysctl); f.State != audit.OK ||
			!strings.Contains(f.Why, "did not grow over 1 s under load") {
			t.Errorf("%s over the interval: %s, %s", sysctl, f.State, f.Why)
		}
	}
	if f := judge(squeezed, true, "net.core.netdev_budget"); f.State != audit.OK ||
		!strings.Contains(f.Why, "the next round works off what is left") {
		t.Errorf("squeezed a few times, and nothing lost: %s, %s", f.State, f.Why)
	}
	if f := judge(squeezed, true, "net.core.netdev_max_backlog"); f.State != audit.OK {
		t.Errorf("squeezed, and nothing dropped: %s, %s", f.State, f.Why)
	}
}
