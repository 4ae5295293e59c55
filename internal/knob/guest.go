package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

const (
	guestTrap = "Seen from the host it takes the guest's agent; without one mpps runs in the guest too, and judges a guest's snapshot anywhere."
	guestSets = "Set from the host (--guest NAME) it lasts until the guest reboots, and mpps verify tells when that has happened. To make it last, run mpps in the guest."
)

var guestKernel = &Knob{
	ID: "guest.kernel", Title: "The guest's kernel is new enough for its queues", Stage: datapath.Guest, Risk: goal.Reboot, Check: true,
	Tiers: pinned(),
	Doc: Doc{
		Want: "4.19 or newer",
		Why: "How a guest spreads packets over its queues depends on its kernel: up to 3.12 the driver picks the queue by CPU itself, up to 4.18 XPS decides and is set only where there are as many queues as vCPUs, from 4.19 the driver sets XPS so that every queue is reached. " +
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
		if a.Object() != self || !v.inGuest() {
			g, advice, ok := v.guest(a)
			switch {
			case !ok:
				return advice
			case g.Inside == nil || g.Inside.Release == "":
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
		v, advice, ok := v.within(a, "which mitigations are on")
		if !ok {
			return advice
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
