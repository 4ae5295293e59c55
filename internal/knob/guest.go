package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// self is what addresses call the machine itself where it is a guest.
const self = "self"

// inside lists one fact of every guest that is seen from its host, and of the machine itself where it is a guest.
func inside(what string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		if h.Virtual != "" {
			all = append(all, setting.Of(setting.Fact, self, what))
		}
		return append(all, eachGuest(anyGuest, guestFact(what))(h)...)
	}
}

// insideNICs lists one fact of every virtio NIC of the machine where it is a guest, and of every guest that is seen from its
// host.
func insideNICs(what string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, n := range h.NICs {
			if h.Virtual != "" && n.Driver == "virtio_net" {
				all = append(all, setting.Of(setting.Fact, n.Name, what))
			}
		}
		return append(all, eachGuest(anyGuest, guestFact(what))(h)...)
	}
}

// fromHost is what can be said of the inside of a guest from its host: nothing, and what would tell. It is said of the guest
// that the goal names, or of the only one that runs, and not of hundreds.
func (v *View) fromHost(a setting.Address, what string) Advice {
	g, advice, ok := v.guest(a)
	if !ok {
		return advice
	}
	running := 0
	for _, other := range v.Guests {
		if other.State == "running" {
			running++
		}
	}
	if v.Goal.Guest == "" && running > 1 {
		return Skips("the inside of a guest is looked at where the goal names it (--guest)")
	}
	return Unsure(fmt.Sprintf("%s is seen inside %s: run 'mpps audit' there, or 'mpps snapshot' there and audit the file here", what, g.Name))
}

const guestTrap = "Seen from the host it is unknown: mpps runs in the guest too, and judges a guest's snapshot anywhere."

var guestKernel = &Knob{
	ID: "guest.kernel", Title: "The guest's kernel is new enough for its queues", Stage: datapath.Guest, Risk: goal.Reboot, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want: "4.19 or newer",
		Why: "How a guest spreads packets over its queues depends on its kernel: on 3.10 the driver picks the queue by CPU itself, from about 4.18 XPS decides, from 4.19 the driver sets XPS so that every queue is reached. " +
			"NAPI on transmit (4.12) and interrupt moderation (6.0) came later.",
		Cost:   "A kernel change in the guest, and a restart of it.",
		Verify: "uname -r in the guest.",
		Traps: []string{
			"CentOS 7.6's default kernel forwards less than 7.4's because of its Spectre patches: a newer one with the same version number in front is not always faster (guest.mitigations).",
			"Enterprise kernels carry newer network code under an old number: 4.18 of RHEL 8 is not 4.18.",
			guestTrap,
		},
		Sources: []Source{
			{"XPS set by the driver", "drivers/net/virtio_net.c, virtnet_set_affinity"},
			{"7.4 against 7.6", "founding measurements"},
		},
	},
	Where: inside("kernel"),
	Want: func(v *View, a setting.Address) Advice {
		release := v.Kernel.Release
		if a.Object() != self {
			g, advice, ok := v.guest(a)
			switch {
			case !ok:
				return advice
			case g.Inside == nil:
				return v.fromHost(a, "its kernel")
			case windows(g):
				return Skips("it runs " + g.Inside.OS)
			}
			release = g.Inside.Release // its agent told
		}
		var major, minor int
		if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
			return Unsure("its kernel's version could not be read")
		}
		if major < 4 || major == 4 && minor < 19 {
			return seen(release, Wants(setting.Exact("4.19 or newer"), "kernels before 4.19 may leave queues unused: guest.xps tells which").At(Low))
		}
		return seen(release, Fine("its driver reaches every queue"))
	},
}

var guestMitigations = &Knob{
	ID: "guest.mitigations", Title: "What the guest's mitigations cost", Stage: datapath.Guest, Risk: goal.Security, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want:   "none that costs each packet, where the guest's owner chooses so",
		Why:    "Mitigations in the guest cost each system call, each interrupt and each indirect call, which small packets have plenty of. Which of them are on depends on the guest's kernel, its command line, and on what of the processor the host shows it.",
		Cost:   "Off, a program in the guest can read what is not its own. For a router or firewall that runs nobody's code that can be a choice; it is the guest owner's.",
		Verify: "grep . /sys/devices/system/cpu/vulnerabilities/* in the guest.",
		Traps: []string{
			"With an old CPU model the guest sees a processor without the newer, cheaper defences (enhanced IBRS) and takes the costly ones: domain.cpu_model comes first.",
			"The host's own mitigations protect it from the guest, and stay.",
			"CentOS 7.6's default is slower than 7.4's for this reason.",
			guestTrap,
		},
		Sources: []Source{
			{"files and states", "Documentation/ABI/testing/sysfs-devices-system-cpu, vulnerabilities; Documentation/admin-guide/hw-vuln"},
			{"7.4 against 7.6", "founding measurements"},
		},
	},
	Where: inside("mitigations"),
	Want: func(v *View, a setting.Address) Advice {
		if a.Object() != self {
			return v.fromHost(a, "which mitigations are on")
		}
		if len(v.Kernel.Vulnerabilities) == 0 {
			return Unsure("its kernel does not tell")
		}
		var costly []string
		on := 0
		for name, state := range v.Kernel.Vulnerabilities {
			if strings.HasPrefix(state, "Mitigation") {
				on++
			}
			if name == "meltdown" && strings.Contains(state, "PTI") || name == "spectre_v2" && (strings.Contains(state, "Retpolines") || strings.Contains(state, "IBRS") && !strings.Contains(state, "Enhanced")) {
				costly = append(costly, name+": "+state)
			}
		}
		slices.Sort(costly)
		if len(costly) > 0 {
			return seen(count(on, "mitigation"), Wants(setting.Exact("none that costs each packet"), strings.Join(costly, "; ")+": each system call and indirect call pays").At(Info))
		}
		return seen(count(on, "mitigation"), Fine("none of those that cost each packet"))
	},
}

var guestChannels = &Knob{
	ID: "guest.channels", Title: "The guest uses all queues that it was given", Stage: datapath.Guest, Risk: goal.Blip, Check: true,
	After: []string{"guest.kernel"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "as many as it has vCPUs, or queues where these are fewer",
		Why:    "The domain XML offers queues, the guest's driver enables some of them. Queues that are not enabled have a vhost thread that sleeps, and the work of the others.",
		Cost:   "None.",
		Verify: "ethtool -l DEV in the guest: Combined current against maximum.",
		Traps: []string{
			"virtio_net enables as many as there are vCPUs by itself, on old kernels only one: ethtool -L DEV combined N, at each boot.",
			"vCPUs that were plugged in later do not bring their queue.",
			"In the guest, nic.channels plans the change; this only tells.",
			guestTrap,
		},
		Sources: []Source{
			{"min(vCPUs, queues)", "drivers/net/virtio_net.c, virtnet_probe: num_online_cpus"},
		},
	},
	Where: insideNICs("channels"),
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[a.Object()]
		if n == nil || !v.inGuest() {
			return v.fromHost(a, "how many queues its driver uses")
		}
		if n.Channels == nil {
			return Unsure("its driver does not tell how many queues it uses")
		}
		want := min(n.Channels.MaxCombined, len(v.Topology.Online))
		has := fmt.Sprintf("%d of %d", n.Channels.Combined, n.Channels.MaxCombined)
		if n.Channels.Combined < want {
			return seen(has, Wants(setting.Exact(fmt.Sprint(want)), fmt.Sprintf("%s that the host offers are not used", count(want-n.Channels.Combined, "queue"))).At(High))
		}
		return seen(has, Fine("every queue that a vCPU can use is enabled"))
	},
}

var guestXPS = &Knob{
	ID: "guest.xps", Title: "Every transmit queue of the guest is reached", Stage: datapath.Guest, Risk: goal.None, Check: true,
	After: []string{"guest.channels"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "a vCPU for each queue, and a queue for each vCPU",
		Why:    "XPS says which vCPU sends on which queue. With fewer queues than vCPUs, and masks that leave a vCPU or a queue out, some queues carry everything and others nothing: the guest is then as fast as its busiest queue.",
		Cost:   "None.",
		Verify: "grep . /sys/class/net/DEV/queues/tx-*/xps_cpus in the guest; tx_queue_N_packets of ethtool -S grow alike.",
		Traps: []string{
			"On 3.10 the driver picks the queue by CPU itself and does not look at XPS; from about 4.18 XPS decides; from 4.19 the driver stripes it over all vCPUs: look before \"fixing\".",
			"With as many queues as vCPUs there is nothing to set.",
			"In the guest, nic.xps plans the change; this only tells.",
			guestTrap,
		},
		Sources: []Source{
			{"striping", "drivers/net/virtio_net.c, virtnet_set_affinity; kernel commit 2ca653d607ce (virtio_net: Stripe queue affinities across cores)"},
			{"3.10's own choice; XPS from about 4.18", "founding experience; drivers/net/virtio_net.c of 3.10, virtnet_select_queue"},
		},
	},
	Where: insideNICs("xps"),
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[a.Object()]
		if n == nil || !v.inGuest() {
			return v.fromHost(a, "which vCPU sends on which queue")
		}
		if n.TxQueues < 2 {
			return Skips("it has one transmit queue")
		}
		if len(n.XPS) != n.TxQueues {
			return Unsure("its XPS masks could not be read")
		}
		var set setting.CPUSet
		var idle []string
		for q, mask := range n.XPS {
			if len(mask) == 0 {
				idle = append(idle, fmt.Sprint(q))
			}
			set = set.Or(mask)
		}
		switch {
		case len(set) == 0 && strings.HasPrefix(v.Kernel.Release, "3."):
			return seen("not set", Fine("this kernel's driver picks the queue by CPU itself"))
		case len(set) == 0:
			return seen("not set", Wants(setting.Exact("a queue for each vCPU"), "without XPS the flow's hash picks the queue: flows of different vCPUs meet in one").At(Low))
		case len(idle) > 0:
			return seen(count(len(idle), "queue")+" left out", Wants(setting.Exact("a vCPU for each queue"), "queues "+strings.Join(idle, ", ")+" are never chosen").At(Medium))
		}
		return seen("every queue", Fine("every queue has a vCPU"))
	},
}

var guestIRQBalance = &Knob{
	ID: "guest.irqbalance", Title: "The guest's queues interrupt different vCPUs", Stage: datapath.Guest, Risk: goal.None, Check: true,
	After: []string{"guest.channels"}, Tiers: viaKernel(),
	Doc: Doc{
		Want:   "queues that interrupt different vCPUs",
		Why:    "Each queue's interrupt takes one vCPU. Without irqbalance and without affinity they may all go to the same one, which then receives everything. virtio_net spreads them itself as long as it has as many queues as vCPUs.",
		Cost:   "None; irqbalance wakes every ten seconds.",
		Verify: "/proc/interrupts in the guest: virtioN-input.M count on different CPUs.",
		Traps: []string{
			"With fewer queues than vCPUs the driver sets no affinity on kernels before 4.19.",
			"For realtime guests it must not run, and affinity is set by hand.",
			guestTrap,
		},
		Sources: []Source{
			{"the driver's affinity", "drivers/net/virtio_net.c, virtnet_set_affinity"},
			{"running, or queues pinned", "founding experience"},
		},
	},
	Where: insideNICs("irqs"),
	Want: func(v *View, a setting.Address) Advice {
		n := v.nics[a.Object()]
		if n == nil || !v.inGuest() {
			return v.fromHost(a, "which vCPUs its queues interrupt")
		}
		on, queues := map[int]bool{}, 0
		for _, irq := range n.IRQs {
			if !strings.Contains(irq.On, "input") {
				continue
			}
			queues++
			cpus := irq.Effective
			if len(cpus) == 0 {
				cpus = irq.Affinity
			}
			if len(cpus) > 0 {
				on[cpus[0]] = true
			}
		}
		switch {
		case queues == 0:
			return Unsure("the interrupts of its queues could not be seen")
		case queues == 1 || len(v.Topology.Online) < 2:
			return Skips("one queue, or one vCPU")
		case len(on) == 1:
			advice := Wants(setting.Exact("a vCPU for each queue"), fmt.Sprintf("one vCPU takes the interrupts of all %d queues", queues)).At(Medium)
			if v.runs("irqbalance") {
				advice.Because += ", although irqbalance runs: it moves them under load"
				advice.Severity = Info
			}
			return seen("1 vCPU", advice)
		}
		return seen(count(len(on), "vCPU"), Fine(fmt.Sprintf("%d queues on %s", queues, count(len(on), "vCPU"))))
	},
}
