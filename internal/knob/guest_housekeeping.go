package knob

import (
	"slices"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/setting"
)

// ofHost makes a knob about the inside of guests from one about a host: the same values are wanted there, at the addresses
// that they have in the guest, by the same advice on what was seen of the guest.
func ofHost(k *Knob, id, title string, doc Doc) *Knob {
	doc.Traps = append(slices.Clone(doc.Traps), "Where mpps runs in the guest, "+k.ID+" plans it there.", guestSets, guestTrap)
	doc.Sources = append(slices.Clone(doc.Sources), k.Doc.Sources...)
	return &Knob{
		ID: id, Title: title, Stage: datapath.Guest, Risk: k.Risk, Tiers: k.Tiers, Doc: doc,
		Where: eachGuest(func(g *facts.Guest) bool { return seenInside(g) != nil }, func(g *facts.Guest) []setting.Address {
			var all []setting.Address
			for _, inner := range k.Where(seenInside(g)) {
				if a := setting.In(g.Name, inner); settable(a) {
					all = append(all, a)
				}
			}
			return all
		}),
		Want: func(v *View, a setting.Address) Advice {
			in, advice, ok := v.within(a, "how it works")
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

// settable tells whether a value can be set inside a guest.
func settable(a setting.Address) bool {
	_, err := a.Inner()
	return err == nil
}

var guestTimerMigration = ofHost(rtTimerMigration, "guest.timer_migration", "Timers of a realtime guest stay where they were set", Doc{
	Want:   "0",
	Why:    "With migration an idle vCPU hands its timers to a busy one: to those that run the realtime work.",
	Cost:   "Idle vCPUs wake for their own timers.",
	Verify: "sysctl kernel.timer_migration in the guest is 0; LOC in its /proc/interrupts grows as slowly as the workload's own timers.",
	Traps:  []string{"Absent in kernels without NO_HZ_COMMON."},
})

var guestSwap = ofHost(rtSwap, "guest.swap", "A realtime guest swaps nothing out", Doc{
	Want:   "off",
	Why:    "A page of the realtime work that the guest's own kernel swapped out comes back with a disk access when it is touched, through virtio and the host's storage: milliseconds in the middle of microseconds.",
	Cost:   "When the guest's memory runs out somebody in it is killed instead of swapped.",
	Verify: "swapon --show in the guest prints nothing.",
	Traps:  []string{"swapoff reads back all that lies there: mpps looks at the guest's MemAvailable first, and the guest's kernel refuses for lack of memory."},
})

var guestWatchdog = ofHost(rtWatchdog, "guest.watchdog", "Lockup detectors leave the guest's isolated vCPUs alone", Doc{
	Want:   "the vCPUs that are not isolated",
	Why:    "The soft lockup detector wakes a thread on each vCPU every four seconds, and an NMI watchdog takes a counter of the virtual PMU, which exits to the host.",
	Cost:   "A vCPU that hangs is no longer reported by its guest.",
	Verify: "sysctl kernel.watchdog_cpumask in the guest names none of its isolated vCPUs.",
	Traps:  []string{"It needs vCPUs that the guest's command line isolates (guest.realtime): without them none is known to be the realtime work's."},
})

var guestThrottling = ofHost(rtThrottling, "guest.throttling", "Realtime threads of the guest are not throttled", Doc{
	Want:   "-1",
	Why:    "The guest's own scheduler stops realtime threads for 50 ms of each second too: a realtime program in the guest that polls meets that hole whatever its host does.",
	Cost:   "A realtime thread that runs away takes its vCPU until somebody stops it from another one.",
	Verify: "sysctl kernel.sched_rt_runtime_us in the guest is -1.",
	Traps:  []string{"From Linux 6.12 on the throttling itself is gone, and the guest's fair server gives ordinary threads their share: its switch is in debugfs (rt.fair_server), and mpps in the guest sets it."},
})

var guestKSM = &Knob{
	ID: "guest.ksm", Title: "A realtime guest merges no pages", Stage: datapath.Guest, Risk: goal.None, Tiers: realtime(),
	Doc: Doc{
		Want:   "stopped and taken apart: run 2, or 0",
		Why:    "ksmd of the guest compares its programs' memory, takes time of a vCPU for it, and the first write to a merged page stops the writer while it is copied.",
		Cost:   "None in most guests: nothing there asks for merging (MADV_MERGEABLE) but nested virtual machines.",
		Verify: "/sys/kernel/mm/ksm/run in the guest is 0 or 2.",
		Traps: []string{
			"The host's own page merging is another (rt.ksm), and merges the guest's memory with that of others.",
			"Where mpps runs in the guest, rt.ksm plans it there.",
			guestSets,
			guestTrap,
		},
		Sources: []Source{
			{"run, and what 2 does", "Documentation/admin-guide/mm/ksm.rst; mm/ksm.c, run_store"},
			{"stopped and unmerged, in the guest as on the host", "founding experience"},
		},
	},
	Where: eachGuest(func(g *facts.Guest) bool {
		in := seenInside(g)
		return in != nil && in.Housekeeping != nil && in.Housekeeping.KSM != nil
	}, func(g *facts.Guest) []setting.Address {
		return []setting.Address{setting.In(g.Name, setting.Of(setting.Sysfs, "kernel/mm/ksm/run"))}
	}),
	Want: func(v *View, a setting.Address) Advice {
		if _, advice, ok := v.within(a, "whether it merges pages"); !ok {
			return advice
		}
		return Wants(setting.Any("2", "0"), "the first write to a merged page stops the writer while it is copied").At(Low)
	},
}
