package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"mpps/internal/must"
)

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
	if len(m.CPUs) != 2 || m.CPUs[0].CPU != 0 || m.CPUs[1].CPU != 1 {
		t.Fatalf("CPUs %+v, expected those online at both times", m.CPUs)
	}
	// guest is inside user: of 200 ticks of user, 100 were the guest's; of 2 of nice, 1. All ticks are 3.93 s of 4: of
	// the 3.40 s that were neither idle nor stolen 0.07 are missing, and shared out.
	want := CPUUse{CPU: 0, User: 1.00, Nice: 0.01, System: 0.30, Idle: 0.50, IRQ: 0.01, SoftIRQ: 1.00, Steal: 0.10,
		Guest: 1.01}
	by := 3.40 / 3.33
	want.User, want.Nice, want.System, want.IRQ, want.SoftIRQ, want.Guest = by*want.User, by*want.Nice, by*want.System,
		by*want.IRQ, by*want.SoftIRQ, by*want.Guest
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	got := m.CPUs[0]
	if !near(got.User, want.User) || !near(got.Nice, want.Nice) || !near(got.System, want.System) ||
		!near(got.Idle, want.Idle) ||
		!near(got.IRQ, want.IRQ) || !near(got.SoftIRQ, want.SoftIRQ) || !near(got.Steal, want.Steal) ||
		!near(got.Guest, want.Guest) {
		t.Errorf("cpu0 %+v, expected %+v", got, want)
	}
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
		if len(times.CPU) == 0 {
			t.Fatal("no CPU and no error")
		}
		for _, u := range Between("", times, times).CPUs {
			if u.Busy() != 0 || u.Idle != 0 || u.Steal != 0 {
				t.Fatalf("an interval of nothing has %+v", u)
			}
		}
	})
}
