package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// dedicatedCPUs returns the CPUs to reserve for vCPUs from boot on: those that the user gives, or else the placement's;
// never the boot CPU. note says if that was left out.
func (v *View) dedicatedCPUs() (set setting.CPUSet, note string) {
	set = v.Goal.CPUs
	if len(set) == 0 {
		for _, p := range v.Placement().Guests {
			if v.Goal.ForGuest(p.Name) && !slices.Contains(v.floaters(), p.Name) {
				set = set.Or(p.VCPUSet())
			}
		}
	}
	if set.Has(facts.BootCPU) {
		set, note = set.Minus(setting.CPUs(facts.BootCPU)), "; CPU 0 boots the host and keeps its time: it is left out"
	}
	return set, note
}

// listsThen returns the CPUs that isolcpus, nohz_full and rcu_nocbs are to name: the guests' CPUs, the other threads of
// their cores that nothing needs, and what stays of the lists (see staying). Computed at the first call.
func (v *View) listsThen() setting.CPUSet {
	if v.lists == nil {
		set, _ := v.dedicatedCPUs()
		set = set.Or(v.spareSiblings(set))
		for _, name := range isolationLists {
			if next := v.Readings.At(bootArgument(name)); next.State == setting.Known && len(set) > 0 {
				i := isolation{scheduler: name == "isolcpus"}
				if _, cpus, ok := i.parse(v, next.Value); ok {
					set = set.Or(i.staying(v, cpus))
				}
			}
		}
		v.lists = append(setting.CPUSet{}, set...)
	}
	return v.lists
}

// isolationLists are the arguments that are to name the same CPUs.
var isolationLists = []string{"isolcpus", "nohz_full", "rcu_nocbs"}

// spareSiblings returns the other threads of the cores of the guests' CPUs, for whatever runs there takes half of a
// vCPU's core: those where nothing is placed or bound. There are none if the rest would be no whole core for the host
// or fewer CPUs than the guests that float have vCPUs, if a vCPU is on the boot CPU, or if the user gave the CPUs.
func (v *View) spareSiblings(cpus setting.CPUSet) (spare setting.CPUSet) {
	if len(v.Goal.CPUs) > 0 || slices.ContainsFunc(v.Placement().Guests, func(p placement.Placed) bool {
		return p.VCPUSet().Has(facts.BootCPU) // once isolated, a sibling would be a better place than that
	}) {
		return nil
	}
	for _, cpu := range cpus {
		c, _ := v.Topology.CPU(cpu)
		spare = spare.Or(c.Siblings)
	}
	spare = spare.And(v.Topology.Online).Minus(cpus).Minus(v.usedCPUs()).Minus(setting.CPUs(facts.BootCPU))
	rest, vcpus, whole := v.Topology.Online.Minus(cpus).Minus(spare), 0, false
	for g := range facts.Each(v.ask().Guests) {
		if slices.Contains(v.floaters(), g.Name) {
			vcpus += g.VCPUs
		}
	}
	for _, cpu := range rest {
		c, _ := v.Topology.CPU(cpu)
		whole = whole || len(c.Siblings.And(v.Topology.Online).Minus(rest)) == 0
	}
	if !whole || len(rest) < vcpus {
		return nil
	}
	return spare
}

// usedCPUs returns the CPUs that the placement gives to something, and those that threads of guests are bound to which
// no plan moves: not where a thread may run on all CPUs that are not set aside.
func (v *View) usedCPUs() setting.CPUSet {
	ordinary, used := v.Topology.Online.Minus(v.SetAside()), v.Placement().Housekeeping
	add := func(cpus setting.CPUSet) {
		if len(ordinary.Minus(cpus)) > 0 {
			used = used.Or(cpus)
		}
	}
	for _, p := range v.Placement().Guests {
		if slices.Contains(v.floaters(), p.Name) { // no plan brings it there
			continue
		}
		add(p.VCPUSet())
		add(p.Emulator)
		for _, cpus := range v.vhostThen(&p) {
			add(cpus)
		}
	}
	for _, n := range v.Placement().NICs {
		add(setting.CPUs(n.CPUs...))
	}
	for g := range facts.Each(v.Guests) {
		if placed, _ := v.seat(g); placed != nil && v.mayPin(g) {
			continue
		}
		for _, t := range g.Threads {
			add(t.Affinity)
		}
	}
	return used
}

// isolation is a kernel argument that takes a CPU list.
type isolation struct {
	scheduler bool // it is isolcpus, which has flags in front of the list
	callbacks bool // it is rcu_nocbs, for which nohz_full can stand
}

// flags returns the flags that a kernel knows. One that meets an unknown flag ignores the whole argument
// (kernel/sched/isolation.c, housekeeping_isolcpus_setup). Releases that took managed_irq back, such as those of EL 8,
// isolate by a list without flags too.
func (i isolation) flags(release string) []string {
	if i.scheduler && since(release, 5, 6) { // managed_irq: commit 11ea68f553e2
		return []string{"managed_irq", "domain"}
	}
	return nil
}

// parse splits a value into flags and CPUs. N stands for the last CPU (lib/bitmap-str.c, bitmap_parselist).
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
	return flags, cpus.Minus(setting.CPUs(facts.BootCPU)), err == nil && text != ""
}

// value returns the value for a set of CPUs, as the kernel of a release takes it.
func (i isolation) value(release string, cpus setting.CPUSet) string {
	return strings.Join(append(i.flags(release), cpus.String()), ",")
}

// advise returns the advice on the argument.
func (i isolation) advise(v *View, a setting.Address, because string) Advice {
	set, note := v.dedicatedCPUs()
	if len(set) == 0 {
		return Unsure("the guests' CPUs are not known: name them with --cpus, or the guest with --guest")
	}
	if note != "" && len(v.Topology.Online.Minus(set)) == 1 {
		return Unsure("the guests have all CPUs, and none is left for the host")
	}
	severity := High
	if i.callbacks && v.offloads(v.Readings.At(a), set) {
		return Fine(fmt.Sprintf("nohz_full has RCU's work of the guests' CPUs %s done elsewhere too%s", set, note))
	}
	if next := v.Readings.At(a); next.State == setting.Known {
		flags, cpus, ok := i.parse(v, next.Value)
		has := func(flag string) bool { return slices.Contains(flags, flag) }
		missing := slices.ContainsFunc(i.flags(v.Kernel.Release), func(flag string) bool { return !has(flag) })
		if ok && cpus.Equal(set) && !missing {
			return v.fineAtBoot(a, fmt.Sprintf("the guests' CPUs %s%s", set, note))
		}
		if ok && len(set.Minus(cpus)) == 0 && !missing && v.listsAgree(cpus) {
			return v.fineAtBoot(a,
				fmt.Sprintf("all of the guests' CPUs %s are among them, and the three lists agree%s", set, note))
		}
		covered := ok && len(set.Minus(cpus)) == 0 && !missing
		if covered && !i.scheduler && len(cpus.Minus(v.isolcpusNext())) == 0 {
			return v.fineAtBoot(a, fmt.Sprintf("the guests' CPUs %s are among them, and all of them are isolated%s",
				set, note))
		}
		if rest := cpus.Minus(v.listsThen()); covered && len(rest) > 0 {
			severity, because = Low, "the guests' CPUs are among them, but "+rest.Words()+" are the host's: the three "+
				"lists are to name the same CPUs"
		}
	}
	if i.scheduler && len(set.Minus(v.IsolatedPartitions())) == 0 {
		return Fine(fmt.Sprintf("isolated cpuset partitions have the guests' CPUs %s: the scheduler balances nothing "+
			"onto them%s", set, note))
	}
	if g := v.floating(); g != nil {
		return Skips(fmt.Sprintf("guest %s is not pinned, and its platform (%s) would have to: CPUs that are set "+
			"aside would be taken from it", g.Name, g.Platform().Title()))
	}
	all := v.listsThen()
	threads := all.And(v.spareSiblings(set)).Minus(set)
	if len(threads) > 0 {
		note += "; with " + threads.Words() + ", the other threads of their cores"
	}
	if stay := all.Minus(set).Minus(threads); len(stay) > 0 {
		note += "; " + stay.Words() + " stay, set aside already"
	}
	return v.atBoot(a, setting.Exact(i.value(v.Kernel.Release, all)), because+note).At(severity)
}

// isolcpusNext returns the CPUs that isolcpus names for the next boot.
func (v *View) isolcpusNext() setting.CPUSet {
	_, cpus, _ := (isolation{}).parse(v, v.Readings.At(bootArgument("isolcpus")).Value)
	return cpus
}

// staying returns the CPUs of a list that the goal is not for and that stay in it all the same: isolated ones, since
// somebody set them aside, and of the other lists those of vCPUs that are pinned and stay there.
func (i isolation) staying(v *View, listed setting.CPUSet) setting.CPUSet {
	if i.scheduler {
		return listed
	}
	var vcpus setting.CPUSet
	for g := range facts.Each(v.Guests) {
		if p := v.Placement().Guest(g.Name); p != nil {
			vcpus = vcpus.Or(p.VCPUSet())
			continue
		}
		for _, t := range g.Threads {
			if t.Role == "vcpu" && len(t.Affinity) == 1 && g.Active() {
				vcpus = vcpus.Or(t.Affinity)
			}
		}
	}
	return listed.And(vcpus)
}

// floating returns a guest with vCPUs that nobody pins: its platform, which regenerates its definition at each start,
// has not; nil if there is none.
func (v *View) floating() *facts.Guest {
	return facts.Find(v.Host.Guests, func(g *facts.Guest) bool {
		return g.Rewrites() && slices.ContainsFunc(g.Threads, func(t facts.Thread) bool {
			return t.Role == "vcpu" && len(t.Affinity) != 1
		})
	})
}

// listsAgree reports whether isolcpus, nohz_full and rcu_nocbs all name exactly these CPUs at the next boot. Isolated
// cpuset partitions that have all of them stand for isolcpus, and nohz_full for rcu_nocbs (see offloads).
func (v *View) listsAgree(set setting.CPUSet) bool {
	for _, name := range isolationLists {
		next := v.Readings.At(bootArgument(name))
		if name == "isolcpus" && next.State == setting.Absent && len(set.Minus(v.IsolatedPartitions())) == 0 {
			continue
		}
		if name == "rcu_nocbs" && v.offloads(next, set) {
			continue
		}
		if next.State != setting.Known {
			return false
		}
		if _, cpus, ok := (isolation{}).parse(v, next.Value); !ok || !cpus.Equal(set) {
			return false
		}
	}
	return true
}

// offloads reports whether rcu_nocbs is not given and need not be: nohz_full has the RCU callbacks of its CPUs run
// elsewhere too (kernel/rcu/tree_nocb.h, rcu_init_nohz), and this kernel obeys it on all of some CPUs.
func (v *View) offloads(rcuNocbs setting.Reading, cpus setting.CPUSet) bool {
	next := v.Readings.At(bootArgument("nohz_full"))
	if rcuNocbs.State != setting.Absent || next.State != setting.Known || !since(v.Kernel.Release, 4, 0) {
		return false
	}
	_, tickless, ok := (isolation{}).parse(v, next.Value)
	return ok && len(cpus.Minus(tickless)) == 0 && len(cpus.Minus(v.Topology.NohzFull)) == 0
}

func (i isolation) knob(id, title, because string) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
		Where: bootArguments(strings.TrimPrefix(id, "boot.")),
		Want:  func(v *View, a setting.Address) Advice { return i.advise(v, a, because) },
	}
}

var (
	bootIsolcpus = isolation{scheduler: true}.knob("boot.isolcpus", "The scheduler keeps off the "+
		"guests' CPUs", "tasks are moved onto the guests' CPUs, and managed interrupts land there")
	bootNohzFull = isolation{}.knob("boot.nohz_full", "No tick on the guests' CPUs",
		"each tick is an exit of the guest")
	bootRCUNocbs = isolation{callbacks: true}.knob("boot.rcu_nocbs", "RCU's work is done elsewhere",
		"what is freed through RCU is freed in softirqs on the guests' CPUs")
)

// nextIsolated returns the CPUs isolated from the next boot on: those of the three lists if they agree and cover all of
// the guests' CPUs, or else those that they are to name.
func (v *View) nextIsolated() setting.CPUSet {
	set, _ := v.dedicatedCPUs()
	if all := v.IsolatedPartitions(); len(all) > 0 && len(set.Minus(all)) == 0 && v.listsAgree(all) {
		return all
	}
	if next := v.Readings.At(bootArgument("isolcpus")); next.State == setting.Known {
		if _, cpus, ok := (isolation{}).parse(v, next.Value); ok && len(set.Minus(cpus)) == 0 && v.listsAgree(cpus) {
			return cpus
		}
	}
	return v.listsThen()
}

var bootIRQAffinity = &Knob{
	ID: "boot.irqaffinity", Title: "Interrupts begin on the host's CPUs",
	Stage: datapath.Kernel, Risk: goal.Reboot, After: []string{"boot.isolcpus"}, Tiers: tiers(goal.Realtime),
	Where: bootArguments("irqaffinity"),
	Want: func(v *View, a setting.Address) Advice {
		isolated := v.nextIsolated()
		others := v.Topology.Online.Minus(isolated)
		switch {
		case len(isolated) == 0:
			return Unsure("the guests' CPUs are not known: name them with --cpus, or the guest with --guest")
		case len(others) == 0:
			return Unsure("no CPU is left for the host, or the CPUs that are online are not known")
		}
		if cpus, known := v.cpusAt(a); known && len(cpus) > 0 && len(cpus.And(isolated)) == 0 {
			return v.fineAtBoot(a, fmt.Sprintf("none of the isolated CPUs %s is among them", isolated))
		}
		return v.atBoot(a, setting.Exact(others.String()),
			fmt.Sprintf("interrupts may begin on the isolated CPUs %s", isolated)).At(Medium)
	},
}

var bootSkewTick = &Knob{
	ID: "boot.skew_tick", Title: "The CPUs' ticks do not come at the same moment",
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime),
	Where: bootArguments("skew_tick"),
	Want: func(v *View, a setting.Address) Advice {
		return v.atBoot(a, setting.Exact("1"), "all CPUs' ticks come at once and wait for each other's locks").At(Low)
	},
}

var kernelClocksource = &Knob{
	ID: "kernel.clocksource", Title: "Time is read from the processor",
	Limit: onX86,
	Stage: datapath.Kernel, Risk: goal.Reboot, Tiers: tiers(goal.Realtime), Check: true,
	Where: fixed(setting.Of(setting.Sysfs, "devices/system/clocksource/clocksource0/current_clocksource")),
	Want: func(v *View, a setting.Address) Advice {
		if v.inGuest() {
			return Skips("the clock of a virtual machine: guest.realtime speaks of it")
		}
		return exact("tsc",
			"every wake-up reads the clock, and others than the TSC cost about a microsecond each time").At(High)
	},
}
