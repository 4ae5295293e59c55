package rig

import (
	"fmt"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// Fastest has the agents that send use the fastest generator that all of them have: XDP frames where every driver sends
// them, else pktgen with clones where every kernel has it loaded, else the choice of Auto, with a warning that says
// what is missing where.
const Fastest traffic.Method = "fastest"

// clones is how often Fastest has pktgen repeat a frame: making one costs more than sending it (alloc_skb and filling
// it in against one transmit, net/core/pktgen.c), and 64 repetitions leave under 2 % of that.
const clones = 64

// fastest returns the options for agents that send.
func (p *Path) fastest(o Options, fars []*far) Options {
	if o.Generator != Fastest {
		return o
	}
	o.Generator = traffic.Auto
	var slow, without *far
	for _, f := range fars {
		if f.info.Live != string(traffic.Yes) || f.nic.Live != string(traffic.Yes) {
			slow = f
		}
		if !f.info.Pktgen {
			without = f
		}
	}
	switch {
	case slow == nil:
	case without == nil:
		o.Generator, o.Clone = traffic.Pktgen, clones
	default:
		p.Warnings = append(p.Warnings, measure.Warning{Code: "generator-slow",
			Text: fmt.Sprintf("agent %s sends through packet sockets, about 1.25 Mpps a CPU at best: %s (%s) does not "+
				"send XDP frames, and pktgen is not loaded at agent %s", slow.addr, slow.nic.Name, slow.nic.Kind,
				without.addr),
			Hint: "'modprobe pktgen' in the guest"})
	}
	return o
}
