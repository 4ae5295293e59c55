package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// guestArguments are the arguments that isolate CPUs of a realtime guest's kernel.
var guestArguments = []string{"isolcpus", "nohz_full", "rcu_nocbs"}

var guestRealtime = &Knob{
	ID: "guest.realtime", Title: "A realtime guest isolates its own vCPUs too",
	Parts: map[string]Limit{"realtime/idle": onX86, "realtime/clocksource": onX86, "idle": onX86},
	Stage: datapath.Guest, Risk: goal.GuestRestart, Tiers: realtime(),
	Where: func(h *facts.Host) []setting.Address {
		all := insideFacts("realtime/isolcpus", "realtime/nohz_full", "realtime/rcu_nocbs", "realtime/idle",
			"realtime/clocksource", "realtime/kernel")(h)
		for i, a := range all {
			all[i] = inLoader(h, a)
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		if a.Kind == setting.GuestArg {
			return v.guestArgument(a)
		}
		_, name, _ := strings.Cut(a.Rest(), "/")
		v, advice, ok := v.insideOf(a, "how its kernel was started")
		if !ok {
			return advice
		}
		if name == "clocksource" {
			switch v.Kernel.Clocksource {
			case "":
				return Unsure("its clock source could not be read")
			case "tsc":
				return fact("tsc", Fine("time is read from the processor"))
			}
			return fact(v.Kernel.Clocksource, exact("tsc",
				v.Kernel.Clocksource+" is read more slowly, hpet and acpi_pm by leaving the guest").At(Medium))
		}
		if name == "kernel" {
			switch {
			case v.Kernel.Realtime:
				return fact("PREEMPT_RT", Fine("its kernel is a realtime one"))
			case v.Kernel.Version == "":
				return Unsure("its kernel's version could not be read")
			}
			return fact(strings.TrimSpace("no PREEMPT_RT: "+preemption(v.Kernel.Version)),
				exact("PREEMPT_RT", "wake-ups in the guest wait for its own kernel's interrupts and locks, whatever "+
					"the host does; "+v.installHint()).At(Medium))
		}
		if v.Kernel.CommandLine == "" {
			return Unsure("its command line could not be read")
		}
		value, given := argument(v.Kernel.CommandLine, name)
		if name == "idle" {
			if given && value == "poll" {
				return fact("poll", Fine("its vCPUs do not halt"))
			}
			return fact("not given",
				exact("poll", "each time a vCPU halts it must be woken, an exit and some microseconds").At(Info))
		}
		if !given {
			return fact("not given",
				exact(v.isolatedInside(name), "its own kernel works on the vCPUs of the realtime work").At(Medium))
		}
		for _, other := range guestArguments {
			if more, there := argument(v.Kernel.CommandLine, other); there && cpuList(more) != cpuList(value) {
				return fact(cpuList(value), exact(cpuList(more),
					fmt.Sprintf("%s=%s and %s=%s name other CPUs", name, value, other, more)).At(Medium))
			}
		}
		return fact(cpuList(value), Fine("given, and the lists agree"))
	},
}

// isolatedInside returns an argument of the guest's kernel with the vCPUs that it should name: all but the one that it
// boots on or, if mpps runs in the guest, those of the goal.
func (v *View) isolatedInside(name string) string {
	cpus := v.Topology.Online
	if len(v.Goal.CPUs) > 0 {
		cpus = v.Goal.CPUs
	}
	cpus = cpus.Minus(setting.CPUs(facts.BootCPU))
	if len(cpus) == 0 {
		return name + "=CPUS"
	}
	return name + "=" + isolation{scheduler: name == "isolcpus"}.value(v.Kernel.Release, cpus)
}

// argument returns the last value of an argument on a kernel command line.
func argument(line, name string) (value string, given bool) {
	for _, word := range strings.Fields(line) {
		if key, rest, _ := strings.Cut(word, "="); key == name {
			value, given = rest, true
		}
	}
	return value, given
}

// cpuList returns the CPUs of an argument in canonical form, without flags (isolcpus=domain,managed_irq,2-3).
func cpuList(value string) string {
	parts := strings.Split(value, ",")
	parts = slices.DeleteFunc(parts, func(p string) bool { return p == "domain" || p == "managed_irq" || p == "nohz" })
	set, err := setting.ParseCPUs(strings.Join(parts, ","))
	if err != nil {
		return value
	}
	return set.String()
}

// inLoader returns the argument of a guest's next boot that a fact about its command line is about, if the guest has a
// boot loader that is known; other facts as they are.
func inLoader(h *facts.Host, a setting.Address) setting.Address {
	_, name, _ := strings.Cut(a.Rest(), "/")
	if a.Object() == self || name != "idle" && !slices.Contains(guestArguments, name) {
		return a
	}
	g := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == a.Object() })
	if g == nil || seenInside(g) == nil || seenInside(g).Boot == nil {
		return a
	}
	return setting.Of(setting.GuestArg, g.Name, name)
}

// guestArgument is the advice on an argument of a guest's next boot.
func (v *View) guestArgument(a setting.Address) Advice {
	in, advice, ok := v.insideOf(a, "how its kernel is started")
	if !ok {
		return advice
	}
	inner := bootArgument(a.Rest())
	if inner.Path == "idle" {
		if place := v.Placement().Guest(a.Object()); place == nil || len(place.VCPUSet()) < len(in.Topology.Online) {
			return Skips("its vCPUs have no dedicated CPUs: one that polls would take the others' time")
		}
		advice = exact("poll", "each time a vCPU halts it must be woken, an exit and some microseconds").At(Info)
		advice.Warning = "every vCPU takes the whole time of its CPU, from the guest's next boot on"
	} else {
		wanted, given := in.isolatedNext()
		if len(wanted) == 0 {
			return Skips("it has one vCPU, on which its kernel must run")
		}
		list := isolation{scheduler: inner.Path == "isolcpus"}
		advice = exact(list.value(in.Kernel.Release, wanted),
			"its own kernel works on the vCPUs of the realtime work").At(Medium)
		if given != "" {
			advice.Because = given + " names others: the three lists must agree"
		}
		next := in.Readings.At(inner)
		if _, cpus, ok := list.parse(in, next.Value); next.State == setting.Known && ok && cpus.Equal(wanted) {
			advice = Fine("given, and the lists agree")
		}
	}
	advice.Needs = setting.RestartOf(a.Object())
	next, running := in.Readings.At(inner), in.runningReading(inner)
	if next.State == setting.Known && running.State != setting.Unknown && !running.Same(next) {
		advice.Because = fmt.Sprintf("waiting for the guest to be rebooted: its running kernel has %s %s", inner.Path,
			running)
	}
	return advice
}

// isolatedNext returns the vCPUs that the first of a guest's lists names for the next boot, and the name of that
// argument; without any all vCPUs but the one that it boots on.
func (v *View) isolatedNext() (vcpus setting.CPUSet, given string) {
	for _, name := range guestArguments {
		if next := v.Readings.At(bootArgument(name)); next.State == setting.Known {
			if _, cpus, ok := (isolation{}).parse(v, next.Value); ok && len(cpus) > 0 {
				return cpus, name
			}
		}
	}
	return v.Topology.Online.Minus(setting.CPUs(facts.BootCPU)), ""
}
