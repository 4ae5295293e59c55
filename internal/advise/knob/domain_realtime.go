package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// maxVCPUs is more than KVM gives a guest (KVM_MAX_VCPUS).
const maxVCPUs = 4096

// realtimeVCPUs returns the vCPUs for a guest's realtime work: those that its own kernel isolates, if that is known, or
// else all but vCPU 0, where the guest boots and does its housekeeping. A guest with one vCPU has none.
func realtimeVCPUs(g *facts.Guest) (set setting.CPUSet, why string) {
	all := setting.CPUSet{}
	for n := range min(g.VCPUs, maxVCPUs) {
		all = append(all, n)
	}
	if in := seenInside(g); in != nil && len(in.Topology.Isolated) > 0 {
		return in.Topology.Isolated.And(all), "its own kernel isolates vCPUs " + in.Topology.Isolated.String()
	}
	return all.Minus(setting.CPUs(facts.BootCPU)), "its kernel keeps house on vCPU 0"
}

// schedGroup is the vCPUs of one <vcpusched>. libvirt writes vCPUs with the same scheduler as one element
// (src/conf/domain_conf.c, virDomainFormatSchedDef).
type schedGroup struct {
	vcpus    setting.CPUSet
	realtime bool // fifo or rr
}

func schedGroups(g *facts.Guest) (groups []schedGroup) {
	if !strings.Contains(g.Definition, "<vcpusched") {
		return nil
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return nil
	}
	for _, s := range doc.Guest().Sched {
		if set, err := setting.ParseCPUs(s.VCPUs); err == nil && len(set) > 0 {
			groups = append(groups, schedGroup{set, s.Policy == "fifo" || s.Policy == "rr"})
		}
	}
	return groups
}

// vcpuScheds returns the groups of a definition, followed by the realtime vCPUs if they are not a group yet.
func vcpuScheds(g *facts.Guest) (sets []setting.CPUSet) {
	realtime, _ := realtimeVCPUs(g)
	for _, group := range schedGroups(g) {
		sets = append(sets, group.vcpus)
	}
	if g.VCPUs == 1 {
		realtime = setting.CPUs(facts.BootCPU) // to say why it has none
	}
	if len(realtime) > 0 && !slices.ContainsFunc(sets, realtime.Equal) {
		sets = append(sets, realtime)
	}
	return sets
}

// rtGroupsWords says why a guest with a realtime priority does not start.
const rtGroupsWords = "this kernel gives each control group a share of realtime of its own (CONFIG_RT_GROUP_SCHED), " +
	"and libvirt's new groups have none"

// RefusesRTGroups reports whether the kernel answers EPERM to a realtime priority in a cgroup made by libvirt: such
// groups start with a share of 0, which the kernel checks only while realtime threads as a whole are limited.
func (v *View) RefusesRTGroups() bool {
	return v.Kernel.RTGroups == facts.Yes && v.Readings.At(rtRuntime).Value != noLimit
}

// vcpuPriority is the lowest realtime priority, below ksoftirqd (2) and RCU's threads (3).
const vcpuPriority = "fifo:1"

var domainVCPUSched = &Knob{
	ID: "domain.vcpusched", Title: "Realtime vCPUs run before everything ordinary",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.vcpupin", "domain.emulatorpin"},
	Tiers: realtime(),
	Where: eachGuest(managed, func(g *facts.Guest) []setting.Address {
		paths := facts.Map(vcpuScheds(g), func(set setting.CPUSet) string { return "vcpusched/" + set.String() })
		return eachInDefinition(paths...)(g)
	}),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		_, list, _ := strings.Cut(a.Rest(), "/")
		own, err := setting.ParseCPUs(list)
		realtime, why := realtimeVCPUs(g)
		switch {
		case err != nil:
			return Skips("no such vCPU")
		case emulated(g):
			return Skips("its processor is emulated (domain type qemu): no priority makes it punctual")
		case g.VCPUs < 2:
			return Skips("its only vCPU keeps house for its own kernel: give it a second one for the realtime work")
		}
		var ahead setting.CPUSet // realtime vCPUs that have a realtime policy already
		for _, group := range schedGroups(g) {
			if group.realtime && len(group.vcpus.Minus(realtime)) == 0 {
				ahead = ahead.Or(group.vcpus)
			}
		}
		policy := v.Readings.At(a).Value
		isAhead := strings.HasPrefix(policy, "fifo") || strings.HasPrefix(policy, "rr")
		switch house := own.Minus(realtime); {
		case len(house) > 0 && isAhead:
			return Wants(setting.NotThere(), fmt.Sprintf("%s: with a realtime priority there it starves QEMU's "+
				"threads that it waits for", why)).At(High).restart(g.Name)
		case len(own.And(realtime)) == 0:
			return Fine("vCPUs on which the guest keeps house")
		case isAhead && (ahead.Equal(realtime) || own.Equal(realtime)):
			return Fine("they run before everything ordinary")
		case ahead.Equal(realtime):
			return Skips("each of them has a realtime policy by itself")
		case !own.Equal(realtime):
			return Wants(setting.NotThere(),
				fmt.Sprintf("vCPUs %s get one scheduler together", realtime)).At(Low).restart(g.Name)
		}
		if why := v.sharesCPUs(g); why != "" {
			return Skips(why + ": with a realtime priority they would keep each other, and the host, from running")
		}
		advice := exact(vcpuPriority,
			"every ordinary thread that comes to their CPUs takes its turn; "+why).At(Medium).restart(g.Name)
		if v.RefusesRTGroups() {
			return advice.warn(rtGroupsWords + ": the guest starts with it only while kernel.sched_rt_runtime_us is " +
				"-1 (rt.throttling)")
		}
		return advice
	}),
}

var domainNoSharePages = &Knob{
	ID: "domain.nosharepages", Title: "The guest's pages are not merged with others'",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: realtime(),
	Where: eachGuest(managed, eachInDefinition("memoryBacking/nosharepages")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if why := v.overcommitted(); why != "" {
			return Unsure(why)
		}
		if sharesMemory(g) {
			return Fine("its memory is shared with other processes (access mode shared), which KSM does not merge")
		}
		return exact("yes",
			"should page merging be started, the first write to a merged page stops the guest").At(Low).restart(g.Name)
	}),
}

// sharesMemory reports whether a guest's memory is mapped shared, as virtio-fs and vhost-user need it: KSM ignores such
// areas (mm/ksm.c, ksm_compatible: VM_SHARED). A cell of its own may be private.
func sharesMemory(g *facts.Guest) bool {
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return false
	}
	mode, _, err := doc.Get("memoryBacking/access.mode")
	return err == nil && mode == "shared" && !strings.Contains(g.Definition, "memAccess")
}

// sharesCPUs says that a guest's vCPUs have no dedicated CPUs, and that there are none for them; "" if there are.
func (v *View) sharesCPUs(g *facts.Guest) string {
	if placed, _ := v.seat(g); placed == nil && g.Active() && !pinnedOneByOne(g) {
		return "its vCPUs share CPUs with others, and there are no dedicated ones for them"
	}
	return ""
}

// featureKnob is a switch in a guest's <features>. With ofHost, libvirt accepts it only with host-passthrough.
func featureKnob(id, title, path, value, because string, ofHost bool, on Limit) *Knob {
	return &Knob{
		ID: id, Title: title, Limit: on,
		Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.cpu_model"}, Tiers: realtime(),
		Where: eachGuest(managed, eachInDefinition(path)),
		Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
			switch {
			case emulated(g):
				return Skips("its processor is emulated (domain type qemu): only KVM has this")
			}
			if advice, ok := v.hasHostCPU(g.Name); ofHost && !ok {
				return advice
			}
			if ofHost && windows(g) {
				return Skips("Windows does not read KVM's hints")
			}
			if why := v.sharesCPUs(g); ofHost && why != "" {
				return Skips(why + ": told otherwise, its kernel spins where it should let another vCPU run")
			}
			return exact(value, because).At(Low).restart(g.Name)
		}),
	}
}

var (
	domainPMU = featureKnob("domain.pmu", "The guest has no performance counters", "features/pmu.state", "off",
		"counters are exchanged at entries and exits, and each overflow is an interrupt and an exit", false,
		Limit{Arch: []string{facts.X86, facts.ARM64}, QEMU: "1.6"})
	domainDedicated = featureKnob("domain.dedicated", "The guest knows that its vCPUs have dedicated CPUs",
		"features/kvm/hint-dedicated.state", "on", "its kernel takes the ways that are made for shared CPUs", true,
		Limit{Arch: []string{facts.X86}, Libvirt: "5.7", QEMU: "2.12"})
)
