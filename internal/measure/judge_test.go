package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

// A paced generator that is late is no sign of a slow path if others had the CPUs meanwhile, whatever the machine did
// before the trial.
func TestLateGenerator(t *testing.T) {
	cpu := func(busy, steal float64) []MachineCPU {
		return []MachineCPU{{Where: "host", Seconds: 1,
			CPUs: []CPUUse{{User: busy, Steal: steal, Idle: 2 - busy - steal}}}}
	}
	own := func(ran, waited float64) ThreadUse { return ThreadUse{Role: Ourselves, Seconds: ran, Waited: waited} }
	for _, c := range []struct {
		name string
		s    Sample
		want Limit
	}{
		{"others have a CPU", Sample{CPU: cpu(1.9, 0), Threads: []ThreadUse{own(1, 0.2)}}, ByUnknown},
		{"the hypervisor has a CPU", Sample{CPU: cpu(1, 0.3), Threads: []ThreadUse{own(1, 0.2)}}, ByUnknown},
		{"vhost has a CPU", Sample{CPU: cpu(1.9, 0), Threads: []ThreadUse{own(1, 0.2), {Role: Vhost, Seconds: 0.9}}},
			ByDevice},
		{"others, and it waited for none", Sample{CPU: cpu(1.9, 0), Threads: []ThreadUse{own(1, 0.01)}}, ByDevice},
		{"nobody else", Sample{CPU: cpu(1, 0), Threads: []ThreadUse{own(1, 0.2)}}, ByDevice},
		{"threads unknown", Sample{CPU: cpu(1.9, 0)}, ByDevice},
	} {
		c.s.Seconds, c.s.Sent, c.s.Received = 1, 17_000, 17_000 // 0.15 s behind
		r := Run{Kind: PPS, Load: Load{Rate: 20_000}, Samples: []Sample{c.s},
			Baseline: Baseline{Generator: &Alone{PPS: 900_000, How: "simulated"}}}
		if got, evidence := r.limit(); got != c.want {
			t.Errorf("%s: limited by %s: %q", c.name, got, evidence)
		}
		d := Searched{}
		d.short.add(c.s, 20_000)
		s := Search{Baseline: r.Baseline}
		s.LimitedBy = string(ByGenerator)
		if s.judge(&d); s.LimitedBy != string(c.want) {
			t.Errorf("%s: a search is limited by %s: %q", c.name, s.LimitedBy, s.Evidence)
		}
	}
}

// TestSearchBesideLoad: what others keep busy counts as a share of the machine.
func TestSearchBesideLoad(t *testing.T) {
	for cpus, want := range map[int]Limit{64: ByDevice, 4: ByUnknown, 0: ByDevice} {
		s := Search{Baseline: Baseline{Generator: &Alone{PPS: 900_000, How: "simulated"}, BusyCPUs: 2},
			Environment: Environment{CPUs: cpus}}
		s.LimitedBy = string(ByGenerator)
		s.judge(&Searched{})
		must.Equal(t, s.LimitedBy, string(want), "2 of %d CPUs busy", cpus)
		must.Equal(t, len(s.Warnings), 1, "2 of %d CPUs busy: warnings", cpus)
	}
}

func TestTalkLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     float64
		sample   Sample
		want     Limit
		warnings string
	}{
		{"a closed loop", 0, Sample{Sent: 100, Received: 100, Transactions: 100}, ByUnknown, ""},
		{"a rate that was kept", 100, Sample{Due: 100, Sent: 100, Received: 100, Transactions: 100}, ByNothing, ""},
		{"a rate that the sender could not keep", 100, Sample{Due: 100, Sent: 50, Received: 50, Transactions: 50},
			ByGenerator, "rate-not-reached"},
		{"a rate that the path did not take", 100, Sample{Due: 100, Sent: 50, Received: 50, Transactions: 50,
			Blocked: 40}, ByUnknown, "rate-not-reached"},
		{"answers that did not come", 100, Sample{Due: 100, Sent: 100, Received: 90, Transactions: 90, Lost: 10,
			Late: 3}, ByUnknown, "lost-answers"},
	} {
		run := Run{Kind: RR, Load: Load{Rate: c.rate, Repeat: 1}, Samples: []Sample{c.sample}}
		run.Judge()
		var codes []string
		for _, w := range run.Warnings {
			if w.Code != "few-samples" {
				codes = append(codes, w.Code)
			}
		}
		must.Hold(t, run.LimitedBy == c.want && strings.Join(codes, " ") == c.warnings && len(run.Evidence) != 0,
			"%s: limited by %s (%q), warnings %q; expected %s and %q", c.name, run.LimitedBy, run.Evidence, codes,
			c.want, c.warnings)
	}
}

func TestSentLate(t *testing.T) {
	at := func(ns uint64) *Latency {
		return NewLatency("round-trip", []Bucket{{FromNs: ns, ToNs: ns, Count: 100}})
	}
	for ns, want := range map[uint64]bool{100_000: true, 45_000: false, 15_000: false} {
		run := Run{Kind: RR, Load: Load{Rate: 1},
			Samples: []Sample{{Due: 100, Sent: 100, Transactions: 100, Latency: at(ns), LatencyRaw: at(30_000)}}}
		run.Judge()
		found := false
		for _, w := range run.Warnings {
			found = found || w.Code == "sent-late"
		}
		must.Hold(t, found == want && run.LatencyRaw.At(50) == 30_000,
			"%d ns from the schedule and 30000 from the sending: warned %v, expected %v", ns, found, want)
	}
}

func TestLossIsLocated(t *testing.T) {
	tap := Counter{Where: "host", Interface: "tap0", Kind: "tuntap", Name: "tx_dropped"}
	sent := Counter{Where: "host", Interface: "tap0", Name: "tx_packets"}
	nic := Counter{Where: "agent", Interface: "eth0", Kind: "device", Name: "rx_missed_errors"}
	reset := Counter{Where: "agent", Interface: "eth0", Name: "rx_dropped"}
	fresh := Counter{Where: "host", Interface: "tap1", Name: "rx_dropped"}
	deltas := Deltas(
		Counters{tap: 5, sent: 100, nic: 0, reset: 900},
		Counters{tap: 65, sent: 400, nic: 100, reset: 3, fresh: 77})
	must.Need(t, len(deltas) == 3 && deltas[0].Counter == nic && deltas[1].Counter == tap && deltas[1].Delta == 60 &&
		deltas[2].Counter == sent, "deltas %+v", deltas)
	losses, unexplained := LocateLoss(deltas, 170)
	must.Hold(t, len(losses) == 2 && losses[0] == (Loss{nic, AtNIC, 100}) && losses[1] == (Loss{tap, AtTap, 60}) &&
		unexplained == 10, "losses %+v, %d unexplained", losses, unexplained)
	// Other traffic is dropped too: more may be seen than was lost.
	if _, unexplained = LocateLoss(deltas, 50); unexplained != 0 {
		t.Errorf("%d unexplained", unexplained)
	}
}

const statBefore = `cpu  300 0 100 1000 10 5 20 7 50 0
cpu0 200 10 60 500 5 5 20 7 50 4
cpu1 100 0 40 500 5 0 0 0 0 0
cpu3 1 1 1 1 1 1 1 1 1 1
intr 12345 0 0
ctxt 1
btime 1700000000
softirq 1 0
`

const statAfter = `cpu  0
cpu0 400 12 90 550 5 6 120 17 150 5
cpu1 150 0 40 450 7 0 0 0 0 0
cpu2 9 9 9 9 9 9 9 9 9 9
`

func TestBetween(t *testing.T) {
	before := must.Get(ParseStat(strings.NewReader(statBefore)))(t)
	after := must.Get(ParseStat(strings.NewReader(statAfter)))(t)
	before.Taken, after.Taken = time.Unix(0, 0), time.Unix(4, 0)
	m := Between("host", before, after)
	must.Need(t, len(m.CPUs) == 2 && m.CPUs[0].CPU == 0 && m.CPUs[1].CPU == 1,
		"CPUs %+v, expected those online at both times", m.CPUs)
	// guest is inside user: of 200 ticks of user, 100 were the guest's; of 2 of nice, 1. All ticks are 3.93 s of 4: of
	// the 3.40 s that were neither idle nor stolen 0.07 are missing, and shared out.
	want := CPUUse{CPU: 0, User: 1.00, Nice: 0.01, System: 0.30, Idle: 0.50, IRQ: 0.01, SoftIRQ: 1.00, Steal: 0.10,
		Guest: 1.01}
	by := 3.40 / 3.33
	want.User, want.Nice, want.System, want.IRQ, want.SoftIRQ, want.Guest = by*want.User, by*want.Nice, by*want.System,
		by*want.IRQ, by*want.SoftIRQ, by*want.Guest
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	got := m.CPUs[0]
	must.Hold(t, near(got.User, want.User) && near(got.Nice, want.Nice) && near(got.System, want.System) &&
		near(got.Idle, want.Idle) && near(got.IRQ, want.IRQ) && near(got.SoftIRQ, want.SoftIRQ) &&
		near(got.Steal, want.Steal) && near(got.Guest, want.Guest), "cpu0 %+v, expected %+v", got, want)
	if !near(m.CPUs[1].Idle, 0.02) { // idle went backwards by 50, iowait forward by 2: what was sampled stays
		t.Errorf("cpu1 idle %v, expected 0.02", m.CPUs[1].Idle)
	}
	if !near(m.Busy(), 3.40+0.50) || m.Seconds != 4 || m.Total().CPU != -1 {
		t.Errorf("busy %v in %v s", m.Busy(), m.Seconds)
	}
}

func TestParseStatOfOldKernel(t *testing.T) {
	times, err := ParseStat(strings.NewReader("cpu 1 2 3 4\ncpu0 1 2 3 4 5 6 7\n")) // 2.6.10: no steal, no guest
	if err != nil || times.CPU[0] != (Ticks{User: 1, Nice: 2, System: 3, Idle: 4, IOWait: 5, IRQ: 6, SoftIRQ: 7}) {
		t.Errorf("%+v, %v", times, err)
	}
}

func TestParseStatRefuses(t *testing.T) {
	for _, text := range []string{"", "cpu 1 2 3\n", "cpuX 1 2 3\n", "cpu0 1 two 3\n", "cpu0 -1 2 3\n",
		"cpu99999 1 2 3\n"} {
		if times, err := ParseStat(strings.NewReader(text)); err == nil {
			t.Errorf("%q: %+v, expected an error", text, times)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add(statBefore)
	f.Add(statAfter)
	f.Fuzz(func(t *testing.T, text string) {
		times, err := ParseStat(strings.NewReader(text))
		if err != nil {
			return
		}
		must.Need(t, len(times.CPU) != 0, "no CPU and no error")
		for _, u := range Between("", times, times).CPUs {
			must.Need(t, u.Busy() == 0 && u.Idle == 0 && u.Steal == 0, "an interval of nothing has %+v", u)
		}
	})
}

func TestThreadUse(t *testing.T) {
	cpu := func(n int, name string) Thread { return Thread{PID: 1, TID: n, Role: VCPU, Guest: "web", Name: name} }
	vhost := Thread{PID: 1, TID: 9, Role: Vhost, Guest: "web", Name: "vhost-1"}
	late := Thread{PID: 2, TID: 2, Role: Vhost, Guest: "db", Name: "vhost-2"}
	gone := Thread{PID: 3, TID: 3, Role: KSoftIRQ, Name: "ksoftirqd/0"}
	before := ThreadTimes{cpu(1, "CPU 0/KVM"): {1e9, 1e6}, cpu(2, "CPU 1/KVM"): {5e9, 0}, vhost: {100, 0}, gone: {7, 0}}
	after := ThreadTimes{cpu(1, "CPU 0/KVM"): {1.25e9, 3e6}, cpu(2, "CPU 1/KVM"): {6e9, 0}, vhost: {100 + 5e8, 0},
		late: {2e8, 0}}
	times := func(threads ThreadTimes, at time.Time, ticks uint64) []MachineTimes {
		return []MachineTimes{{Where: "host", Threads: threads,
			Times: CPUTimes{Taken: at, CPU: map[int]Ticks{0: {User: ticks, Guest: ticks}}}}}
	}
	now := time.Now()
	var s Sample
	s.addCPU(times(before, now, 0), times(after, now.Add(2*time.Second), 100), 1_000_000)
	want := []ThreadUse{
		{Role: Vhost, Guest: "db", Threads: 1, Seconds: 0.2, NsPerUnit: 200},
		{Role: Vhost, Guest: "web", Threads: 1, Seconds: 0.5, NsPerUnit: 500},
		{Role: VCPU, Guest: "web", Threads: 2, Seconds: 1.25, Waited: 0.002, Busiest: "CPU 1/KVM", BusiestSeconds: 1,
			NsPerUnit: 1250},
	}
	must.Need(t, len(s.Threads) == len(want), "found %+v", s.Threads)
	for i, u := range s.Threads {
		must.Equal(t, u, want[i], "u")
	}
	run := &Run{Samples: []Sample{s, s}}
	costs := run.ThreadCosts()
	must.Hold(t, len(costs) == 3 && costs[2].Role == VCPU && costs[2].CPUs.Value == 0.625 &&
		costs[2].Busiest.Value == 0.5 && costs[1].Busiest.Value == 0.25 && costs[1].Each.Value == 500,
		"costs %+v", costs)
	// The parts are what the whole is made of.
	var sum float64
	for _, p := range run.CPUParts() {
		sum += p.Each.Value
	}
	if math.Abs(sum-s.CPUNsPerUnit) > 1e-6 || sum == 0 || len(run.CPUParts()) != 2 {
		t.Errorf("parts %+v of %g", run.CPUParts(), s.CPUNsPerUnit)
	}
	if idle := (&Run{}); idle.ThreadCosts() != nil || idle.CPUParts() != nil {
		t.Error("a run without samples has costs")
	}
}

func TestNewLatency(t *testing.T) {
	l := NewLatency("one-way", []Bucket{{300, 399, 9}, {100, 199, 990}, {200, 299, 0}, {5000, 5099, 1}})
	must.Hold(t, l.Count == 1000 && l.MinNs == 100 && l.MaxNs == 5099 && len(l.Buckets) == 3, "%+v", l)
	if want := (149.5*990 + 349.5*9 + 5049.5) / 1000; math.Abs(l.MeanNs-want) > 1e-9 {
		t.Errorf("mean %v, expected %v", l.MeanNs, want)
	}
	// 99.9 would be told by one sample of a thousand: it is not.
	want := []Percentile{{50, 199}, {90, 199}, {99, 199}}
	must.Need(t, len(l.Percentiles) == len(want), "percentiles %v, expected %v", l.Percentiles, want)
	for i := range want {
		must.Hold(t, l.Percentiles[i] == want[i], "percentiles %v, expected %v", l.Percentiles, want)
	}
	if l.At(99.5) != 399 || l.At(100) != 5099 {
		t.Errorf("p99.5 = %d, p100 = %d", l.At(99.5), l.At(100))
	}
	must.Hold(t, NewLatency("one-way", []Bucket{{1, 2, 0}}) == nil, "a distribution of nothing")
}

func TestMergeLatency(t *testing.T) {
	a := NewLatency("round-trip", []Bucket{{100, 199, 10}, {200, 299, 10}})
	b := NewLatency("round-trip", []Bucket{{200, 299, 20}, {400, 499, 10}})
	a.MinNs, b.MaxNs, a.Loop = 120, 480, "closed" // kept apart from the buckets by the source
	m := MergeLatency(nil, a, nil, b)
	must.Hold(t, m.Count == 50 && m.MinNs == 120 && m.MaxNs == 480 && m.Loop == "closed" && len(m.Buckets) == 3 &&
		m.Buckets[1].Count == 30, "%+v", m)
	if want := (a.MeanNs*20 + b.MeanNs*30) / 50; math.Abs(m.MeanNs-want) > 1e-9 {
		t.Errorf("mean %v, expected %v", m.MeanNs, want)
	}
	must.Hold(t, MergeLatency(nil, nil) == nil, "a merger of nothing")
}
