package measure

import "testing"

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
