package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// guestArguments are what a realtime guest's command line holds.
var guestArguments = []string{"isolcpus", "nohz_full", "rcu_nocbs"}

var guestRealtime = &Knob{
	ID: "guest.realtime", Stage: datapath.Guest, Risk: goal.Reboot, Check: true,
	Tiers: realtime(),
	Where: inside("realtime/isolcpus", "realtime/nohz_full", "realtime/rcu_nocbs", "realtime/idle", "realtime/clocksource", "realtime/kernel"),
	Want: func(v *View, a setting.Address) Advice {
		_, name, _ := strings.Cut(a.Rest(), "/")
		v, advice, ok := v.within(a, "how its kernel was started")
		if !ok {
			return advice
		}
		if name == "clocksource" {
			switch v.Kernel.Clocksource {
			case "":
				return Unsure("its clock source could not be read")
			case "tsc":
				return seen("tsc", Fine("time is read from the processor"))
			}
			return seen(v.Kernel.Clocksource, Wants(setting.Exact("tsc"), v.Kernel.Clocksource+" is read more slowly, hpet and acpi_pm by leaving the guest").At(Medium))
		}
		if name == "kernel" {
			switch {
			case v.Kernel.Realtime:
				return seen("PREEMPT_RT", Fine("its kernel is a realtime one"))
			case v.Kernel.Version == "":
				return Unsure("its kernel's version could not be read")
			}
			return seen(strings.TrimSpace("no PREEMPT_RT: "+preemption(v.Kernel.Version)), Wants(setting.Exact("PREEMPT_RT"), "wake-ups in the guest wait for its own kernel's interrupts and locks, whatever the host does; "+v.install()).At(Medium))
		}
		if v.Kernel.CommandLine == "" {
			return Unsure("its command line could not be read")
		}
		value, given := argument(v.Kernel.CommandLine, name)
		if name == "idle" {
			if given && value == "poll" {
				return seen("poll", Fine("its vCPUs do not halt"))
			}
			return seen("not given", Wants(setting.Exact("poll"), "each time a vCPU halts it must be woken, an exit and some microseconds").At(Info))
		}
		if !given {
			return seen("not given", Wants(setting.Exact(v.isolatedInside(name)), "its own kernel works on the vCPUs of the realtime work").At(Medium))
		}
		for _, other := range guestArguments {
			if more, there := argument(v.Kernel.CommandLine, other); there && listOf(more) != listOf(value) {
				return seen(listOf(value), Wants(setting.Exact(listOf(more)), fmt.Sprintf("%s=%s and %s=%s name other CPUs", name, value, other, more)).At(Medium))
			}
		}
		return seen(listOf(value), Fine("given, and the lists agree"))
	},
}

// isolatedInside is what a guest's command line should have of an argument: all of its vCPUs but the one that it boots on, or those that
// are named where mpps runs in it.
func (v *View) isolatedInside(name string) string {
	cpus := v.Topology.Online
	if len(v.Goal.CPUs) > 0 {
		cpus = v.Goal.CPUs
	}
	cpus = cpus.Minus(setting.CPUs(bootCPU))
	switch {
	case len(cpus) == 0:
		return name + "=CPUS"
	case name == "isolcpus":
		return name + "=managed_irq,domain," + cpus.String()
	}
	return name + "=" + cpus.String()
}

// argument is the last value of an argument on a kernel's command line.
func argument(line, name string) (value string, given bool) {
	for _, word := range strings.Fields(line) {
		if key, rest, _ := strings.Cut(word, "="); key == name {
			value, given = rest, true
		}
	}
	return value, given
}

// listOf is the CPUs of an argument's value in canonical form, without flags in front (isolcpus=domain,managed_irq,2-3).
func listOf(value string) string {
	parts := strings.Split(value, ",")
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "domain" || p == "managed_irq" || p == "nohz" })
	set, err := setting.ParseCPUs(strings.Join(parts, ","))
	if err != nil {
		return value
	}
	return set.String()
}
