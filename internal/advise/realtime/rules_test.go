package realtime

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// small is a host with four CPUs of which 2 and 3 are set aside for a running guest.
func small() *facts.Host {
	s := &scene{h: &facts.Host{Readings: facts.Readings{}}, quiet: setting.CPUs(2, 3), house: setting.CPUs(0, 1),
		args: map[string]string{}, next: map[string]string{}, r: rand.New(rand.NewPCG(1, 1)), smt: 1}
	s.topology(1, 4, true)
	s.kernel()
	s.args["irqaffinity"], s.next["irqaffinity"] = "0-1", "0-1"
	s.guests = []*guestScene{{
		name: "rt1", running: true, emulator: s.house, memory: "0", mode: "strict", page: 1 << 30, kib: 1 << 20,
		huge: true, locked: true, vcpus: []vcpuScene{{pin: setting.CPUs(2), fifo: true, priority: 1},
			{pin: setting.CPUs(3), fifo: true, priority: 1}},
	}}
	s.h.Topology.Nodes[0].Hugepages[1].Total = 1
	s.groups()
	s.h.Isolation.Cgroups[1].CPUs = nil
	s.observe()
	return s.facts()
}

// TestRules: the findings after one change to a consistent host.
func TestRules(t *testing.T) {
	type expect struct {
		id, object string
		severity   knob.Severity
		mendable   bool
	}
	for name, c := range map[string]struct {
		change func(h *facts.Host)
		cpus   setting.CPUSet // named; nil: found
		guest  string
		want   []expect
	}{
		"in order":               {change: func(*facts.Host) {}},
		"in order, by its guest": {change: func(*facts.Host) {}, guest: "rt1"},
		"isolated by a partition": {change: func(h *facts.Host) {
			h.Topology.Isolated = nil
			h.Kernel.CommandLine = strings.ReplaceAll(h.Kernel.CommandLine, "isolcpus=managed_irq,domain,2-3", "")
			h.Readings[setting.Of(setting.KernelArg, "isolcpus")] = setting.Missing("not there")
			h.Isolation.Cgroups = append(h.Isolation.Cgroups, facts.Cgroup{Path: "rt.slice", CPUs: setting.CPUs(2, 3),
				Effective: setting.CPUs(2, 3), Partition: "isolated"})
		}},
		"one CPU too many": {change: func(h *facts.Host) { h.Observed.CPUs = setting.CPUs(1, 2, 3) },
			cpus: setting.CPUs(1, 2, 3), want: []expect{
				{"lists.isolcpus", "isolcpus", knob.High, true}, {"lists.nohz_full", "nohz_full", knob.High, true},
				{"guest.emulator", "guest rt1 emulator", knob.High, true},
				{"lists.irqaffinity", "irqaffinity", knob.Medium, true},
			}},
		"one CPU that is isolated and a guest's, and not asked about": {change: func(*facts.Host) {},
			cpus: setting.CPUs(2), want: []expect{{"guest.vcpu_outside", "guest rt1 vcpu 1", knob.High, true}}},
		"a managed interrupt that came": {change: func(h *facts.Host) {
			h.Housekeeping.IRQs = []facts.IRQ{{Number: 70, Name: "nvme0q3", Affinity: setting.CPUs(2),
				Effective: setting.CPUs(2)}}
			h.Observed.IRQs = append(h.Observed.IRQs, facts.IRQRun{Number: 70, Name: "nvme0q3",
				Counts: map[int]uint64{2: 500}})
		}, want: []expect{{"irq.came", "irq 70 nvme0q3", knob.High, false}}},
		"an interrupt of the guest's own device": {change: func(h *facts.Host) {
			h.Housekeeping.IRQs = []facts.IRQ{{Number: 70, Name: "vfio-msix[0](0000:01:10.0)",
				Affinity: setting.CPUs(2), Effective: setting.CPUs(2)}}
			h.Observed.IRQs = append(h.Observed.IRQs, facts.IRQRun{Number: 70, Name: "vfio-msix[0](0000:01:10.0)",
				Counts: map[int]uint64{2: 500}})
		}, want: []expect{{"irq.came", "irq 70 vfio-msix[0](0000:01:10.0)", knob.Low, true}}},
		"more threads than can be told one by one": {change: func(h *facts.Host) {
			for i := range 20 {
				h.Observed.Threads = append(h.Observed.Threads, facts.ThreadRun{TID: 7000 + i, PID: 7000 + i,
					Comm: "sshd", Affinity: h.Topology.Online, Policy: "SCHED_OTHER"})
			}
			h.Observed.Omitted = 5
		}, want: []expect{{"threads.user_may", "user threads", knob.Medium, true}}},
		"a kernel thread of the CPU that runs all the time": {change: func(h *facts.Host) {
			h.Observed.Threads = append(h.Observed.Threads, facts.ThreadRun{TID: 30, PID: 30, Comm: "ksoftirqd/2",
				Kernel: true, Fixed: true, Affinity: setting.CPUs(2), CPU: 2, RunNS: 1e9, Switches: 5000,
				Policy: "SCHED_FIFO", Priority: 2})
		}, want: []expect{{"threads.bound_ran", "thread ksoftirqd/2 (30)", knob.Medium, false}}},
		"the guest's own timers": {change: func(h *facts.Host) { h.Observed.IRQs[0].Counts[2] = 5000 },
			want: []expect{{"irq.tick", "cpu 2", knob.Low, true}}},
		"irqbalance that bans nothing": {change: func(h *facts.Host) {
			h.Services = []facts.Service{{Name: "irqbalance", Running: true}}
			h.Isolation.IRQBalance = &facts.IRQBalance{Configured: true, From: "/etc/default/irqbalance"}
		}, want: []expect{{"lists.irqbalance", "irqbalance", knob.High, true}}},
		"irqbalance that bans by itself": {change: func(h *facts.Host) {
			h.Services = []facts.Service{{Name: "irqbalance", Running: true}}
			h.Isolation.IRQBalance = &facts.IRQBalance{From: "/etc/default/irqbalance"}
		}},
		"a kernel that does not know nohz_full": {change: func(h *facts.Host) { h.Topology.NohzFull = nil },
			cpus: setting.CPUs(2, 3), want: []expect{
				{"lists.nohz_full", "nohz_full", knob.High, true}, {"lists.ignored", "nohz_full", knob.High, true},
			}},
	} {
		t.Run(name, func(t *testing.T) {
			h := small()
			c.change(h)
			r := Check(h, h.Observed, FindScope(h, c.cpus, c.guest))
			var got []expect
			for _, f := range r.Findings {
				got = append(got, expect{f.ID, f.Object, f.Severity, f.Mendable})
			}
			for _, w := range c.want {
				must.Hold(t, slices.Contains(got, w), "expected %v, found %v", w, got)
			}
			if len(c.want) == 0 && len(got) > 0 || len(c.want) == 1 && len(got) != 1 {
				t.Errorf("expected %v, found\n%s", c.want, findingLines(r))
			}
			must.Empty(t, r.Unjudged, "unjudged")
		})
	}
}

// TestFindScope: the order of preference of the sources.
func TestFindScope(t *testing.T) {
	h := small()
	for _, c := range []struct {
		cpus        setting.CPUSet
		guest, want string
		from        string
	}{
		{nil, "", "2-3", "isolcpus, nohz_full"}, {setting.CPUs(1), "rt1", "1", "--cpus"},
		{nil, "rt1", "2-3", "the pins of guest rt1"}, {nil, "nobody", "2-3", "isolcpus, nohz_full"},
	} {
		if s := FindScope(h, c.cpus, c.guest); s.CPUs.String() != c.want || s.From != c.from || s.Guest != c.guest {
			t.Errorf("%v %q: %+v", c.cpus, c.guest, s)
		}
	}
	h.Topology.Isolated, h.Topology.NohzFull = nil, nil
	if s := FindScope(h, nil, ""); s.CPUs.String() != "2-3" || s.From != "pins of vCPUs with a realtime priority" {
		t.Errorf("%+v", s)
	}
}

// TestWatchedTooShort: an observation of a millisecond gives no rates.
func TestWatchedTooShort(t *testing.T) {
	h := small()
	h.Observed.Seconds = 0.001
	h.Observed.IRQs[0].Counts[2] = 40
	r := Check(h, h.Observed, FindScope(h, nil, ""))
	if len(r.Findings) > 0 || r.Seconds != 0 || len(r.Ran) > 0 ||
		!slices.ContainsFunc(r.Unjudged, func(u Unjudged) bool { return u.What == "what ran on CPUs 2-3" }) {
		t.Errorf("%s\n%s%v", r.Verdict, findingLines(r), r.Unjudged)
	}
}

// TestHostileFacts: a check ends with a verdict whatever a snapshot contains.
func TestHostileFacts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for seed := range uint64(100) {
		text := must.Get(json.Marshal(newScene(seed).facts()))(t)
		for range 30 { // numbers become others, and some negative
			if at := r.IntN(len(text)); text[at] >= '0' && text[at] <= '9' {
				if text[at] = byte('0' + r.IntN(10)); text[at-1] == ':' && r.IntN(2) == 0 {
					text = slices.Insert(text, at, '-')
				}
			}
		}
		var h facts.Host
		if json.Unmarshal(text, &h) != nil {
			continue
		}
		rep := Check(&h, h.Observed, FindScope(&h, nil, ""))
		must.Hold(t, rep.Verdict != "" && !strings.Contains(rep.Verdict, "%!"), "host %d: %q", seed, rep.Verdict)
	}
}
