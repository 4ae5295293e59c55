package acceptance

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

var sriov = &Experiment{
	Name:  "sriov",
	Title: "a virtual function against tap and bridge",
	Founding: "A guest with a virtual function of an Intel X520 sent 3.5 Mpps and received 1.9 Mpps of 64 bytes: " +
		"+677 % and +171 % of what it had over tap and bridge, " +
		"+1196 % and +363 % of what it had over VXLAN. All functions of the card together carried 11.2 Mpps.",
	Takes: 25 * time.Minute,
	Wants: []string{
		"a NIC with virtual functions that exist already (mpps sriov create), IOMMU on; a second port, cabled to the " +
			"first, that sends and counts (--from), best of another card",
		"a guest on a bridge of the first port with 'mpps agent' (--agent HOST:PORT), which can be given an address " +
			"on the function when it appears (--vf-agent HOST:PORT); pktgen loaded in it",
		"optionally the guest on a VXLAN too (--tunnel-agent, --tunnel-from), and with its own VXLAN over the " +
			"function (--vf-tunnel-agent)",
		"optionally other guests on functions of the same card (--more-vf-agents), for what all carry together",
	},
	Needs: []Need{NeedRoot, NeedGuest, NeedFrom, NeedAgents, NeedFunctions, NeedApart},
	NoLab: "'mpps-lab acceptance modes' measures a virtual function beside the others there",
	Steps: func(in Inputs) []Step {
		both := func(name string, phase Phase, from, agent, over string, more ...string) []Step {
			way := flags("--from", from, "--agent", agent, "--more-agents", strings.Join(more, ","), "--secret-file",
				in.SecretFile)
			sends := in
			sends.Generator, sends.SendOn = cmp.Or(in.Generator, fastest), "" // at the agent, which has its own CPUs
			return []Step{
				in.bench(name+"-rx", phase, "packets received over "+over, slices.Concat(way, in.sending())...),
				in.bench(name+"-tx", phase, "packets sent over "+over,
					slices.Concat(way, sends.sending(), []string{"--reverse"})...),
			}
		}
		check := []string{"sriov", "check"}
		if in.PF != "" {
			check = append(check, in.PF)
		}
		var tunnel, inside, all []Step
		if in.TunnelAgent != "" {
			tunnel = both("vxlan", Before, in.TunnelFrom, in.TunnelAgent, "VXLAN")
		}
		if in.VFTunnelAgent != "" {
			inside = both("vf-vxlan", After, in.TunnelFrom, in.VFTunnelAgent, "VXLAN inside the function")
		}
		if len(in.MoreVFAgents) > 0 {
			all = both("all", After, in.From, in.VFAgent, "the functions of all guests at once", in.MoreVFAgents...)
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
			inside, all, in.undo(),
		)
	},
	Figures: func(in Inputs) []Figure {
		var figures []Figure
		for _, row := range functionRows {
			if row.wants(in) {
				figures = append(figures, row.figure(in))
			}
		}
		return figures
	},
}

// functionRow is a row of the founding table of virtual functions.
type functionRow struct {
	id, what      string
	over          string // the step that a ratio is over; empty: a rate
	step          string
	founding      float64 // packets/s, or times
	follows, note string
}

const direction = "the text does not say in which direction"

// functionRows are the rows of the founding table, in its order: function, tap and bridge, VXLAN, all functions. Rates
// over tap and VXLAN follow from those of the function and the recorded percentages.
var functionRows = []functionRow{
	{id: "tx", what: "sent over the function", step: "vf-tx", founding: 3.5e6},
	{id: "rx", what: "received over the function", step: "vf-rx", founding: 1.9e6},
	{id: "tap-tx", what: "sent over tap and bridge", step: "tap-tx", founding: 3.5e6 / 7.77, follows: "+677 %"},
	{id: "tap-rx", what: "received over tap and bridge", step: "tap-rx", founding: 1.9e6 / 2.71, follows: "+171 %"},
	{id: "gain-tx", what: "sent: function over tap and bridge (+677 %)", over: "tap-tx", step: "vf-tx", founding: 7.77},
	{id: "gain-rx", what: "received: function over tap and bridge (+171 %)", over: "tap-rx", step: "vf-rx",
		founding: 2.71},
	{id: "vxlan-tx", what: "sent over VXLAN on the bridge", step: "vxlan-tx", founding: 3.5e6 / 12.96,
		follows: "+1196 %"},
	{id: "vxlan-rx", what: "received over VXLAN on the bridge", step: "vxlan-rx", founding: 1.9e6 / 4.63,
		follows: "+363 %"},
	{id: "gain-vxlan-tx", what: "sent: function over VXLAN (+1196 %)", over: "vxlan-tx", step: "vf-tx",
		founding: 12.96},
	{id: "gain-vxlan-rx", what: "received: function over VXLAN (+363 %)", over: "vxlan-rx", step: "vf-rx",
		founding: 4.63},
	{id: "vf-vxlan-tx", what: "sent over VXLAN inside the function", step: "vf-vxlan-tx"},
	{id: "vf-vxlan-rx", what: "received over VXLAN inside the function", step: "vf-vxlan-rx"},
	{id: "all-tx", what: "several senders: all functions to one receiver", step: "all-tx", founding: 11.2e6,
		note: direction},
	{id: "all-rx", what: "several receivers: one sender to all functions", step: "all-rx", founding: 11.2e6,
		note: direction},
}

// wants reports whether the set-up has what the row needs.
func (r functionRow) wants(in Inputs) bool {
	for prefix, given := range map[string]bool{"vxlan-": in.TunnelAgent != "", "gain-vxlan-": in.TunnelAgent != "",
		"vf-vxlan-": in.VFTunnelAgent != "", "all-": len(in.MoreVFAgents) > 0} {
		if strings.HasPrefix(r.id, prefix) {
			return given
		}
	}
	return true
}

func (r functionRow) figure(in Inputs) Figure {
	f := Figure{ID: "sriov." + r.id, What: r.what, Unit: "packet/s", Founding: r.founding, Note: r.note,
		Conditions: Conditions{Drivers: []string{"ixgbe"}}, Read: rateOf(r.step),
		Look: []string{"mpps sriov check", "mpps sriov guest " + guestArg(in.Guest), "mpps audit --nic vf --guest " +
			guestArg(in.Guest)}}
	if r.follows != "" {
		f.About, f.Note = true, "not recorded: it follows from the function's rate and "+r.follows
	}
	if r.over != "" {
		f.Unit, f.Ratio, f.Read, f.Conditions = "×", true, ratioOf(r.over, r.step), Conditions{}
	}
	return f
}
