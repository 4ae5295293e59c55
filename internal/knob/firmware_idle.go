package knob

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// idleKnob is a check of C-states that the kernel's list shows, or a person attests.
func idleKnob(id, title, why, verify string, traps []string, is func(v *View, s facts.IdleState) bool, listed string) *Knob {
	return firmware(Knob{
		ID: id, Title: title,
		Doc: Doc{
			Want: "disabled for realtime, and where guests use all cores of a socket", Why: why, Verify: verify,
			Cost: "Power and heat, also of idle cores. The turbo of a single busy core can drop, since the others no longer leave their share of power to it.",
			Traps: append(traps,
				"Immediate and reversible without the firmware: cpu.latency (each CPU's pm_qos_resume_latency_us), or 'echo 1 > /sys/devices/system/cpu/cpuN/cpuidle/stateM/disable'.",
				"intel_idle has its own list of states and does not look at processor.max_cstate (boot.cstate)."),
			Sources: []Source{
				{"states, latency, disable", "Documentation/admin-guide/pm/cpuidle.rst; drivers/idle/intel_idle.c"},
				{"disabled for realtime and where all cores of a socket are used", "founding measurements"},
			},
		},
		Want: func(v *View, a setting.Address) Advice {
			if advice, ok := v.onMetal(); !ok {
				return advice
			}
			advice := Wants(setting.Exact("disabled"), listed)
			if v.Tier == goal.Realtime {
				advice = advice.At(High)
			} else if full, known := v.fullSocket(); !known {
				return Unsure("which cores the guests will use is not known: in idle cores C-states leave power to the busy ones")
			} else if !full {
				return Fine("cores are left idle, and their C-states leave power to the busy ones")
			} else {
				advice = advice.At(Low)
			}
			if value, told := v.runningArgument("idle"); told && value == "poll" {
				return seen("idle=poll", Fine("idle=poll: no C-state is entered"))
			}
			if len(v.Power.IdleStates) == 0 {
				return v.attested(id, listed, advice.Severity)
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
				return seen(v.Power.IdleDriver+" enters "+strings.Join(open, ", "), advice)
			case shut:
				return seen("disabled in the kernel", Fine("the kernel does not enter it"))
			}
			return v.orListed(id, listed, advice.Severity)
		},
	})
}

// orListed is the advice where no such state is in the kernel's list: it cannot be entered, except for C1E, which the
// processor can make of C1 by itself.
func (v *View) orListed(id, listed string, severity Severity) Advice {
	if id == "firmware.c1e" {
		return v.attested(id, listed, severity)
	}
	return seen("not among the kernel's states", Fine("the kernel has no such state to enter"))
}

// limited tells whether a latency limit keeps the kernel from entering a state: one that is held, or one on each of the guests'
// CPUs (cpu.latency).
func (v *View) limited(s facts.IdleState) bool {
	if v.Power.LatencyLimit != nil && *v.Power.LatencyLimit < s.Latency {
		return true
	}
	quiet := v.quiet()
	for _, cpu := range quiet {
		if limit, set := wakeUpLimit(v.Readings.At(latencyOf(cpu))); !set || limit >= int64(s.Latency) {
			return false
		}
	}
	return len(quiet) > 0
}

// fullSocket tells whether the guests' threads take all cores of any socket that are not kept for the host; false and not
// known where nothing is placed.
func (v *View) fullSocket() (full, known bool) {
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

// stateName is the C-state in the name of a state: kernels before 4.x called them after the processor too (C6-SNB, NHM-C3), the
// polling one C0, and kinds of one state have letters behind (C6S, C7s); C1E is a state of its own.
var stateName = regexp.MustCompile(`(?:^|-)(C[0-9]+E?)`)

// stateOf is which C-state a state of the kernel's list is: POLL, C1, C1E, C3 …
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

// deep tells whether a state of the kernel's list is one beyond C1. Only intel_idle calls states by their names; the numbers of
// acpi_idle are ACPI's, and everything beyond C1 can be C6.
func deep(s facts.IdleState) bool { return stateOf(s) != "POLL" && stateOf(s) != "C1" }

var firmwareC6 = idleKnob("firmware.c6", "Core C6 state",
	"In C6 a core's voltage is taken away and its caches are emptied: waking up takes 40 to 200 µs and then everything is fetched anew. A vhost thread or vCPU that sleeps between packets pays that for each burst.",
	"cpupower idle-info lists no C6 that is used; turbostat's CPU%c6 is 0.",
	[]string{"AMD's CC6 shows as C2 of acpi_idle."},
	func(v *View, s facts.IdleState) bool {
		if strings.HasPrefix(v.Power.IdleDriver, "acpi") {
			return deep(s)
		}
		return slices.Contains([]string{"C6", "C7", "C8", "C9", "C10"}, stateOf(s))
	}, "waking up from C6 takes longer than many packets")

var firmwareC3 = idleKnob("firmware.c3", "Core C3 state",
	"In C3 a core's first caches are flushed and its clocks stopped: waking up takes 30 to 80 µs, and the first packets find cold caches.",
	"cpupower idle-info lists no C3 that is used; turbostat's CPU%c3 is 0.",
	[]string{"Processors since Skylake have no C3 any more: what acpi_idle calls C3 is C6 there."},
	func(v *View, s facts.IdleState) bool {
		return !strings.HasPrefix(v.Power.IdleDriver, "acpi") && stateOf(s) == "C3"
	}, "waking up from C3 takes longer than many packets")

var firmwareC1E = idleKnob("firmware.c1e", "C1E state",
	"C1E is a halt that also lowers the clock to its minimum. Coming back takes about 10 µs, and the core is slow until its clock has risen.",
	"cpupower idle-info lists no C1E that is used; bit 1 of MSR 1FCh (C1E promotion) is 0.",
	[]string{"Where the kernel's list has no C1E the processor can still make it of every C1 by itself (C1E promotion): then only the firmware's setup tells."},
	func(v *View, s facts.IdleState) bool { return stateOf(s) == "C1E" }, "the core's clock is at its minimum when the packet comes")

var firmwarePackage = idleKnob("firmware.package_c_state", "Package C-states",
	"When all cores of a socket sleep deeply the socket follows: L3, memory controllers and the PCIe root go to sleep too, and a NIC's DMA waits for them to wake up (up to some hundred µs).",
	"turbostat: Pkg%pc2, Pkg%pc3 and Pkg%pc6 are 0; its first lines name the package limit (PKG_CST_CONFIG_CONTROL).",
	[]string{"The kernel's list shows states of cores only. Without a core state beyond C1 there is no package state; with one only turbostat or the firmware's setup tells how deep the package may go."},
	func(v *View, s facts.IdleState) bool { return deep(s) && stateOf(s) != "C1E" }, "a NIC's DMA waits until the socket has woken up")
