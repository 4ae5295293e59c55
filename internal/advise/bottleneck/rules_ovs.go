package bottleneck

import (
	"fmt"
	"slices"

	"mpps/internal/model/facts"
)

// addUpcallLosses adds packets without a flow that did not reach ovs-vswitchd: the datapath drops them
// (net/openvswitch/datapath.c, ovs_dp_process_packet).
func (p *path) addUpcallLosses() {
	for l := range facts.Each(p.l.Stack) {
		looked, lost := switched(l), float64(l.Counters["openvswitch.lost"])
		p.addLoss(loss{at: atUpcall, cpu: -1, netns: l.Netns, source: "OVS_DP_ATTR_STATS, lost"}, lost,
			max(looked-lost, 0))
	}
}

// switched returns the packets that the datapaths of a namespace looked up.
func switched(l *facts.StackLoad) float64 {
	return float64(l.Counters["openvswitch.hit"]) + float64(l.Counters["openvswitch.missed"])
}

// lostUpcalls blames upcalls of Open vSwitch's datapath that did not reach ovs-vswitchd.
func lostUpcalls(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atUpcall) {
		where := ""
		if s.netns != "" {
			where = " of namespace " + s.netns
		}
		f := suspect{kind: OVSUpcalls, object: "datapath of Open vSwitch" + where, strength: 0.95, lost: s.packets,
			share: s.share, keys: []string{"upcall:" + s.netns},
			say: fmt.Sprintf("%s of the packets have no flow in Open vSwitch's datapath%s and do not reach "+
				"ovs-vswitchd", percent(s.share), where),
		}
		f.show("packets that did not reach ovs-vswitchd", p.rate(s.packets), "packets/s", s.source)
		if l := facts.Find(p.l.Stack, func(l *facts.StackLoad) bool { return l.Netns == s.netns }); l != nil {
			f.show("packets without a flow", p.rate(float64(l.Counters["openvswitch.missed"])), "packets/s",
				"OVS_DP_ATTR_STATS, missed")
			f.show("flows", float64(l.Counters["openvswitch.flows.entries"]), "flows", "OVS_DP_ATTR_STATS, flows")
		}
		if t := p.busiestHandler(); t != nil && s.netns == "" {
			f.show("time of its busiest handler thread", t.Ran, "CPUs", fmt.Sprintf("/proc/%d/task/%d", t.PID, t.TID))
			if t.Ran+t.Waited >= threadFull {
				f.say += fmt.Sprintf(": its handler %d has no time left", t.TID)
			}
		}
		found = append(found, f)
	}
	return found
}

// busiestHandler returns the thread of ovs-vswitchd with the most time among those that read upcalls; nil if none was
// watched.
func (p *path) busiestHandler() (busiest *facts.ThreadLoad) {
	if p.h.OpenVSwitch == nil {
		return nil
	}
	for t := range facts.Each(p.l.Threads) {
		if slices.ContainsFunc(p.h.OpenVSwitch.Threads, func(o facts.OVSThread) bool {
			return o.TID == t.TID && o.Role == "handler"
		}) && (busiest == nil || t.Ran+t.Waited > busiest.Ran+busiest.Waited) {
			busiest = t
		}
	}
	return busiest
}

// manyMasks is the mean of masks tried for a packet from which on the search for its flow is a cost to name: it then
// takes as long as all the rest of forwarding.
const manyMasks = 10

// maskCost is the time that one mask takes, in nanoseconds on one core of 2.x GHz, for hosts whose kernel gives no
// profile. Linux merge commit c219a1662276 has it for 255 masks on a Xeon E5-2630 v4: 17 µs a packet, and 3 µs with a
// cache of masks.
const maskCost = 55.0

// masksTried returns the mean of masks that the datapath tried for a packet; 0 if it counted none.
func (p *path) masksTried() float64 {
	l := facts.Find(p.l.Stack, func(l *facts.StackLoad) bool { return l.Netns == "" })
	if l == nil || switched(l) < facts.MinLostPackets {
		return 0
	}
	return float64(l.Counters["openvswitch.mask_hit"]) / switched(l)
}

// showMasks adds the masks tried for a packet to the evidence.
func (s *suspect) showMasks(tried float64) {
	s.show("masks tried for a packet", tried, "masks", "OVS_DP_ATTR_MEGAFLOW_STATS, mask_hit over hit and missed")
}

// policed returns the interface of Open vSwitch whose policer is at a device; nil if there is none.
func (p *path) policed(d *facts.DeviceLoad) *facts.OVSInterface {
	for _, i := range p.h.OpenVSwitch.Policed() {
		if d != nil && d.Netns == "" && i.Name == d.Name {
			return i
		}
	}
	return nil
}
