package bottleneck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// droppedForReason blames what makes the kernel drop packets, where no other rule does.
func droppedForReason(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atKernel) {
		if (s.device != nil || s.counted) && s.means.stage != "socket" && p.measuredIn(s.space()) {
			continue
		}
		if s.byNetworkLayer() && p.takenIn(s.space()) {
			continue
		}
		f := suspect{
			kind: cmp.Or(s.means.kind, Dropped), stage: s.means.stage, object: "the kernel", lost: s.packets,
			share: s.share, strength: 0.92, reason: s.reason, function: s.function, advice: s.means.do,
			goesRound: s.goesRound,
		}
		where := cmp.Or(s.function, "the host's network layer")
		if s.netns != "" {
			where += " of namespace " + s.netns
		}
		if s.device != nil {
			f.object = deviceName(s.device)
			f.advice = strings.ReplaceAll(f.advice, "DEVICE", s.device.Name)
			where += " at " + f.object
		}
		f.keys = []string{"reason:" + s.reason + f.object}
		if s.device != nil && p.macvtap(s.device) && !s.means.sends {
			found = append(found, p.unopened(&s, f))
			continue
		}
		if raw := p.rawSocket(&s); raw != nil {
			found = append(found, unreadRaw(raw, f, s.source))
			continue
		}
		of := percent(s.share) + " of the packets"
		if s.means.sends {
			of += s.way()
		}
		f.say = of + " are dropped " + forReason(s.reason, where) + ": " + s.means.what
		if r := p.h.Routing; s.means.kind == RouteRefuses && r != nil && len(r.Refusing) > 0 && s.inOwnNetns() {
			f.say += "; the host has " + strings.Join(r.Refusing, ", ")
		}
		switch {
		case s.share < 0.02:
			f.strength = 0.6
		case s.means.benign:
			f.strength = 0.75
		}
		f.show("dropped for "+s.reason+" in "+where, p.rate(s.packets), "packets/s", s.source)
		found = append(found, f)
	}
	return found
}

// forReason says why and where packets are dropped: if the kernel gives no reason, the function tells.
func forReason(reason, where string) string {
	if reason == "NOT_SPECIFIED" {
		return "in " + where
	}
	return "for " + reason + " (" + where + ")"
}

// minStuck is how many packets are lost at least where a connection is said to hang.
const minStuck = 2

// stuck returns where a path without other traffic loses its packets for their length; nil if it does not. A connection
// whose long segments find no way, and whose sender is not told, sends them ever more rarely (RFC 2923, 2.1).
func (p *path) stuck() *suspect {
	for site := range facts.Each(p.l.Drops) {
		means, d := meaningOf(site.Reason, site.Symbol), p.dropDevice(site)
		lost := float64(site.Packets)
		if !means.long || d == nil || lost < minStuck || lost < 0.5*p.packets {
			continue
		}
		f := &suspect{kind: Dropped, stage: means.stage, object: deviceName(d), lost: lost, share: shareOf(lost,
			float64(d.TxPackets)), strength: 0.7, advice: means.do, function: site.Symbol,
			reason: strings.TrimPrefix(site.Reason, "SKB_DROP_REASON_")}
		f.say = fmt.Sprintf("of %.0f packets %.0f are dropped %s: %s; a connection that hangs sends no more",
			max(p.packets, lost), lost, forReason(f.reason, site.Symbol+" at "+f.object), means.what)
		f.show("dropped in "+site.Symbol, p.rate(lost), "packets/s", "kfree_skb: "+site.Reason)
		return f
	}
	return nil
}

// unopened returns what is to be said of packets that come to a network layer by a macvtap: it has them only while no
// program has it open (drivers/net/tap.c, tap_handle_frame).
func (p *path) unopened(s *loss, f suspect) suspect {
	f.kind, f.stage, f.object, f.strength = GuestDown, "", cmp.Or(s.guest, f.object), 0.9
	f.say = fmt.Sprintf("%s of the packets for %s end in the network layer of its own namespace (%s): no program "+
		"has it open", percent(s.share), deviceName(s.device), s.reason)
	f.advice = "start the guest or program that should have it open"
	f.show("refused for "+s.reason, p.rate(s.packets), "packets/s", s.source)
	return f
}

// rawSocket returns the raw socket that has no room for what the kernel says nobody takes (net/ipv4/raw.c,
// raw_v4_input); nil if there is none.
func (p *path) rawSocket(s *loss) *facts.LosingSocket {
	return facts.Find(p.l.Sockets.Raw, func(raw *facts.LosingSocket) bool {
		return s.reason == "IP_NOPROTO" && raw.Netns == s.space() && float64(raw.Drops) >= s.packets/2
	})
}

// unreadRaw returns what is to be said of a raw socket that loses packets.
func unreadRaw(raw *facts.LosingSocket, f suspect, source string) suspect {
	f.kind, f.object, f.strength = Socket, "raw socket", 0.85
	if raw.PID != 0 {
		f.object = fmt.Sprintf("raw socket of %s (%d)", raw.Comm, raw.PID)
	}
	f.say = fmt.Sprintf("%s of the packets are of protocol %d, and the raw socket that takes it is full",
		percent(f.share), raw.Port)
	f.advice = "a faster application, or a longer receive buffer (SO_RCVBUF, net.core.rmem_max)"
	f.show("lost at its receive buffer", float64(raw.Drops), "packets", "/proc/net/raw; "+source)
	f.waitsIn(raw.Waits)
	return f
}

// byNetworkLayer reports whether IP dropped a packet that arrived.
func (s *loss) byNetworkLayer() bool {
	return !s.means.sends && (s.means.stage == "" || s.means.stage == "socket")
}

// inOwnNetns reports whether a device of mpps's own network namespace lost the packets.
func (s *loss) inOwnNetns() bool { return s.device != nil && s.device.Netns == "" }

// measuredIn reports whether a measurement's receiver takes copies by a socket at the only device by which packets come
// into a namespace: what becomes of the packets after that is no loss.
func (p *path) measuredIn(netns string) bool {
	edges := facts.Where(p.l.Devices, func(d facts.DeviceLoad) bool { return d.Netns == netns && edge(&d) })
	return len(edges) == 1 && slices.ContainsFunc(p.l.Threads, func(t facts.ThreadLoad) bool {
		return t.Role == "mpps" && slices.Contains(edges[0].Held, t.PID)
	})
}

// droppedByDevice blames a device that refuses packets, where no CPU or queue discipline is to blame: a veth whose
// other end is down or full, a tunnel without a way.
func droppedByDevice(p *path) (found []suspect) {
	for _, s := range p.lossesAt(atDevice) {
		if !s.means.sends || s.device == nil { // of received ones, the CPU's backlog has the rest
			continue
		}
		f := suspect{
			kind: DeviceDrops, stage: deviceStage(s.device), object: deviceName(s.device), strength: 0.6,
			lost: s.packets, share: s.share, keys: []string{deviceKey(s.device)},
			say: fmt.Sprintf("%s drops %s of the packets that it should pass on", deviceName(s.device),
				percent(s.share)),
			advice: "see whether its other end is up and has time for them: ip -s -s link show dev " + s.device.Name,
		}
		f.show("dropped there", p.rate(s.packets), "packets/s", s.source)
		if s.peer != nil {
			f = p.fullPeer(f, s.peer)
		}
		found = append(found, f)
	}
	return found
}

// fullPeer adds to packets that a veth drops that the receive queue of its other end is full, and what takes the CPU
// of the NAPI thread that empties it, if one does.
func (p *path) fullPeer(f suspect, peer *facts.DeviceLoad) suspect {
	f.strength = 0.7
	f.keys = append(f.keys, deviceKey(peer))
	f.say += ": the receive queue of " + deviceName(peer) + " is full"
	f.advice = "more CPU time for whoever receives there, or several queues"
	t := facts.Find(p.l.Threads, func(t *facts.ThreadLoad) bool {
		return t.Role == "napi" && slices.Contains(t.Devices, peer.Name) && p.heldBack(t)
	})
	if t == nil {
		return f
	}
	if c, is := p.heldUp(t, f); is {
		return c
	}
	return f
}

// cpumap returns the thread that receives what XDP programs hand to another CPU, the one that waits longest for its
// CPU (kernel/bpf/cpumap.c, cpu_map_kthread_run); nil if there is none.
func (p *path) cpumap() *facts.ThreadLoad {
	return most(facts.Each(p.l.Threads), func(t *facts.ThreadLoad) float64 {
		if !strings.HasPrefix(t.Comm, "cpumap/") || t.Role != "napi" {
			return -1
		}
		return t.Waited
	})
}

func deviceStage(d *facts.DeviceLoad) string {
	switch d.Kind {
	case "nic", "vf":
		return "nic"
	case "tunnel":
		return "overlay"
	}
	return "qdisc"
}

// unaccounted reports packets that came in and did not go out, and of which nothing tells where they are.
func unaccounted(p *path) (found []suspect) {
	for _, b := range p.missing {
		where := ""
		if b.netns != "" {
			where = " of " + b.netns
		}
		f := suspect{
			kind: Unaccounted, object: "the host" + where, strength: 0.55, lost: b.missing, share: b.missing / b.in,
			keys: []string{"missing:" + b.netns},
			say: fmt.Sprintf("%s of the packets that came in%s neither went out nor reached a program, and no counter "+
				"tells where they are", percent(b.missing/b.in), where),
		}
		if r := p.h.Routing; r != nil && len(r.Refusing) > 0 && b.netns == "" && p.l.Method != facts.ByTracepoints {
			f.say += "; the host has routes that refuse packets, which is not counted: " +
				strings.Join(r.Refusing, ", ")
		}
		f.show("packets that came in", p.rate(b.in), "packets/s", "/proc/net/dev, /proc/net/snmp")
		f.show("of which nothing tells where they went", p.rate(b.missing), "packets/s",
			"/proc/net/dev, /proc/net/snmp")
		if t := p.cpumap(); t != nil && p.heldBack(t) {
			if c, is := p.heldUp(t, f); is {
				f = c
			}
		}
		found = append(found, f)
	}
	return found
}
