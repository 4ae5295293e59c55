package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// bootCPU is the CPU that the kernel boots on: it keeps the time while others have no tick, and cannot be one of them.
const bootCPU = 0

// dedicated are the CPUs that the guests' vCPUs should have for themselves from boot on: those that the user gives, else
// those of the placement; without the boot CPU. The note says what is odd about them.
func (v *View) dedicated() (set setting.CPUSet, note string) {
	set = v.Goal.CPUs
	if len(set) == 0 {
		for _, p := range v.Placement().Guests {
			if v.Goal.ForGuest(p.Name) {
				set = set.Or(p.VCPUSet())
			}
		}
	}
	if set.Has(bootCPU) {
		set, note = set.Minus(setting.CPUs(bootCPU)), "; CPU 0 boots the host and keeps its time: it is left out"
	}
	return set, note
}

// isolation is an argument that takes a list of CPUs.
type isolation struct {
	flags []string // in front of the list
}

// parse reads a value: flags and the CPUs. N stands for the last CPU (lib/bitmap-str.c, bitmap_parselist).
func (i isolation) parse(v *View, value string) (flags []string, cpus setting.CPUSet, ok bool) {
	parts := strings.Split(value, ",")
	for len(parts) > 0 && slices.Contains([]string{"nohz", "domain", "managed_irq"}, parts[0]) {
		flags, parts = append(flags, parts[0]), parts[1:]
	}
	text := strings.Join(parts, ",")
	if n := len(v.Topology.CPUs); n > 0 {
		text = strings.ReplaceAll(text, "N", strconv.Itoa(v.Topology.CPUs[n-1].ID))
	}
	cpus, err := setting.ParseCPUs(text)
	return flags, cpus.Minus(setting.CPUs(bootCPU)), err == nil && text != ""
}

// value is the argument's value for CPUs.
func (i isolation) value(cpus setting.CPUSet) string {
	return strings.Join(append(slices.Clone(i.flags), cpus.String()), ",")
}

// wish is the argument's value in words.
func (i isolation) wish() string {
	return strings.Join(append(slices.Clone(i.flags), "the guests' CPUs"), ",") + ", for realtime; the same CPUs in all three"
}

// want is what one of the three arguments should be.
func (i isolation) want(v *View, a setting.Address, because string) Advice {
	set, note := v.dedicated()
	if len(set) == 0 {
		return Unsure("the guests' CPUs are not known: name them with --cpus, or the guest with --guest")
	}
	if next := v.Readings.At(a); next.State == setting.Known {
		flags, cpus, ok := i.parse(v, next.Value)
		has := func(flag string) bool { return slices.Contains(flags, flag) }
		missing := slices.ContainsFunc(i.flags, func(flag string) bool { return !has(flag) })
		if ok && cpus.Equal(set) && !missing {
			return v.bootsFine(a, fmt.Sprintf("the guests' CPUs %s%s", set, note))
		}
		if ok && len(set.Minus(cpus)) == 0 && !missing && v.agree(cpus) {
			return v.bootsFine(a, fmt.Sprintf("all of the guests' CPUs %s are among them, and the three lists agree%s", set, note))
		}
	}
	return v.boots(a, setting.Exact(i.value(set)), because+note).At(High)
}

// agree tells whether isolcpus, nohz_full and rcu_nocbs name these CPUs at the next boot.
func (v *View) agree(set setting.CPUSet) bool {
	for _, name := range []string{"isolcpus", "nohz_full", "rcu_nocbs"} {
		next := v.Readings.At(bootArgument(name))
		if next.State != setting.Known {
			return false
		}
		if _, cpus, ok := (isolation{}).parse(v, next.Value); !ok || !cpus.Equal(set) {
			return false
		}
	}
	return true
}

// isolationTraps hold for all three.
var isolationTraps = []string{
	"isolcpus, nohz_full and rcu_nocbs must name the same CPUs: a CPU with its tick but no scheduler, or the other way about, has the cost of both. mpps writes all three from the guests' CPUs.",
	"The boot CPU (0) cannot be one of them: the kernel takes it out of nohz_full (it keeps the time), and mpps out of all three.",
	"With SMT the sibling of an isolated CPU still runs other work on the same core: see firmware.smt.",
	bootTrap,
}

func isolationKnob(id, title, why, verify string, flags []string, because string, traps []string, sources ...Source) *Knob {
	name := strings.TrimPrefix(id, "boot.")
	i := isolation{flags}
	return &Knob{
		ID: id, Title: title, Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
		Doc: Doc{
			Want: i.wish(), Why: why, Cost: "These CPUs are for the guests' vCPUs alone, busy or not; the host's own work has the others.",
			Verify: verify, Traps: append(traps, isolationTraps...), Sources: append(sources, bootWritten),
		},
		Where: bootArguments(name),
		Want:  func(v *View, a setting.Address) Advice { return i.want(v, a, because) },
	}
}

var bootIsolcpus = isolationKnob("boot.isolcpus", "The scheduler keeps off the guests' CPUs",
	"The scheduler moves tasks between CPUs to balance them. On an isolated CPU it puts nothing by itself: only what is pinned there runs there, and balancing does not look at it.",
	"/sys/devices/system/cpu/isolated lists them.",
	[]string{"managed_irq", "domain"}, "tasks are moved onto the guests' CPUs, and managed interrupts land there",
	[]string{
		"Without flags isolcpus means domain alone, which cannot be undone before a reboot; managed_irq, which also keeps interrupts that the kernel manages by itself away, must be named.",
		"On isolated CPUs there is no balancing: an unpinned thread that is allowed on several of them stays on one. Pin each vCPU (domain.vcpupin).",
		"Documentation calls it deprecated in favour of cpusets; for managed interrupts and early boot there is no other way.",
	},
	Source{"flags and default", "kernel/sched/isolation.c, housekeeping_isolcpus_setup; Documentation/admin-guide/kernel-parameters.txt, isolcpus"})

var bootNohzFull = isolationKnob("boot.nohz_full", "No tick on the guests' CPUs",
	"The tick interrupts each CPU 100 to 1000 times a second to keep time and to schedule; each is an exit of the guest. With one task on the CPU the kernel stops it (one a second is left, and done elsewhere).",
	"/sys/devices/system/cpu/nohz_full lists them; LOC in /proc/interrupts hardly grows on them while a guest is busy.",
	nil, "each tick is an exit of the guest",
	[]string{
		"It needs CONFIG_NO_HZ_FULL: where /sys/devices/system/cpu/nohz_full is missing the argument does nothing.",
		"nohz_full implies rcu_nocbs for its CPUs and leaves the boot CPU out.",
		"nohz=on, which realtime profiles write beside it, is the default; nohz=off and highres=off take nohz_full out of force.",
		"Entering and leaving the kernel costs more on these CPUs (context tracking): not for CPUs that do system calls, vhost's for one.",
	},
	Source{"implies rcu_nocbs, boot CPU out", "Documentation/admin-guide/kernel-parameters.txt, nohz_full; kernel/time/tick-sched.c, tick_nohz_full_setup"},
	Source{"what keeps the tick", "Documentation/timers/no_hz.rst"})

var bootRCUNocbs = isolationKnob("boot.rcu_nocbs", "RCU's work is done elsewhere",
	"Whatever a CPU frees through RCU is freed later on the same CPU in a softirq, in bursts. For these CPUs threads do it, which may run on others.",
	"Threads rcuop/N or rcuog/N exist for each of them.",
	nil, "what is freed through RCU is freed in softirqs on the guests' CPUs",
	[]string{
		"nohz_full alone implies it; it is written out so that the lists can be compared, and for CPUs without nohz_full.",
		"The threads run anywhere until they are pinned: rt.rcuc and a housekeeping affinity see to that.",
	},
	Source{"offloading", "Documentation/admin-guide/kernel-parameters.txt, rcu_nocbs; kernel/rcu/tree_nocb.h"})
