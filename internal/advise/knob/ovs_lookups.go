package knob

import (
	"fmt"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
)

// The mean of lookups for a packet from which on it is named, and from which on it weighs more: an access list with
// state looks a packet up again after each of its two passes through connection tracking (OVN's pipelines of the sender
// and of the receiver; net/openvswitch/actions.c, execute_recirc).
const (
	severalLookups = 1.8
	manyLookups    = 2.8
)

var ovsLookups = ovsCheck("lookups", "A packet is looked up once", func(v *View, o *facts.OpenVSwitch) Advice {
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	packets := v.received(reach.OpenVSwitch)
	all, missed := v.switched()
	switch {
	case packets < fewPackets || all < fewPackets:
		return Unsure("hardly a packet passed the datapath while mpps watched")
	case missed*10 > all:
		return Unsure("too many packets had no flow: what they were looked up for is not known")
	}
	mean := float64(all) / float64(packets)
	found := fmt.Sprintf("%.1f lookups a packet", mean)
	if mean < severalLookups {
		return fact(found, Fine("on average "+v.overInterval()))
	}
	severity := Low
	if mean >= manyLookups {
		severity = Medium
	}
	return fact(found, exact(fmt.Sprintf("below %.1f", severalLookups), fmt.Sprintf("reported only: a packet is "+
		"looked up %.1f times %s, %s", mean, v.overInterval(), v.lookedUpFor(o)))).At(severity)
})

// lookedUpFor says what makes the datapath look a packet up again.
func (v *View) lookedUpFor(o *facts.OpenVSwitch) string {
	switch {
	case v.Stack["nf_conntrack.entries"] == 0:
		return "and no connection is tracked: bonds, and tunnels whose underlay is in the switch, do that"
	case o.OVN != nil:
		return "where connections are tracked: rules without state (OVN's allow-stateless) spare that, and then " +
			"replies need rules of their own; that is the decision of those who own the rules"
	}
	return "where connections are tracked: each action ct of a flow looks the packet up again"
}

// received returns the packets that the taps and NICs of running guests' paths of a kind received in the interval.
// Where a NIC's packets are joined (GRO), or are not all the guests', fewer of them are looked up.
func (v *View) received(kind reach.Kind) uint64 {
	var all uint64
	counted := map[string]bool{}
	add := func(device string) {
		if !counted[device] {
			packets, _ := v.Interval.Counter(device, "rx_packets")
			all += packets
		}
		counted[device] = true
	}
	for i := range v.paths.Paths {
		p := &v.paths.Paths[i]
		if !p.Active || !p.Has(kind) {
			continue
		}
		for _, nic := range p.NICs {
			add(nic)
		}
		for _, hop := range p.Hops {
			if v.taps[hop.Here()] != nil {
				add(hop.Device)
			}
		}
	}
	return all
}
