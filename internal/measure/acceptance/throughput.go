package acceptance

import (
	"cmp"
	"slices"
	"time"
)

// almost is the share of loss of the founding experiment at 2 Mpps.
const almost = 0.0007

var throughput = &Experiment{
	Name:  "throughput",
	Title: "a guest that routes small packets without loss",
	Founding: "A guest with 9 vCPUs and 9 queues (CentOS 7.4) routed 64-byte packets between two ports of an Intel " +
		"X710, over bridges and vhost on a tuned host: " +
		"1.8 Mpps with no loss, 1.9 Mpps with almost none, 2 Mpps with 0.07 %. A kernel by itself forwarded 10 Mpps " +
		"on an X520 and 12 Mpps on an X710.",
	Takes: 15 * time.Minute,
	Wants: []string{
		"a KVM host with a NIC of two ports, each in a bridge of its own, and a guest with an interface in both that " +
			"routes between 198.18.0.0/24 and 198.19.0.0/24",
		"a generator at both ports: a second host with TRex or the like (--trial-command), or this host's own (--via " +
			"BRIDGE --out BRIDGE), which takes CPU time from the guest",
		"moments in which the guest may be shut down and started, and the host rebooted where the plan has kernel " +
			"arguments (--no-reboot goes on without), by you: before the second measurement, and after the rollback",
	},
	Needs: []Need{NeedRoot, NeedGuest, NeedWay, NeedAgents},
	Steps: func(in Inputs) []Step {
		goal := []string{"--pps", in.PPS, "--frame", "64", "--loss", "0"}
		var host []Step
		if in.HostTrial != "" {
			s := in
			s.Trial = in.HostTrial
			host = []Step{s.search("host", After, "the highest rate that the host itself forwards, without a guest")}
		}
		return slices.Concat(
			[]Step{in.machine(), in.search("before", Before, "the highest rates without loss and within 0.07 % of "+
				"loss, as found")},
			in.mend(goal...),
			[]Step{in.search("after", After, "the same rates after the changes")},
			host, in.undo(),
		)
	},
	Figures: func(in Inputs) []Figure {
		routed := Conditions{Drivers: []string{"i40e"}, VCPUs: 9, Queues: 9, Forwards: true}
		look := []string{"mpps audit --pps " + in.PPS, "mpps path --guest " + guestArg(in.Guest),
			"mpps explain placement.overcommit"}
		figures := []Figure{
			{ID: "throughput.ndr", What: "64-byte packets through the guest, no loss", Unit: "packet/s",
				Founding: 1.8e6, Conditions: routed, Read: ndrOf("after"), Look: look},
			{ID: "throughput.almost", What: "64-byte packets through the guest, almost no loss", Unit: "packet/s",
				Founding: 1.9e6, Conditions: routed,
				Note: "no share was recorded; it lies below that of 2 Mpps, so 0.07 % is allowed here",
				Read: pdrOf("after"), Look: look},
			{ID: "throughput.pdr", What: "64-byte packets through the guest, 0.07 % of loss", Unit: "packet/s",
				Founding: 2e6, Conditions: routed, Read: pdrOf("after"), Look: look},
			{ID: "throughput.gain", What: "after over before, without loss", Unit: "×",
				Read: gainOf("before", "after", false)},
		}
		if in.HostTrial != "" {
			figures = append(figures,
				Figure{ID: "throughput.l3-x520", What: "the host itself, layer 3, X520", Unit: "packet/s",
					Founding: 10e6, Conditions: Conditions{Drivers: []string{"ixgbe"}},
					Read: ndrOf("host"), Look: []string{"mpps audit --pps 3M", "mpps explain nic.channels"}},
				Figure{ID: "throughput.l3-x710", What: "the host itself, layer 3, X710", Unit: "packet/s",
					Founding: 12e6, Conditions: Conditions{Drivers: []string{"i40e"}},
					Read: ndrOf("host"), Look: []string{"mpps audit --pps 3M", "mpps explain nic.channels"}})
		}
		return figures
	},
}

// guestArg returns a guest's name, or a placeholder.
func guestArg(guest string) string { return cmp.Or(guest, "GUEST") }
