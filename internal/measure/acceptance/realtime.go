package acceptance

import (
	"slices"
	"strconv"
	"time"

	"mpps/internal/model/facts"
)

var realtime = &Experiment{
	Name:  "realtime",
	Title: "the worst wake-up in a guest",
	Founding: "cyclictest in a guest, one thread every 200 µs for 10 minutes: at worst 1475 µs and 16 µs on average " +
		"as found; at worst 12 µs and 7 µs on average after " +
		"some forty settings of firmware, host, definition and guest, on a PREEMPT_RT kernel with the guest's CPUs " +
		"isolated.",
	Takes: 3*time.Hour + 30*time.Minute,
	Wants: []string{
		"a host that may be rebooted, by you, up to twice: isolation, kernel and huge pages are set at boot; " +
			"firmware as docs/acceptance.md lists it, recorded with 'mpps attest'",
		"a PREEMPT_RT kernel installed on host and guest; without one everything else is done, and the figure is " +
			"another",
		"a guest with qemu-guest-agent and cyclictest (rt-tests) in it, and CPUs of one node for it alone (--cpus)",
	},
	Needs: []Need{NeedRoot, NeedGuest, NeedIsolable, NeedInside},
	NoLab: "the lab host would have to be rebooted into another kernel: test/realtime does that",
	Steps: func(in Inputs) []Step {
		wake := func(id, load string, phase Phase, does string) Step {
			return Step{ID: id, Phase: phase, Does: does, Gives: Wakeups,
				Argv: append([]string{"latency", "--guest", in.Guest, "--for", in.either("10m", "10s"), "--runs",
					in.either("5", "1"), "--interval", "200us", "--priority", "95", "--load", load, "--name", id},
					flags("--cpu", in.GuestCPU)...)}
		}
		goal := append([]string{"--latency", in.Latency}, flags("--cpus", in.CPUs)...)
		return slices.Concat(
			[]Step{
				in.machine(),
				wake("before-idle", "none", Before, "wake-ups in the guest as found, on an idle machine as then"),
				wake("before", "own", Before, "wake-ups in the guest as found, beside memory-copying load"),
			},
			in.mend(goal...),
			[]Step{
				{ID: "stands", Phase: Look, Does: "see that everything stands as it was applied",
					Argv: []string{"verify"}, Codes: []int{4}},
				wake("after-idle", "none", After, "wake-ups after the changes, idle: the founding figure"),
				wake("after", "own", After, "wake-ups after the changes, beside the load: what production will see"),
			},
			in.undo(),
		)
	},
	Figures: func(in Inputs) []Figure {
		look := []string{"mpps audit --latency " + in.Latency + " --guest " + guestArg(in.Guest), "mpps realtime check",
			"mpps verify", "mpps attest"}
		rt := Conditions{Realtime: true}
		const loaded = "the founding run was idle: nobody wrote down a figure under load"
		return []Figure{
			{ID: "realtime.before-max", What: "worst wake-up as found, idle", Unit: "µs", Founding: 1475, Lower: true,
				AsFound: true, Read: worstOf("before-idle")},
			{ID: "realtime.before-avg", What: "average wake-up as found, idle", Unit: "µs", Founding: 16, Lower: true,
				AsFound: true, Read: averageOf("before-idle")},
			{ID: "realtime.max", What: "worst wake-up after the changes, idle", Unit: "µs", Founding: 12, Lower: true,
				Extreme: true, Tool: "cyclictest", Conditions: rt, Read: worstOf("after-idle"), Look: look},
			{ID: "realtime.avg", What: "average wake-up after the changes, idle", Unit: "µs", Founding: 7, Lower: true,
				Tool: "cyclictest", Conditions: rt, Read: averageOf("after-idle"), Look: look},
			{ID: "realtime.before-loaded-max", What: "worst wake-up as found, under load", Unit: "µs", Lower: true,
				Note: loaded, Read: worstOf("before")},
			{ID: "realtime.loaded-max", What: "worst wake-up after the changes, under load", Unit: "µs", Lower: true,
				Note: loaded, Read: worstOf("after")},
			{ID: "realtime.loaded-avg", What: "average wake-up after the changes, under load", Unit: "µs", Lower: true,
				Note: loaded, Read: averageOf("after")},
		}
	},
}

// Settle fills in what follows from the host and the other inputs: the guests to make, and the guest's CPU for
// measuring wake-ups, the same before and after. Without it 'mpps latency' uses the guest's isolated CPUs, which change
// once CPUs are isolated.
func (e *Experiment) Settle(in Inputs, h *facts.Host) Inputs {
	if g := guestOf(h, in.Guest); e == realtime && in.GuestCPU == "" && g != nil && g.VCPUs > 0 {
		in.GuestCPU = strconv.Itoa(g.VCPUs - 1)
	}
	if e == modes {
		in = in.withGuests()
	}
	return in
}
