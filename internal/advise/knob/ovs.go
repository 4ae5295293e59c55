package knob

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// ovsCheck returns a check of Open vSwitch, which has an opinion where guests' packets pass the kernel's datapath.
func ovsCheck(name, title string, want func(v *View, o *facts.OpenVSwitch) Advice) *Knob {
	return &Knob{
		ID: "ovs." + name, Title: title, Stage: datapath.Bridge, Risk: goal.None, Tiers: viaKernel(), Check: true,
		Where: onPaths(reach.OpenVSwitch, fixed(hostFact("ovs-"+name))),
		Want: func(v *View, _ setting.Address) Advice {
			switch {
			case !v.passesOpenVSwitch():
				return Skips("no running guest's packets pass Open vSwitch")
			case v.OpenVSwitch == nil:
				return Unsure("neither Open vSwitch's database nor its datapath was read")
			}
			return want(v, v.OpenVSwitch)
		},
	}
}

// passesOpenVSwitch reports whether packets of a running guest pass Open vSwitch's kernel datapath.
func (v *View) passesOpenVSwitch() bool {
	return slices.ContainsFunc(v.paths.Paths, func(p reach.Path) bool { return p.Active && p.Has(reach.OpenVSwitch) })
}

// switched returns the packets that the datapaths looked up in the interval, and those of them without a flow.
func (v *View) switched() (all, missed uint64) {
	missed = v.Interval.Stack["openvswitch.missed"]
	return v.Interval.Stack["openvswitch.hit"] + missed, missed
}

// lostUpcalls returns how many packets did not reach ovs-vswitchd in the interval.
func (v *View) lostUpcalls() uint64 { return v.Interval.Stack["openvswitch.lost"] }

var ovsUpcalls = ovsCheck("upcalls", "Upcalls reach ovs-vswitchd", func(v *View, _ *facts.OpenVSwitch) Advice {
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	all, missed := v.switched()
	lost := v.lostUpcalls()
	found := fmt.Sprintf("%d of %d lost", lost, missed)
	if lost == 0 {
		return fact(found, Fine("every packet without a flow reached ovs-vswitchd "+v.overInterval()))
	}
	return fact(found, exact("0 lost", fmt.Sprintf("%d packets without a flow were dropped %s: they did not reach "+
		"ovs-vswitchd", lost, v.overInterval())).At(lossSeverity(lost, all)))
})

// manyMasks is the mean of masks tried for a packet from which on the lookup is named: at some 55 ns each (Linux merge
// commit c219a1662276, 255 masks) it takes as long as all the rest of forwarding. For each mask the packet's key is
// masked, hashed and searched in the table (net/openvswitch/flow_table.c, masked_flow_lookup).
const manyMasks = 10

// fewPackets is the number of packets below which a mean says nothing.
const fewPackets = 1000

var ovsMasks = ovsCheck("masks", "A packet's flow is found with few masks", func(v *View, _ *facts.OpenVSwitch) Advice {
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	packets, _ := v.switched()
	tried := v.Interval.Stack["openvswitch.mask_hit"]
	switch {
	case packets < fewPackets:
		return Unsure("hardly a packet passed the datapath while mpps watched")
	case tried == 0:
		return Unsure("the datapath does not count the masks that it tries")
	}
	mean, masks := float64(tried)/float64(packets), v.Stack["openvswitch.masks.entries"]
	found := fmt.Sprintf("%.1f masks a packet", mean)
	if mean < manyMasks {
		return fact(found, Fine("on average "+v.overInterval()))
	}
	return fact(found, exact(fmt.Sprintf("below %d", manyMasks), fmt.Sprintf("reported only: of %d masks a packet "+
		"tries %.1f %s, a hash and a search each", masks, mean, v.overInterval())).At(Medium))
})

// largestSegment is the most bytes that a guest's NIC with TSO hands over as one packet
// (include/linux/netdevice.h, GSO_LEGACY_MAX_SIZE).
const largestSegment = 65536

var ovsPolicing = ovsCheck("policing", "Policers let whole packets through", policing)

func policing(v *View, o *facts.OpenVSwitch) Advice {
	if !o.Known() {
		return Unsure("Open vSwitch's database was not read")
	}
	var small, tight, slow *facts.OVSInterface
	ports := o.Policed()
	for _, i := range ports {
		guests := v.taps[i.Name] != nil
		switch burst := i.PolicingBurst * 1000 / 8; {
		case i.PolicingRate == 0 || burst == 0: // 0: 8000 kbit
		case i.MTU > 0 && burst < i.MTU:
			small = i
		case burst < largestSegment && guests:
			tight = i
		}
		if guests && v.policedTo(i) < v.Goal.PPS && (slow == nil || v.policedTo(i) < v.policedTo(slow)) {
			slow = i
		}
	}
	found := Count(len(ports), "policer")
	burst := func(i *facts.OVSInterface, bytes int, packets string) Advice {
		return fact(found, exact(fmt.Sprintf("a burst of at least %d kbit", (bytes*8+999)/1000), fmt.Sprintf(
			"reported only: %s are larger than the burst of %s, %d kbit, and never pass", packets, i.Name,
			i.PolicingBurst)))
	}
	switch {
	case len(ports) == 0:
		return fact("none", Fine("no port has ingress_policing_rate or ingress_policing_kpkts_rate"))
	case small != nil:
		return burst(small, small.MTU, "full packets").At(High)
	case tight != nil:
		return burst(tight, largestSegment, "segments of 64 KiB that a guest hands over whole (TSO)").At(Medium)
	case slow != nil:
		return fact(found, exact("at least "+goal.FormatRate(v.Goal.PPS)+" packets/s", fmt.Sprintf("reported only: "+
			"the site limits what the guest behind %s sends to %s, which is %s packets/s of the target's size",
			slow.Name, policerText(slow), goal.FormatRate(v.policedTo(slow))))).At(Medium)
	}
	return fact(found, Fine(fmt.Sprintf("the site limits what guests send, %s to %s: 'mpps diagnose' names it if "+
		"packets are dropped", ports[0].Name, policerText(ports[0]))))
}

// policerText says how much an interface's policers let through.
func policerText(i *facts.OVSInterface) string {
	switch {
	case i.PacketRate == 0:
		return fmt.Sprintf("%d kbit/s", i.PolicingRate)
	case i.PolicingRate == 0:
		return fmt.Sprintf("%d kpackets/s", i.PacketRate)
	}
	return fmt.Sprintf("%d kbit/s and %d kpackets/s", i.PolicingRate, i.PacketRate)
}

// policedTo returns how many frames of the target's size an interface's policers let through per second. They count
// bytes from the Ethernet header on, without FCS (include/net/sch_generic.h, qdisc_pkt_len; net/sched/act_police.c).
func (v *View) policedTo(i *facts.OVSInterface) float64 {
	most := math.Inf(1)
	if i.PacketRate > 0 {
		most = float64(i.PacketRate) * 1000
	}
	if i.PolicingRate > 0 {
		const fcs = 4
		most = min(most, float64(i.PolicingRate)*1000/8/float64(cmp.Or(v.Goal.Frame, 64)-fcs))
	}
	return most
}

var ovsOffload = &Knob{
	ID: "ovs.offload", Title: "Flows are given to a NIC that can take them", Stage: datapath.Bridge, Risk: goal.None,
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough, goal.Realtime), Check: true,
	Where: onPaths(reach.OpenVSwitch, fixed(hostFact("ovs-offload"))),
	Want: func(v *View, _ setting.Address) Advice {
		ports := len(facts.Where(v.NICs, func(n facts.NIC) bool {
			return n.Representor() && n.Master == facts.OVSDatapath
		}))
		switch {
		case ports == 0 && !v.passesOpenVSwitch():
			return Skips("no running guest's packets pass Open vSwitch, and it has no port of a virtual function")
		case !v.OpenVSwitch.Known():
			return Unsure("Open vSwitch's database was not read")
		}
		return v.offload(ports)
	},
}

// offload judges hw-offload on a host where so many ports of Open vSwitch are representors.
func (v *View) offload(ports int) Advice {
	on, policy := v.OpenVSwitch.Config["hw-offload"] == "true", v.OpenVSwitch.Config["tc-policy"]
	passed := fmt.Sprintf("reported only: no flow is given to the NIC, and each packet of the functions behind %s "+
		"passes a CPU", Count(ports, "port"))
	switch {
	case on && policy == "skip_hw" && ports > 0:
		return fact("on, tc-policy skip_hw", exact("tc-policy none or skip_sw", passed).At(High))
	case on && !slices.ContainsFunc(v.NICs, func(n facts.NIC) bool { return n.SwitchID != "" }):
		return fact("on", exact("off", "reported only: no NIC of this host is in switchdev mode, and flows go to tc "+
			"in software, which has other limits and is not faster").At(Low))
	case on:
		return fact("on", Fine("the driver decides which flows the NIC takes: ovs-appctl dpctl/dump-flows "+
			"type=offloaded"))
	case ports > 0:
		return fact("off", exact("on", passed).At(High))
	}
	return fact("off", Fine("the kernel's datapath has all flows; only a NIC in switchdev mode could take them"))
}
