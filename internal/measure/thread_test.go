package measure

import (
	"math"
	"testing"
	"time"
)

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
	if len(s.Threads) != len(want) {
		t.Fatalf("found %+v", s.Threads)
	}
	for i, u := range s.Threads {
		if u != want[i] {
			t.Errorf("found %+v, expected %+v", u, want[i])
		}
	}
	run := &Run{Samples: []Sample{s, s}}
	costs := run.ThreadCosts()
	if len(costs) != 3 || costs[2].Role != VCPU || costs[2].CPUs.Value != 0.625 || costs[2].Busiest.Value != 0.5 ||
		costs[1].Busiest.Value != 0.25 || costs[1].Each.Value != 500 {
		t.Errorf("costs %+v", costs)
	}
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
