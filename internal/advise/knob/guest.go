package knob

import (
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

var guestKernel = &Knob{
	ID: "guest.kernel", Title: "The guest's kernel is new enough for its queues",
	Stage: datapath.Guest, Risk: goal.Reboot, Tiers: pinned(), Check: true,
	Where: insideFacts("kernel"),
	Want: func(v *View, a setting.Address) Advice {
		release := v.Kernel.Release
		if a.Object() != self || !v.inGuest() {
			g, advice, ok := v.guest(a)
			switch {
			case !ok:
				return advice
			case g.Inside == nil || g.Inside.Release == "":
				return v.fromHost(g, "its kernel")
			case windows(g):
				return Skips("it runs " + g.Inside.OS)
			}
			release = g.Inside.Release // from its agent
		}
		if _, _, ok := version(release); !ok {
			return Unsure("its kernel's version could not be read")
		}
		if !since(release, 4, 19) && enterprise.MatchString(release) {
			return fact(release, Fine("its vendor adds newer features under this number, so the number says nothing: "+
				"guest.xps shows whether every queue is reached"))
		}
		if !since(release, 4, 19) {
			return fact(release,
				exact("4.19 or newer", "kernels before 4.19 may leave queues unused: guest.xps tells which").At(Low))
		}
		return fact(release, Fine("its driver reaches every queue"))
	},
}

var guestMitigations = &Knob{
	ID: "guest.mitigations", Title: "What the guest's mitigations cost",
	Stage: datapath.Guest, Risk: goal.Security, Tiers: pinned(), Check: true,
	Where: insideFacts("mitigations"),
	Want: func(v *View, a setting.Address) Advice {
		v, advice, ok := v.insideOf(a, "which mitigations are on")
		if !ok {
			return advice
		}
		if len(v.Kernel.Vulnerabilities) == 0 {
			return Unsure("its kernel does not tell")
		}
		var costly []string
		on := 0
		for name, state := range v.Kernel.Vulnerabilities {
			kind, _, _ := strings.Cut(state, ";") // what follows are parts, such as PBRSB-eIBRS: Not affected
			if !strings.HasPrefix(kind, "Mitigation") {
				continue
			}
			on++
			if name == "meltdown" && strings.Contains(kind, "PTI") || name == "spectre_v2" && (strings.Contains(kind,
				"Retpolines") || strings.Contains(kind, "IBRS") && !strings.Contains(kind, "Enhanced")) {
				costly = append(costly, name+": "+state)
			}
		}
		slices.Sort(costly)
		if len(costly) > 0 {
			return fact(Count(on, "mitigation"), exact("none that costs each packet",
				strings.Join(costly, "; ")+": each system call and indirect call pays").At(Info))
		}
		return fact(Count(on, "mitigation"), Fine("none of those that cost each packet"))
	},
}

// ofHost turns a knob about a host into one about the inside of guests: the same addresses inside the guest, with the
// same advice from what is known about the guest.
func ofHost(k *Knob, id, title string) *Knob {
	return &Knob{
		ID: id, Title: title, Stage: datapath.Guest, Risk: k.Risk, Tiers: k.Tiers, Limit: k.Limit, Parts: k.Parts,
		Where: eachGuest(func(g *facts.Guest) bool { return seenInside(g) != nil },
			func(g *facts.Guest) []setting.Address {
				var all []setting.Address
				for _, inner := range k.Where(seenInside(g)) {
					if a := setting.InGuest(g.Name, inner); settable(a) {
						all = append(all, a)
					}
				}
				return all
			}),
		Want: func(v *View, a setting.Address) Advice {
			in, advice, ok := v.insideOf(a, "how it works")
			if !ok {
				return advice
			}
			inner, err := a.Inner()
			if err != nil {
				return Unsure(err.Error())
			}
			return k.Want(in, inner)
		},
	}
}

// settable reports whether a value can be set inside a guest.
func settable(a setting.Address) bool {
	_, err := a.Inner()
	return err == nil
}

var (
	guestTimerMigration = ofHost(rtTimerMigration, "guest.timer_migration",
		"Timers of a realtime guest stay where they were set")
	guestSwap       = ofHost(rtSwap, "guest.swap", "A realtime guest swaps nothing out")
	guestWatchdog   = ofHost(rtWatchdog, "guest.watchdog", "Lockup detectors leave the guest's isolated vCPUs alone")
	guestThrottling = ofHost(rtThrottling, "guest.throttling", "Realtime threads of the guest are not throttled")
)

var guestKSM = &Knob{
	ID: "guest.ksm", Title: "A realtime guest merges no pages",
	Stage: datapath.Guest, Risk: goal.None, Tiers: realtime(),
	Where: eachGuest(func(g *facts.Guest) bool {
		in := seenInside(g)
		return in != nil && in.Housekeeping != nil && in.Housekeeping.KSM != nil
	}, func(g *facts.Guest) []setting.Address {
		return []setting.Address{setting.InGuest(g.Name, setting.Of(setting.Sysfs, "kernel/mm/ksm/run"))}
	}),
	Want: func(v *View, a setting.Address) Advice {
		if _, advice, ok := v.insideOf(a, "whether it merges pages"); !ok {
			return advice
		}
		return Wants(setting.Any("2", "0"),
			"the first write to a merged page stops the writer while it is copied").At(Low)
	},
}
