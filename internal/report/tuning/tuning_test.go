package tuning

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/tune"
	"mpps/internal/advise/tune/simulated"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// tuned is a run of the loop on a host with a vhost thread that had no time left.
func tuned() *tune.Result {
	upper, floor := 1.92e6, 0.7e6
	pairs := func(before float64, ratios ...float64) (p []tune.Pair) {
		for i, r := range ratios {
			p = append(p, tune.Pair{Before: before * (1 + 0.01*float64(i%3-1)), After: before * r, AfterFirst: i%2 == 0,
				Length: 1 + 3*min(i, 1)})
		}
		return p
	}
	gain := func(ratio, lo, hi, before float64, ratios ...float64) tune.Gain {
		return tune.Gain{Ratio: ratio, Lo: lo, Hi: hi, Level: 0.95, Unit: "packets/s", Pairs: pairs(before, ratios...)}
	}
	return &tune.Result{
		Schema: tune.Schema, Host: "kvm1", Goal: goal.Goal{PPS: 3e6, Frame: 64},
		Started: time.Date(2026, 11, 22, 20, 0, 0, 0, time.UTC), Seconds: 1312,
		Verdict: tune.Better, Why: "620k → 1.83M packets/s (×2.95), and nothing is left to try: the target of 3M is " +
			"missed",
		Baseline: tune.Rate{PPS: 0.62e6, UpperPPS: &floor, Loaded: 0.63e6, LimitedBy: "device", Seconds: 62,
			Trials: 31},
		Final: tune.Rate{PPS: 1.83e6, UpperPPS: &upper, Loaded: 1.86e6, LimitedBy: "device", Seconds: 58, Trials: 29},
		Whole: gain(2.93, 2.7, 3.15, 0.62e6, 2.9, 2.95, 3.0, 2.85, 2.93, 2.91),
		Before: &bottleneck.Diagnosis{Why: "vhost-2113 (queue 0) is at 99 % of CPU 17 while vCPUs are at 43 %",
			Bottleneck: &bottleneck.Bottleneck{Kind: bottleneck.Vhost, Stage: "vhost", Object: "vhost-2113 (queue 0)",
				Confidence: 0.93, Say: "vhost-2113 (queue 0) is at 99 % of CPU 17 while vCPUs are at 43 %",
				Advice: "fewer vCPUs, more queues and vhost CPUs", Knobs: []string{"domain.queues",
					"vhost.cpus"}, Evidence: []bottleneck.Evidence{{What: "share of CPU 17 that vhost-2113 used",
					Value: 0.99, Unit: "share"}, {What: "lost at the tap vnet0", Value: 410e3, Unit: "packets/s"}}},
			Next: &bottleneck.Bottleneck{Say: "CPU 0 is at 82 % in softirqs"},
			Stages: []bottleneck.Stage{{Name: "nic", Object: "eth0", Use: 0.07, PPS: 1e6},
				{Name: "softirq", Object: "CPU 0", Use: 0.82, PPS: 1e6}, {Name: "bridge", Object: "br0", Use: -1,
					PPS: 1e6},
				{Name: "tap", Object: "vnet0", Use: -1, PPS: 0.62e6,
					Saturation: []bottleneck.Evidence{{What: "lost: tap", Value: 410e3, Unit: "packets"}}},
				{Name: "vhost", Object: "vhost-2113 (queue 0)", Use: 0.99, PPS: -1},
				{Name: "vcpu", Object: "vm1 vCPU 0", Use: 0.43,
					PPS: -1}}}, After: &bottleneck.Diagnosis{Why: "CPU 0 has no time left",
			Bottleneck: &bottleneck.Bottleneck{Kind: bottleneck.Softirq, Stage: "softirq", Object: "CPU 0",
				Confidence: 0.81,
				Say:        "CPU 0 is at 98 % in softirqs", Advice: "spread the NIC's queues over more CPUs",
				Knobs: []string{"nic.irq-affinity"}},
			Stages: []bottleneck.Stage{{Name: "nic", Object: "eth0", Use: 0.19},
				{Name: "softirq", Object: "CPU 0", Use: 0.98}, {Name: "bridge", Object: "br0", Use: -1},
				{Name: "tap", Object: "vnet0", Use: -1},
				{Name: "vhost", Object: "vhost-2113 (queue 3)", Use: 0.71},
				{Name: "vcpu", Object: "vm1 vCPU 0", Use: 0.62}}},
		Attempts: []tune.Attempt{
			{N: 1, Key: "domain.queues+guest.queues", IDs: []string{"domain.queues"},
				Title: "Queues of the guest's NIC",
				Stage: "vhost", Risk: goal.None, Expected: 1.8, Because: []string{"it acts where the bottleneck is"},
				Limit: "vhost", Changes: []tune.Change{{ID: "domain.queues",
					Address: "domain:vm1/interface/52:54:00:00:00:01/driver.queues", From: "1", To: "4"},
					{ID: "guest.queues", Address: "inside:vm1/nic-channels:eth0/combined", From: "1", To: "4"}},
				Outcome: tune.Kept, Why: "2.1 times as many packets came through, at least 1.94",
				Gain: gain(2.1, 1.94, 2.3, 0.62e6, 2.05, 2.1, 2.2, 2.12), Evidence: 212, Needed: 40, Seconds: 41},
			{N: 2, Key: "softirq.threaded", IDs: []string{"softirq.threaded"}, Title: "Threaded NAPI", Stage: "softirq",
				Limit: "softirq", Changes: []tune.Change{{ID: "softirq.threaded", Address: "nic-threaded:eth0",
					From: "0", To: "1"}}, Outcome: tune.Hurts, Why: "a third of the packets less came through",
				Gain: gain(0.66, 0.6, 0.72, 1.3e6, 0.65, 0.66, 0.7), Evidence: 0, Needed: 40},
			{N: 3, Key: "nic.ring.rx", IDs: []string{"nic.ring.rx"}, Title: "Receive descriptors per NIC queue",
				Stage: "nic",
				Limit: "softirq", Changes: []tune.Change{{ID: "nic.ring.rx", Address: "nic-ring:eth0/rx", From: "256",
					To: "4096"}},
				Outcome: tune.NotShown, Why: "too little to be shown with the pairs that one candidate gets",
				Gain: gain(1.01, 0.98, 0, 1.3e6, 1.0, 1.02, 1.01, 0.99, 1.03), Evidence: 1.8, Needed: 40},
			{N: 4, Key: "netfilter.bridge", IDs: []string{"netfilter.bridge"}, Title: "Bridged frames skip iptables",
				Stage: "netfilter", Risk: goal.Security, Limit: "softirq",
				Changes: []tune.Change{{ID: "netfilter.bridge", Address: "sysctl:net.bridge.bridge-nf-call-iptables",
					From: "1",
					To:   "0"}}, Outcome: tune.Kept, Why: "1.52 times as many packets came through, at least 1.42",
				Gain: gain(1.52, 1.42, 1.63, 1.3e6, 1.5, 1.55, 1.51, 1.53), Evidence: 96, Needed: 40},
			{N: 6, Key: "restart of guest vm1", Title: "restart of guest vm1", Stage: "guest", Outcome: tune.Kept,
				Why: "each of 8 trials after it is faster than each before it", Gain: gain(1.1, 0, 0, 1.3e6, 1.1, 1.12)},
			{N: 5, Key: "vhost.busy-poll", IDs: []string{"vhost.busy-poll"}, Title: "vhost polls before it sleeps",
				Stage: "vhost", Outcome: tune.Refused, Why: "the machine refused it: operation not supported"},
		}, Kept: []string{"domain.queues+guest.queues", "netfilter.bridge"},
		Added: []string{"domain.queues+guest.queues", "netfilter.bridge"},
		Untried: []tune.Untried{{Key: "kernel.mitigations", Title: "Mitigations of the CPU's faults",
			Risk: goal.Security, Why: "needs --consent security"}},
		Waits: []tune.Wait{{For: "reboot", Keys: []string{"kernel.isolcpus"}}},
		Advice: []tune.Advice{{Code: "vf", Text: "3M packets/s need a virtual function: eth0 has 63 ('mpps sriov " +
			"assign', 'mpps plan --nic vf')"}},
		Method: tune.Method{Test: "each candidate is measured against what stands in pairs", Alpha: 0.05,
			MinEffect: 0.02, MaxPairs: 24, Seed: 4711, LoadPPS: 2e6, TrialSecs: 1},
		Trials: 74, Searches: 2, Budget: 1800, TX: "20261122T200011.123456-4711", Plan: "sha256:1234",
	}
}

func pageOf(t *testing.T, r *tune.Result) string {
	t.Helper()
	var page bytes.Buffer
	must.Do(t, HTML(&page, r, "1.0", time.Date(2026, 11, 22, 21, 0, 0, 0, time.UTC)))
	return page.String()
}

// TestTunePage: everything that the result says is on the page, and the page needs nothing else.
func TestTunePage(t *testing.T) {
	t.Parallel()
	r := tuned()
	page := pageOf(t, r)
	if file := os.Getenv("MPPS_PAGE"); file != "" { // to be looked at
		must.Do(t, os.WriteFile(file, []byte(page), 0o644))
	}
	must.Contain(t, page,
		"2.9× more packets: 620\u00a0k → 1.83\u00a0M per second; 3.00\u00a0M were asked for.", "target missed",
		"×2.9 [2.7, 3.1]",
		"vhost-2113 (queue 0) is at 99 % of CPU 17", "93 % sure", "CPU 0 is at 98 % in softirqs", "▶ held it back",
		"▶ holds it back now",
		"Queues of the guest&#39;s NIC", "domain:vm1/interface/52:54:00:00:00:01/driver.queues", "hurts",
		"refused by the machine", "not shown to help",
		"needs --consent security", "kernel.isolcpus", "eth0 has 63", "5 pairs with trials up to 4 times as long; "+
			"e-value 1.8 of the 40 needed", "mpps rollback 20261122T200011.123456-4711", "seed 4711", "target 3.00 M")
	must.Equal(t, regexp.MustCompile(`(?:src|href)="[^#"]|https?://|<script(?: [^>]*)?>[^{]`).FindString(
		strings.SplitN(page, `<script type="application/json"`, 2)[0]), "", "the page is not whole by itself")
	var back tune.Result
	data := regexp.MustCompile(`(?s)id="mpps-data">(.*?)</script>`).FindStringSubmatch(page)
	if err := json.Unmarshal([]byte(data[1]), &back); err != nil || back.Why != r.Why ||
		len(back.Attempts) != len(r.Attempts) {
		t.Errorf("embedded result: %v, %q", err, back.Why)
	}
}

// TestTuneHeadlines: each verdict has a sentence that says what became of the target.
func TestTuneHeadlines(t *testing.T) {
	t.Parallel()
	for verdict, want := range map[tune.Verdict]string{
		tune.Met: "The target holds. 2.9× more packets: 620\u00a0k → 1.83\u00a0M per second; 3.00\u00a0M were " +
			"asked for.",
		tune.Good: "Good as it was: 620\u00a0k packets per second; 3.00\u00a0M were asked for. Nothing was " +
			"changed.",
		tune.Better: "2.9× more packets: 620\u00a0k → 1.83\u00a0M per second; 3.00\u00a0M were asked for.",
		tune.NoGain: "Nothing helped: 620\u00a0k packets per second; 3.00\u00a0M were asked for.",
		tune.OutOfBudget: "Out of time. 2.9× more packets: 620\u00a0k → 1.83\u00a0M per second; 3.00\u00a0M were asked " +
			"for.",
		tune.Waiting: "More needs a restart. 2.9× more packets: 620\u00a0k → 1.83\u00a0M per second; 3.00\u00a0M " +
			"were asked for.",
		tune.NotDevice: "The device is the limit by now, not this host. 2.9× more packets: 620\u00a0k → " +
			"1.83\u00a0M per second; 3.00\u00a0M were asked for.",
		tune.Interrupted: "Ended early.",
		tune.Failed:      "Ended by an error.",
	} {
		r := tuned()
		r.Verdict = verdict
		must.Equal(t, headline(r), want, "%s", verdict)
		pageOf(t, r)
	}
	r := tuned()
	r.Verdict, r.Final.LimitedBy = tune.NotDevice, "generator"
	if got := headline(r); got != "The generator is the limit by now, not this host. 2.9× more packets: 620\u00a0k → "+
		"1.83\u00a0M per second; 3.00\u00a0M were asked for." {
		t.Error(got)
	}
	r = tuned()
	r.Goal.PPS, r.Final.PPS, r.Whole.Ratio = 0, 0.7e6, 1.13
	must.Equal(t, headline(r), "13\u00a0% more packets: 620\u00a0k → 700\u00a0k per second.", "headline(r)")
}

// TestTwoSearchesShowNothing: the rates of two searches make no gain without pairs that prove it.
func TestTwoSearchesShowNothing(t *testing.T) {
	t.Parallel()
	r := tuned()
	r.Verdict, r.Added, r.Kept, r.Goal.PPS = tune.Better, nil, nil, 0
	must.Equal(t, headline(r), "620\u00a0k packets per second.", "headline(r)")
	r.Restarted = "restart of guest vm1"
	must.Equal(t, headline(r), "10\u00a0% more packets: 620\u00a0k → 1.83\u00a0M per second.", "headline(r)")
	for i := range r.Attempts {
		if r.Attempts[i].Key == r.Restarted {
			r.Attempts[i].Outcome = tune.NotShown
		}
	}
	must.Equal(t, headline(r),
		"1.83\u00a0M packets per second, not shown to be more than before the restart of "+"guest vm1.", "headline(r)")
}

// TestTuneLossAndUndo: what cut the loss says so, and what stands unproven how it is taken back.
func TestTuneLossAndUndo(t *testing.T) {
	t.Parallel()
	r := tuned()
	r.Attempts[0].Gain.Lost = &tune.Lost{Before: 0.005, After: 0.0001}
	r.Waits = append(r.Waits, tune.Wait{For: "rollback of 4711 and a restart of guest vm1",
		Keys: []string{"domain.queues"}, Undo: "4711"})
	page := pageOf(t, r)
	must.Contain(t, page, "loss 0.5 % → 0.01 %",
		"Not proven, and stands until a rollback of 4711 and a restart of guest vm1: <code>domain.queues</code>",
		"After a reboot")
}

// TestTuneAtOnce: of what was kept at once the page has not the values of a part that was taken out, and says how that
// was found.
func TestTuneAtOnce(t *testing.T) {
	t.Parallel()
	r := tuned()
	a := &r.Attempts[0]
	a.Outcome, a.Key, a.Parts, r.Kept = tune.Kept, "x.1+x.2+x.3", []string{"x.1", "x.2", "x.3"}, []string{"x.1", "x.3"}
	a.Changes = []tune.Change{{ID: "x.1", Address: "sysctl:one"}, {ID: "x.2", Address: "sysctl:two"},
		{ID: "x.3", Address: "sysctl:three"}}
	r.Revisits = []tune.Attempt{{N: 1, Key: "x.2", Title: "the second", Outcome: tune.Hurts,
		Gain: tune.Gain{Ratio: 0.9}}}
	page := pageOf(t, r)
	page = page[:strings.Index(page, `id="mpps-data"`)]
	for want, on := range map[string]bool{"sysctl:one": true, "sysctl:two": false, "sysctl:three": true,
		"3 at once: x.1 …": true, "Measured again": true, "taken out": true} {
		must.Equal(t, strings.Contains(page, want), on, "%q on the page", want)
	}
}

// TestTunePageOfEveryEnd draws runs on simulated hosts, and values of which everything is missing that can be.
func TestTunePageOfEveryEnd(t *testing.T) {
	t.Parallel()
	pageOf(t, &tune.Result{})
	pageOf(t, &tune.Result{Attempts: []tune.Attempt{{}}, Kept: []string{""}, Before: &bottleneck.Diagnosis{},
		After: &bottleneck.Diagnosis{}})
	for i, s := range append(simulated.Hosts(4), simulated.Healthy(1)...) {
		h := simulated.New(s, uint64(i))
		r := must.Get(tune.Run(context.Background(), h, tune.Options{Goal: goal.Goal{PPS: 1e9}, Seed: uint64(i)}))(t)
		page := pageOf(t, r)
		for j := range r.Attempts {
			if a := &r.Attempts[j]; !strings.Contains(page, ">"+strings.ReplaceAll(a.Key, "+", "&#43;")+"<") {
				t.Errorf("%s: attempt %d (%s) is not on the page", s.Name, a.N, a.Key)
			}
		}
		must.Hold(t, !strings.Contains(page, "NaN") && !strings.Contains(page, "Inf"),
			"%s: a figure that is none", s.Name)
	}
}

// TestTuneNames: what stands in a result came from files and programs.
func TestTuneNames(t *testing.T) {
	t.Parallel()
	r := tuned()
	r.Host, r.Attempts[0].Title, r.Attempts[0].Changes[0].To, r.Why = "<script>a", "<b>b", "</script>c", "<i>d"
	r.Attempts[0].Key = "<svg>k"
	page := pageOf(t, r)
	must.Lack(t, page, "<script>a", "<b>b", "</script>c", "<i>d", "<svg>k")
}
