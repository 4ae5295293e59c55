package tune

import (
	"fmt"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// vhostPPS is the most that a tap with vhost, or a guest's own kernel, carries: 64-byte packets per second, from
// experience.
const vhostPPS = 2e6

// wireOverheadBits is what a frame takes on the wire besides its own bits: preamble and inter-frame gap.
const wireOverheadBits = 8 * 20

// Advise returns what to buy or to change on a host that missed its target. d is the final diagnosis; nil: none.
func Advise(h *facts.Host, r *Result, d *bottleneck.Diagnosis) []Advice {
	var all []Advice
	target := r.Goal.PPS
	frame := max(64, r.Goal.Frame)
	for _, n := range h.NICs {
		if n.PhysFn != "" || n.Speed <= 0 || n.Bus != "pci" {
			continue
		}
		if line := float64(n.Speed) * 1e6 / float64(8*frame+wireOverheadBits); target > line {
			all = append(all, Advice{"line-rate", fmt.Sprintf("%s packets/s of %d bytes are more than %s carries at "+
				"%d Mbit/s (%s): a faster NIC, or several", rate(target), frame, n.Name, n.Speed, rate(line))})
		}
	}
	if target > vhostPPS && r.Goal.NIC != "vf" {
		all = append(all, adviseVF(h, target))
	}
	if r.Verdict == NotDevice {
		all = append(all, Advice{"gear", fmt.Sprintf("the %s is the limit: send from a second host ('mpps agent'), "+
			"from more CPUs, or by a hardware generator (--trial-command)", r.Final.LimitedBy)})
	}
	if d != nil && d.Bottleneck != nil && d.Bottleneck.Advice != "" {
		all = append(all, Advice{"bottleneck", d.Bottleneck.Say + ": " + d.Bottleneck.Advice})
	}
	for _, w := range r.Waits {
		all = append(all, Advice{"restart", fmt.Sprintf("%s could only be tried after a %s: 'mpps apply' with the "+
			"same goal makes what is left, 'mpps bench compare' shows what it gained",
			words.Count(len(w.Keys), "candidate"), w.For)})
	}
	return all
}

// adviseVF names a NIC with virtual functions, for a rate that a tap cannot carry.
func adviseVF(h *facts.Host, target float64) Advice {
	for _, n := range h.NICs {
		if n.SRIOV != nil && n.SRIOV.Total > 0 {
			return Advice{"vf", fmt.Sprintf("%s packets/s need a virtual function: %s has %d ('mpps sriov assign', "+
				"'mpps plan --nic vf')", rate(target), n.Name, n.SRIOV.Total)}
		}
	}
	return Advice{"vf", fmt.Sprintf("%s packets/s need a virtual function: a tap with vhost carries about %s, and no "+
		"NIC of this host has functions", rate(target), rate(vhostPPS))}
}
