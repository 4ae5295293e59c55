package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

var guestKernel = &Knob{
	ID: "guest.kernel", Stage: datapath.Guest, Risk: goal.Reboot, Check: true,
	Tiers: pinned(),
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
	ID: "guest.mitigations", Stage: datapath.Guest, Risk: goal.Security, Check: true,
	Tiers: pinned(),
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
