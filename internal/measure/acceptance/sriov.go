package acceptance

import (
	"slices"
	"time"
)

var sriov = &Experiment{
	Name:  "sriov",
	Title: "a virtual function against tap and bridge",
	Founding: "A guest with a virtual function of an Intel X520 sent 3.5 Mpps and received 1.9 Mpps of 64 bytes: " +
		"+677 % and +171 % of what it had over tap and bridge, " +
		"+1196 % and +363 % of what it had over VXLAN. All functions of the card together carried 11.2 Mpps.",
	Takes: 15 * time.Minute,
	Wants: []string{
		"a NIC with virtual functions that exist already (mpps sriov create), IOMMU on; a second port, cabled to the " +
			"first, that sends and counts (--from)",
		"a guest on a bridge of the first port with 'mpps agent' (--agent HOST:PORT), which can be given an address " +
			"on the function when it appears (--vf-agent HOST:PORT)",
		"optionally the guest on a VXLAN too (--tunnel-agent, --tunnel-from)",
	},
	Needs: []Need{NeedRoot, NeedGuest, NeedFrom, NeedAgents, NeedFunctions},
	NoLab: "'mpps-lab acceptance modes' measures a virtual function beside the others there",
	Steps: func(in Inputs) []Step {
		both := func(name string, phase Phase, from, agent, over string) []Step {
			way := append(flags("--from", from, "--agent", agent, "--secret-file", in.SecretFile), in.sending()...)
			return []Step{
				in.bench(name+"-rx", phase, "packets that the guest receives over "+over, way...),
				in.bench(name+"-tx", phase, "packets that it sends over "+over,
					append(way[:len(way):len(way)], "--reverse")...),
			}
		}
		check := []string{"sriov", "check"}
		if in.PF != "" {
			check = append(check, in.PF)
		}
		var tunnel []Step
		if in.TunnelAgent != "" {
			tunnel = both("vxlan", Before, in.TunnelFrom, in.TunnelAgent, "VXLAN")
		}
		return slices.Concat(
			[]Step{in.machine(), {ID: "check", Phase: Look, Does: "see what stands in the way of virtual functions",
				Argv: check}},
			both("tap", Before, in.From, in.Agent, "tap and bridge"),
			tunnel,
			[]Step{
				{ID: "assign", Phase: Mend, Does: "plug a free function into the running guest", Gives: Applied,
					Argv: append([]string{"sriov", "assign", in.Guest, "--live"}, flags("--pf", in.PF)...)},
				{ID: "address", Phase: Wait, For: Answer, At: in.VFAgent, Does: "the guest's agent answers at its " +
					"address on the function, which you give it in the guest"},
			},
			both("vf", After, in.From, in.VFAgent, "the virtual function"),
			in.undo(),
		)
	},
	Figures: func(in Inputs) []Figure {
		x520 := Conditions{Drivers: []string{"ixgbe"}}
		look := []string{"mpps sriov check", "mpps sriov guest " + guestArg(in.Guest), "mpps audit --nic vf --guest " +
			guestArg(in.Guest)}
		figures := []Figure{
			{ID: "sriov.tx", What: "sent over the function", Unit: "packet/s", Founding: 3.5e6, Conditions: x520,
				Read: rateOf("vf-tx"), Look: look},
			{ID: "sriov.rx", What: "received over the function", Unit: "packet/s", Founding: 1.9e6, Conditions: x520,
				Read: rateOf("vf-rx"), Look: look},
			{ID: "sriov.gain-tx", What: "sent: function over tap and bridge (+677 %)", Unit: "×", Founding: 7.77,
				Ratio: true, Read: ratioOf("tap-tx", "vf-tx"), Look: look},
			{ID: "sriov.gain-rx", What: "received: function over tap and bridge (+171 %)", Unit: "×", Founding: 2.71,
				Ratio: true, Read: ratioOf("tap-rx", "vf-rx"), Look: look},
		}
		if in.TunnelAgent != "" {
			figures = append(figures,
				Figure{ID: "sriov.vxlan-tx", What: "sent: function over VXLAN (+1196 %)", Unit: "×", Founding: 12.96,
					Ratio: true, Read: ratioOf("vxlan-tx", "vf-tx"), Look: look},
				Figure{ID: "sriov.vxlan-rx", What: "received: function over VXLAN (+363 %)", Unit: "×", Founding: 4.63,
					Ratio: true, Read: ratioOf("vxlan-rx", "vf-rx"), Look: look})
		}
		return figures
	},
}
