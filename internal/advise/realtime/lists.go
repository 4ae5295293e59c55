package realtime

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

var (
	listsIsolcpus    = kind("lists.isolcpus")
	listsNohzFull    = kind("lists.nohz_full")
	listsRCU         = kind("lists.rcu_nocbs")
	listsManaged     = kind("lists.managed_irq")
	listsSpare       = kind("lists.spare")
	listsIgnored     = kind("lists.ignored")
	listsMalformed   = kind("lists.malformed")
	listsBootCPU     = kind("lists.boot_cpu")
	listsNoSuch      = kind("lists.no_such_cpu")
	listsOffline     = kind("lists.offline")
	listsIRQAffinity = kind("lists.irqaffinity")
	listsNextBoot    = kind("lists.next_boot")
	listsBalancer    = kind("lists.irqbalance")
	listsPartition   = kind("lists.partition")
	listsSibling     = kind("lists.sibling")
)

// judgeLists judges whether all lists of CPUs agree.
func judgeLists(v *view) {
	cpus := v.s.CPUs
	t := &v.h.Topology
	parted := v.h.IsolatedPartitions()
	plan := "mpps plan --latency 20us, apply, reboot"
	if rest := cpus.Minus(setting.CPUs(facts.BootCPU)); len(rest) > 0 {
		plan = fmt.Sprintf("mpps plan --latency 20us --cpus %s, apply, reboot", rest)
	}

	isolcpus, nohz, rcu := v.bootedArgument("isolcpus"), v.bootedArgument("nohz_full"), v.bootedArgument("rcu_nocbs")
	if missing := cpus.Minus(t.Isolated).Minus(parted); len(missing) > 0 {
		v.add(listsIsolcpus, "isolcpus", missing, fmt.Sprintf("isolated: %s; not: %s",
			words.Or(t.Isolated.Or(parted).String()), missing.Words()), plan).withCPUs()
	}
	if missing := cpus.Minus(t.NohzFull); len(missing) > 0 {
		v.add(listsNohzFull, "nohz_full", missing, fmt.Sprintf("without a tick: %s; with one: %s",
			words.Or(t.NohzFull.String()), missing.Words()), plan).withCPUs()
	}
	// nohz_full implies rcu_nocbs (kernel/rcu/tree_nocb.h, rcu_init_nohz).
	if missing := cpus.Minus(rcu.cpus).Minus(t.NohzFull); len(missing) > 0 {
		v.add(listsRCU, "rcu_nocbs", missing, fmt.Sprintf("offloaded: %s; not: %s",
			words.Or(rcu.cpus.Or(t.NohzFull).String()), missing.Words()), plan).withCPUs()
	} else if short := t.NohzFull.And(cpus).Minus(rcu.cpus); rcu.given && rcu.err == nil && len(short) > 0 {
		v.add(listsRCU, "rcu_nocbs", short, fmt.Sprintf("it names %s; the kernel adds %s, which nohz_full has",
			words.Or(rcu.cpus.String()), short), plan).at(knob.Low)
	}
	if len(t.Isolated.And(cpus)) > 0 && isolcpus.given && isolcpus.err == nil && !isolcpus.hasFlag("managed_irq") {
		managed := facts.Count(v.irqs, func(irq facts.IRQ) bool {
			return placedByKernel(irq) && len(irq.Affinity.And(cpus)) > 0
		})
		f := v.add(listsManaged, "isolcpus", cpus, fmt.Sprintf("its flags are %s; %s may come to these CPUs",
			strings.Join(isolcpus.flags, ","), words.Count(managed, "managed interrupt")), plan)
		if f.with("managed", float64(managed)); managed > 0 {
			f.at(knob.Medium)
		}
	}
	v.judgeIgnored(isolcpus, nohz, plan)
	v.judgeSpare()
	v.judgeExistence(isolcpus, nohz, rcu)
	if a := v.bootedArgument("irqaffinity"); a.given && a.err == nil && len(a.cpus.And(cpus)) > 0 {
		v.add(listsIRQAffinity, "irqaffinity", a.cpus.And(cpus), fmt.Sprintf("it names %s, among them %s", a.cpus,
			a.cpus.And(cpus).Words()), fmt.Sprintf("irqaffinity=%s on the kernel command line; rt.irq_affinity sets "+
			"the same at once", v.houseList()))
	}
	v.judgeNextBoot()
	v.judgeIRQBalance()
	v.judgePartitions(parted)
	v.judgeSiblings()
}

// judgeIgnored compares the arguments of the command line with what the kernel reports in sysfs.
func (v *view) judgeIgnored(isolcpus, nohz argument, plan string) {
	for _, a := range []struct {
		name  string
		given argument
		shown setting.CPUSet
	}{{"isolcpus", isolcpus, v.h.Topology.Isolated}, {"nohz_full", nohz, v.h.Topology.NohzFull}} {
		switch asked := a.given.cpus.And(v.allCPUs()).Minus(setting.CPUs(facts.BootCPU)); {
		case !a.given.given:
		case a.given.err != nil:
			v.add(listsMalformed, a.name, v.s.CPUs, fmt.Sprintf("the command line has it: %v", a.given.err), plan)
		case a.name == "isolcpus" && !a.given.hasFlag("domain"):
		case len(asked.Minus(a.shown)) > 0:
			v.add(listsIgnored, a.name, asked.Minus(a.shown), fmt.Sprintf("the command line names %s, the kernel "+
				"shows %s", a.given.cpus, words.Or(a.shown.String())),
				"look into the kernel's first messages (dmesg) for what it says of "+a.name+
					"; a kernel without CONFIG_NO_HZ_FULL has no nohz_full")
		}
	}
}

// judgeSpare finds isolated CPUs that nobody uses.
func (v *view) judgeSpare() {
	claimed := v.s.CPUs
	for _, g := range v.guests {
		claimed = claimed.Or(g.quietCPUs())
	}
	if spare := v.h.Topology.Isolated.Minus(claimed); len(spare) > 0 {
		v.add(listsSpare, "isolcpus", spare, fmt.Sprintf("%s: isolated, and neither asked about nor a guest's",
			spare.Words()), "give them to a guest, or take them out of isolcpus, nohz_full and rcu_nocbs").withCPUs()
	}
}

// allCPUs returns the CPUs of the machine, online or not.
func (v *view) allCPUs() setting.CPUSet {
	return setting.CPUs(facts.Map(v.h.Topology.CPUs, func(c facts.CPU) int { return c.ID })...)
}

// judgeExistence finds CPUs that a list names although they do not exist, quiet CPUs that are offline, and the boot
// CPU.
func (v *view) judgeExistence(isolcpus, nohz, rcu argument) {
	all := v.allCPUs()
	given := setting.CPUSet{}
	for _, a := range []struct {
		name string
		argument
	}{{"isolcpus", isolcpus}, {"nohz_full", nohz}, {"rcu_nocbs", rcu}} {
		if a.err != nil {
			continue
		}
		if a.name != "rcu_nocbs" {
			given = given.Or(a.cpus)
		}
		if odd := a.cpus.Minus(all); len(odd) > 0 {
			v.add(listsNoSuch, a.name, odd, fmt.Sprintf("it names %s; the machine has %s", odd, all),
				"correct the list on the kernel command line")
		}
	}
	if given.Or(v.s.CPUs).Has(facts.BootCPU) {
		v.add(listsBootCPU, cpuObject(facts.BootCPU), setting.CPUs(facts.BootCPU),
			"CPU 0 boots the host and is to be quiet too",
			"take CPU 0 out of isolcpus and nohz_full, and give the guest another one")
	}
	for _, cpu := range v.s.CPUs.And(all).Minus(v.h.Topology.Online) {
		v.add(listsOffline, cpuObject(cpu), setting.CPUs(cpu), "it is offline",
			fmt.Sprintf("echo 1 > /sys/devices/system/cpu/cpu%d/online; siblings that smt/control keeps off cannot "+
				"be a guest's", cpu))
	}
}

// judgeNextBoot compares the lists of the running kernel with those of the next boot.
func (v *view) judgeNextBoot() {
	var unknown []string
	why := ""
	for _, name := range bootLists {
		now := v.bootedArgument(name)
		next, r := v.nextArgument(name)
		if r.State == setting.Unknown {
			unknown, why = append(unknown, name), r.Why
			continue
		}
		if now.given == next.given && now.cpus.Equal(next.cpus) &&
			strings.Join(now.flags, ",") == strings.Join(next.flags, ",") {
			continue
		}
		v.add(listsNextBoot, name, v.s.CPUs, fmt.Sprintf("now %s, from the next boot on %s", now, next),
			"mpps plan shows which of the two is wanted; mpps status what still waits for a boot")
	}
	if len(unknown) > 0 {
		v.addUnjudged("what the next boot gets as "+strings.Join(unknown, ", "), why)
	}
}

// String is the value of an argument in words.
func (a argument) String() string {
	switch {
	case !a.given:
		return "not given"
	case a.err != nil:
		return a.err.Error()
	case len(a.flags) > 0:
		return strings.Join(a.flags, ",") + "," + a.cpus.String()
	}
	return words.Or(a.cpus.String())
}

// judgeIRQBalance judges whether irqbalance leaves the quiet CPUs alone.
func (v *view) judgeIRQBalance() {
	if !slices.ContainsFunc(v.h.Services, func(s facts.Service) bool { return s.Name == "irqbalance" && s.Running }) {
		return
	}
	i := v.h.Isolation
	if i == nil || i.IRQBalance == nil {
		v.addUnjudged("irqbalance", "it runs, and how it is set up was not seen")
		return
	}
	b := i.IRQBalance
	if b.Why != "" {
		v.addUnjudged("irqbalance", b.Why)
		return
	}
	banned, found := v.h.Topology.Isolated.Or(v.h.Topology.NohzFull), "it runs and bans what is isolated or has no tick"
	if b.Configured {
		banned = b.Banned
		found = fmt.Sprintf("it runs, bans %s (%s) and nothing else", words.Or(b.Banned.String()), b.From)
	}
	if rest := v.s.CPUs.Minus(banned); len(rest) > 0 {
		v.add(listsBalancer, "irqbalance", rest, found+": not "+rest.Words(), fmt.Sprintf(
			"IRQBALANCE_BANNED_CPULIST=%s in /etc/default/irqbalance or /etc/sysconfig/irqbalance, then restart "+
				"irqbalance; or stop it (nic.irqbalance)", v.s.CPUs)).withCPUs()
	}
}

// judgePartitions judges isolated cpuset partitions. parted are the CPUs of the valid ones.
func (v *view) judgePartitions(parted setting.CPUSet) {
	if v.h.Isolation == nil {
		return
	}
	for _, g := range v.h.Isolation.Cgroups {
		if why, invalid := strings.CutPrefix(g.Partition, "isolated invalid"); invalid {
			v.add(listsPartition, g.Path, g.CPUs, fmt.Sprintf("cpuset.cpus.partition is isolated invalid%s", why),
				"give the group CPUs that no other group has, and write isolated to its cpuset.cpus.partition once "+
					"more")
		}
	}
	if rest := v.s.CPUs.Minus(parted).Minus(v.h.Topology.Isolated); len(parted.And(v.s.CPUs)) > 0 && len(rest) > 0 {
		v.add(listsPartition, "isolated partitions", rest, fmt.Sprintf("they have %s, not %s", parted, rest.Words()),
			"add them to the cpuset.cpus of the partition")
	}
}

// busySibling is the busy time from which on a sibling matters more, in per cent.
const busySibling = 5

// judgeSiblings finds SMT siblings of quiet CPUs that are left to the host.
func (v *view) judgeSiblings() {
	for _, cpu := range v.s.CPUs {
		c, found := v.h.Topology.CPU(cpu)
		if !found {
			continue
		}
		for _, other := range c.Siblings.And(v.house) {
			f := v.add(listsSibling, cpuObject(other), setting.CPUs(cpu, other),
				fmt.Sprintf("it shares core %d with CPU %d and is the host's", c.Core, cpu),
				fmt.Sprintf("echo 0 > /sys/devices/system/cpu/cpu%d/online, or nosmt; or set it aside too and leave "+
					"it empty", other))
			if t, seen := v.o.Time(other); seen {
				share := percent(t.Busy, 1000*v.o.Seconds)
				f.Found += fmt.Sprintf("; busy %.0f %% of the time", share)
				if f.with("busy_percent", share); share >= busySibling {
					f.at(knob.High)
				}
			}
		}
	}
}
