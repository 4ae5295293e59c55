package acceptance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
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
		"a KVM host with a NIC of two ports, each in its own bridge, and a guest with an interface in both that " +
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
		for _, trial := range in.HostTrials {
			s := in
			var kind string
			kind, s.Trial, _ = ParseHostTrial(trial)
			host = append(host, s.search("host-"+kind, After, "the highest rate of the host itself, without a guest: "+
				hostKinds[kind]))
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
				Read: gainOf("before", "after")},
		}
		for _, trial := range in.HostTrials {
			kind, _, _ := ParseHostTrial(trial)
			figures = append(figures, hostFigures(kind)...)
		}
		return figures
	},
}

// hostKinds are the ways in which a host forwards by itself, by the word of --host-trial.
var hostKinds = map[string]string{"l3": "routed by its kernel", "l2": "bridged by its kernel", "vxlan": "into a VXLAN",
	"dpdk": "by a poll-mode program"}

// ParseHostTrial reads KIND=COMMAND of a generator whose packets the host itself forwards: l3, l2, vxlan or dpdk.
func ParseHostTrial(text string) (kind, command string, err error) {
	kind, command, _ = strings.Cut(text, "=")
	if hostKinds[kind] == "" || command == "" {
		return "", "", fmt.Errorf("found %q, expected KIND=COMMAND, KIND one of %s", text,
			strings.Join(slices.Sorted(maps.Keys(hostKinds)), ", "))
	}
	return kind, command, nil
}

// hostFigures returns the founding figures of a host that forwards by itself: of the X520 (ixgbe) and the X710 (i40e)
// where both are recorded, else of either.
func hostFigures(kind string) []Figure {
	var figures []Figure
	for _, f := range []struct {
		kind, card string
		drivers    []string
		founding   float64
		note       string
	}{
		{"l3", "x520", []string{"ixgbe"}, 10e6, ""}, {"l3", "x710", []string{"i40e"}, 12e6, ""},
		{"l2", "x520", []string{"ixgbe"}, 7.3e6, ""}, {"l2", "x710", []string{"i40e"}, 7.8e6, ""},
		{"vxlan", "", []string{"ixgbe", "i40e"}, 1.1e6, "1.1 to 1.2 Mpps were recorded, without the card"},
		{"dpdk", "", []string{"ixgbe", "i40e"}, 14.8e6, "recorded without the card; 10 Gbit/s carry 14.88 Mpps"},
	} {
		if f.kind == kind {
			figures = append(figures, Figure{ID: strings.TrimSuffix("throughput."+kind+"-"+f.card, "-"),
				Unit:     "packet/s",
				What:     strings.TrimSuffix("the host itself, "+hostKinds[kind]+", "+strings.ToUpper(f.card), ", "),
				Founding: f.founding, Note: f.note, Conditions: Conditions{Drivers: f.drivers}, Read: ndrOf("host-" +
					kind),
				Look: []string{"mpps audit --pps 3M", "mpps explain nic.channels"}})
		}
	}
	return figures
}

// guestArg returns a guest's name, or a placeholder.
func guestArg(guest string) string { return cmp.Or(guest, "GUEST") }
