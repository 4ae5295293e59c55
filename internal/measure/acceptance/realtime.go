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
	Takes: 2*time.Hour + 10*time.Minute,
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
		wake := func(id string, phase Phase, does string) Step {
			return Step{ID: id, Phase: phase, Does: does, Gives: Wakeups,
				Argv: append([]string{"latency", "--guest", in.Guest, "--for", in.either("10m", "10s"), "--runs",
					in.either("6", "1"), "--name", id}, flags("--cpu", in.GuestCPU)...)}
		}
		goal := append([]string{"--latency", in.Latency}, flags("--cpus", in.CPUs)...)
		return slices.Concat(
			[]Step{in.machine(), wake("before", Before, "wake-ups in the guest as found, under load")},
			in.mend(goal...),
			[]Step{
				{ID: "stands", Phase: Look, Does: "see that everything stands as it was applied",
					Argv: []string{"verify"}, Codes: []int{4}},
				wake("after", After, "wake-ups after the changes, under the same load"),
			},
			in.undo(),
		)
	},
	Figures: func(in Inputs) []Figure {
		look := []string{"mpps audit --latency " + in.Latency + " --guest " + guestArg(in.Guest), "mpps realtime check",
			"mpps verify", "mpps attest"}
		rt := Conditions{Realtime: true}
		return []Figure{
			{ID: "realtime.before-max", What: "worst wake-up as found", Unit: "µs", Founding: 1475, Lower: true,
				AsFound: true, Read: worstOf("before")},
			{ID: "realtime.before-avg", What: "average wake-up as found", Unit: "µs", Founding: 16, Lower: true,
				AsFound: true, Read: averageOf("before")},
			{ID: "realtime.max", What: "worst wake-up after the changes", Unit: "µs", Founding: 12, Lower: true,
				Extreme: true, Tool: "cyclictest", Conditions: rt, Read: worstOf("after"), Look: look},
			{ID: "realtime.avg", What: "average wake-up after the changes", Unit: "µs", Founding: 7, Lower: true,
				Tool: "cyclictest", Conditions: rt, Read: averageOf("after"), Look: look},
		}
	},
}

// Settle fills in what follows from the host: the guest's CPU for measuring wake-ups, the same before and after.
// Without it 'mpps latency' uses the guest's isolated CPUs, which change once CPUs are isolated.
func (e *Experiment) Settle(in Inputs, h *facts.Host) Inputs {
	if g := guestOf(h, in.Guest); e == realtime && in.GuestCPU == "" && g != nil && g.VCPUs > 0 {
		in.GuestCPU = strconv.Itoa(g.VCPUs - 1)
	}
	return in
}
