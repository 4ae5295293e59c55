package knob

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// idleKnob makes a check of a C-state that the kernel lists or a person attests.
func idleKnob(id, title string, on Limit, is func(v *View, s facts.IdleState) bool, listed string) *Knob {
	return firmware(Knob{
		ID: id, Title: title, Limit: on,
		Want: onMetal(func(v *View, a setting.Address) Advice {
			advice := exact("disabled", listed)
			if v.Tier == goal.Realtime {
				advice = advice.At(High)
			} else if full, known := v.fullSocket(); !known {
				return Unsure("which cores the guests will use is not known: in idle cores C-states leave power to " +
					"the busy ones")
			} else if !full {
				return Fine("cores are left idle, and their C-states leave power to the busy ones")
			} else {
				advice = advice.At(Low)
			}
			if value, given := v.runningArgument("idle"); given && value == "poll" {
				return fact("idle=poll", Fine("idle=poll: no C-state is entered"))
			}
			if len(v.Power.IdleStates) == 0 {
				return v.fromAttestation(id, listed, advice.Severity)
			}
			var open []string
			shut := false
			for _, s := range v.Power.IdleStates {
				switch {
				case !is(v, s):
				case s.Disabled < s.CPUs && !v.limited(s):
					open = append(open, fmt.Sprintf("%s (%d µs to wake up)", s.Name, s.Latency))
				default:
					shut = true
				}
			}
			switch {
			case len(open) > 0:
				return fact(v.Power.IdleDriver+" enters "+strings.Join(open, ", "), advice)
			case shut:
				return fact("disabled in the kernel", Fine("the kernel does not enter it"))
			}
			if id == "firmware.c1e" { // not in the list, but the processor can turn C1 into C1E by itself
				return v.fromAttestation(id, listed, advice.Severity)
			}
			return fact("not among the kernel's states", Fine("the kernel has no such state to enter"))
		}),
	})
}

// limited reports whether a latency limit keeps the kernel from entering a state: a global one, or one on each of the
// guests' CPUs (cpu.latency).
func (v *View) limited(s facts.IdleState) bool {
	if v.Power.LatencyLimit != nil && *v.Power.LatencyLimit < s.Latency {
		return true
	}
	guests := v.guestCPUs()
	for _, cpu := range guests {
		file := setting.Of(setting.Sysfs, fmt.Sprintf(latencyFile, cpu))
		if limit, set := wakeUpLimit(v.Readings.At(file)); !set || limit >= int64(s.Latency) {
			return false
		}
	}
	return len(guests) > 0
}

// fullSocket reports whether the guests' threads use all cores of some socket that are not kept for the host, and
// whether that is known.
func (v *View) fullSocket() (full, known bool) {
	if v.full == nil {
		full, known = v.anySocketFull()
		v.full = &[2]bool{full, known}
	}
	return v.full[0], v.full[1]
}

func (v *View) anySocketFull() (full, known bool) {
	busy := map[int]bool{} // by core
	for _, p := range v.Placement().Guests {
		for _, vcpu := range p.VCPUs {
			if core, ok := v.coreOf(vcpu.CPU); ok {
				busy[core], known = true, true
			}
		}
		for _, w := range p.Vhost {
			if core, ok := v.coreOf(w.CPU); ok {
				busy[core] = true
			}
		}
	}
	idle, sockets := map[int]int{}, map[int]bool{}
	for _, c := range v.Topology.CPUs {
		if !c.Online {
			continue
		}
		sockets[c.Package] = true
		if !busy[c.Core] && !v.Placement().Housekeeping.Has(c.ID) {
			idle[c.Package]++
		}
	}
	for socket := range sockets {
		full = full || idle[socket] == 0
	}
	return full, known
}

// stateName matches the C-state in a name of the kernel's list: kernels before 4.x add the processor (C6-SNB, NHM-C3)
// and call the polling state C0, and variants have a suffix (C6S, C7s); C1E is a separate state.
var stateName = regexp.MustCompile(`(?:^|-)(C[0-9]+E?)`)

// stateOf returns the C-state of an entry in the kernel's list: POLL, C1, C1E, C3 …
func stateOf(s facts.IdleState) string {
	name := stateName.FindStringSubmatch(s.Name)
	switch {
	case s.Name == "POLL" || name != nil && name[1] == "C0":
		return "POLL"
	case name != nil:
		return name[1]
	}
	return s.Name
}

// deep reports whether a state is deeper than C1. Only intel_idle names C-states; acpi_idle has ACPI's numbers, and
// anything beyond its C1 can be C6.
func deep(s facts.IdleState) bool { return stateOf(s) != "POLL" && stateOf(s) != "C1" }

var firmwareC6 = idleKnob("firmware.c6", "Core C6 state", onX86, func(v *View, s facts.IdleState) bool {
	if strings.HasPrefix(v.Power.IdleDriver, "acpi") {
		return deep(s)
	}
	return slices.Contains([]string{"C6", "C7", "C8", "C9", "C10"}, stateOf(s))
}, "waking up from C6 takes longer than many packets")

var firmwareC3 = idleKnob("firmware.c3", "Core C3 state", onIntel, func(v *View, s facts.IdleState) bool {
	return !strings.HasPrefix(v.Power.IdleDriver, "acpi") && stateOf(s) == "C3"
}, "waking up from C3 takes longer than many packets")

var firmwareC1E = idleKnob("firmware.c1e", "C1E state", onIntel, func(v *View, s facts.IdleState) bool {
	return stateOf(s) == "C1E"
}, "the core's clock is at its minimum when the packet comes")

var firmwarePackage = idleKnob("firmware.package_c_state", "Package C-states", onIntel,
	func(v *View, s facts.IdleState) bool { return deep(s) && stateOf(s) != "C1E" },
	"a NIC's DMA waits until the socket has woken up")
