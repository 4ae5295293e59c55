package audit

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// iceLake is an untouched Intel host of 64 CPUs whose firmware switched HWP on, with the given states of its CPUs
// ("POLL:0 C1:2", exit latencies in µs).
func iceLake(smt bool, states ...string) *facts.Host {
	h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 16, Guests: 4})
	h.Topology.Vendor, h.Topology.Model, h.KVM.Vendor = "GenuineIntel", "Xeon", "kvm_intel"
	h.Topology.Isolated = setting.CPUs(8, 9, 10, 11)
	if !smt {
		h.Topology.SMT = "notsupported"
		for i := range h.Topology.CPUs {
			h.Topology.CPUs[i].Siblings = setting.CPUs(i)
		}
	}
	h.Power = facts.Power{ScalingDriver: "intel_pstate", IdleDriver: "intel_idle",
		Governors: map[string]int{"powersave": 64}, Preferences: map[string]int{"balance_performance": 64}}
	for _, s := range states {
		name, latency, _ := strings.Cut(s, ":")
		us, _ := strconv.Atoi(latency)
		h.Power.IdleStates = append(h.Power.IdleStates, facts.IdleState{Name: name, Latency: us, CPUs: 64})
	}
	for _, a := range knob.Addresses(h, knob.Catalogue()) {
		h.Readings[a] = setting.Missing("not there")
		if strings.HasSuffix(a.Path, "pm_qos_resume_latency_us") {
			h.Readings[a] = setting.Value("0")
		}
	}
	return h
}

// TestIdle: for no target the whole host is kept from idling or loses its driver of the clock, and no guest's CPU is
// made to poll beside a sibling.
func TestIdle(t *testing.T) {
	whole := map[string]bool{"idle": true, "intel_pstate": true, "processor.max_cstate": true,
		"intel_idle.max_cstate": true}
	states := []string{"POLL:0", "C1:2", "C1E:10", "C6:133"}
	for _, smt := range []bool{true, false} {
		h := iceLake(smt, states...)
		for _, us := range []int{1, 5, 10, 20, 50, 200} {
			limits := 0
			g := goal.Goal{Latency: time.Duration(us) * time.Microsecond}
			for _, f := range Run(h, g, knob.Catalogue()).Findings {
				if f.Address.Kind == setting.KernelArg && whole[f.Address.Path] && f.State == Off {
					t.Errorf("SMT %t, %d µs: %s is wanted to be %s", smt, us, f.Address, f.Wanted)
				}
				if f.ID != "cpu.latency" || f.State != Off {
					continue
				}
				limits++
				want := max(1, us/10)
				if smt {
					want = max(2, want)
				}
				if f.Wanted != fmt.Sprint(want) || !strings.Contains(f.Address.Path, "cpu8/") &&
					!strings.Contains(f.Address.Path, "cpu9/") && !strings.Contains(f.Address.Path, "cpu10/") &&
					!strings.Contains(f.Address.Path, "cpu11/") {
					t.Errorf("SMT %t, %d µs: %s is wanted to be %s, expected %d on CPUs 8 to 11", smt, us, f.Address,
						f.Wanted, want)
				}
			}
			must.Hold(t, limits == 4,
				"SMT %t, %d µs: %d CPUs are limited, expected the four isolated ones", smt, us, limits)
		}
	}
}
