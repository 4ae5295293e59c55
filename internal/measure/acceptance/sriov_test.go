package acceptance

import (
	"math"
	"slices"
	"strings"
	"testing"

	"mpps/internal/measure"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestFunctionTable judges a whole table of a card's functions as it would be recorded: each row of the founding table
// is there as far as the set-up has it, with our figure beside it.
func TestFunctionTable(t *testing.T) {
	in := Inputs{Guest: "vm1", Agent: "a:1", VFAgent: "b:1", TunnelAgent: "c:1", TunnelFrom: "vxlan0",
		VFTunnelAgent: "d:1", MoreVFAgents: []string{"e:1", "f:1"}}
	x520 := &Machine{NICs: []NIC{{Name: "ens1f0", Driver: "ixgbe", Path: true}}}
	o := &Outcomes{Runs: map[string]*measure.Run{}}
	for step, pps := range map[string]float64{"tap-tx": 0.44e6, "tap-rx": 0.72e6, "vxlan-tx": 0.28e6,
		"vxlan-rx": 0.39e6,
		"vf-tx":    3.6e6, "vf-rx": 1.7e6, "vf-vxlan-tx": 1.1e6, "vf-vxlan-rx": 0.9e6,
		"all-tx": 11.5e6, "all-rx": 9e6} {
		limit := measure.ByDevice
		if step == "all-rx" {
			limit = measure.ByGenerator
		}
		o.Runs[step] = run(limit, pps, pps, pps, pps, pps, pps)
	}
	type verdict struct {
		state    State
		founding float64
	}
	found := map[string]verdict{}
	for _, f := range sriov.Figures(in) {
		j := Judge(f, o, x520, in)
		v := verdict{state: j.State}
		if j.Founding != nil {
			v.founding = math.Round(*j.Founding*100) / 100
		}
		found[strings.TrimPrefix(j.ID, "sriov.")] = v
		if strings.HasSuffix(f.Unit, "/s") && j.Measured == nil {
			t.Errorf("%s was measured by no step", j.ID)
		}
	}
	want := map[string]verdict{"tx": {Reached, 3.5e6}, "rx": {Short, 1.9e6}, "tap-tx": {Reached, 450450.45},
		"tap-rx": {Reached, 701107.01}, "gain-tx": {Reached, 7.77}, "gain-rx": {Short, 2.71},
		"vxlan-tx": {Reached, 270061.73}, "vxlan-rx": {Reached, 410367.17}, "gain-vxlan-tx": {Short, 12.96},
		"gain-vxlan-rx": {Short, 4.63}, "vf-vxlan-tx": {NotComparable, 0}, "vf-vxlan-rx": {NotComparable, 0},
		"all-tx": {Reached, 11.2e6}, "all-rx": {NotComparable, 11.2e6}}
	for id, w := range want {
		must.Equal(t, found[id], w, "%s", id)
	}
	must.Equal(t, len(found), len(want), "rows")
	if few := sriov.Figures(Inputs{VFAgent: "b:1"}); len(few) != 6 {
		t.Errorf("without tunnel and other guests: %d rows, expected 6", len(few))
	}
}

// TestFunctionSteps: agents that send choose their generator unless the user did, and all guests are measured at once.
func TestFunctionSteps(t *testing.T) {
	in := Inputs{From: "eth1", Agent: "a:1", VFAgent: "b:1", MoreVFAgents: []string{"e:1", "f:1"}, SendOn: "2-3"}
	steps := func(in Inputs) map[string]string {
		all := map[string]string{}
		for _, s := range sriov.Steps(in) {
			all[s.ID] = strings.Join(s.Argv, " ")
		}
		return all
	}
	all := steps(in)
	for id, want := range map[string]string{
		"vf-tx": "--agent b:1 --generator fastest --reverse", "vf-rx": "--agent b:1 --cpus 2-3",
		"all-tx": "--agent b:1 --more-agents e:1,f:1 --generator fastest --reverse",
		"all-rx": "--agent b:1 --more-agents e:1,f:1 --cpus 2-3",
	} {
		must.Hold(t, strings.HasSuffix(all[id], want), "%s: %s, expected %s", id, all[id], want)
	}
	in.Generator = "pktgen"
	if got := steps(in)["vf-tx"]; !strings.Contains(got, "--generator pktgen") {
		t.Errorf("the user's generator: %s", got)
	}
}

// TestApart: a sender on the card under test and an agent that is named twice are found before anything is measured.
func TestApart(t *testing.T) {
	link := &facts.PCILink{Speed: "5.0 GT/s PCIe", Width: 8}
	s := Seen{Host: &facts.Host{NICs: []facts.NIC{{Name: "ens1f0", PCI: "0000:01:00.0", Link: link},
		{Name: "ens1f1", PCI: "0000:01:00.1"}, {Name: "ens2f0", PCI: "0000:02:00.0"}}}}
	for name, c := range map[string]struct {
		in      Inputs
		code    string
		missing bool
	}{
		"another card":   {Inputs{PF: "ens1f0", From: "ens2f0"}, "", false},
		"one card":       {Inputs{PF: "ens1f0", From: "ens1f1"}, "shared-bus", false},
		"not seen":       {Inputs{PF: "ens1f0", From: "netns:far/eth9"}, "", false},
		"each its agent": {Inputs{Agent: "a:1", VFAgent: "b:1", MoreVFAgents: []string{"c:1"}}, "", false},
		"an agent twice": {Inputs{Agent: "a:1", VFAgent: "b:1", MoreVFAgents: []string{"c:1", "b:1"}}, "agent-twice",
			true},
	} {
		all := NeedApart(c.in, s)
		has := slices.ContainsFunc(all, func(k Check) bool { return k.Code == c.code && !k.OK && k.Why != "" })
		must.Hold(t, has == (c.code != "") && Missing(all) == c.missing, "%s: %+v", name, all)
		if c.code == "shared-bus" && !strings.Contains(all[0].Why, "5.0 GT/s PCIe x8") {
			t.Errorf("the link: %s", all[0].Why)
		}
	}
}
