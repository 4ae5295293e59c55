//go:build netns

package trace

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestFlows: two flows of each kind of packet are distinguished, so that each can keep to its queue, and one that
// changes its queue is found to. What has no flow is never found to move.
func TestFlows(t *testing.T) {
	const frames = 200
	s := newScene(t, 0)
	cases := map[string]struct {
		make func(flow int) []byte
		none bool
	}{
		"UDP":               {make: func(flow int) []byte { return frame(flow, 1) }},
		"IPv4 with options": {make: func(flow int) []byte { return withOptions(frame(flow, 1)) }},
		"in a VLAN":         {make: func(flow int) []byte { return inVLAN(frame(flow, 1), 7) }},
		"two VLANs":         {make: func(flow int) []byte { return inVLAN(frame(0, 1), 7+flow) }},
		"VLAN in two VLANs": {make: func(flow int) []byte { return inVLAN(inVLAN(frame(0, 1), 7), 7+flow) }},
		"IPv6":              {make: inIPv6},
		"IPv4 in GRE":       {make: func(flow int) []byte { return inGRE(frame(flow, 1)[14:], 0x0800) }},
		"Ethernet in GRE":   {make: func(flow int) []byte { return inGRE(frame(flow, 1), 0x6558) }},
		"a fragment":        {make: func(flow int) []byte { return fragment(frame(flow, 1)) }, none: true},
		"no IP":             {make: func(flow int) []byte { f := frame(flow, 1); f[12], f[13] = 0x88, 0xb5; return f }, none: true},
		"cut short":         {make: func(flow int) []byte { return frame(flow, 1)[:30] }, none: true},
		"IPv4 in IPv4":      {make: func(flow int) []byte { return inIP(frame(flow, 1)[14:], unix.IPPROTO_IPIP) }},
		"IPv6 in IPv4":      {make: func(flow int) []byte { return inIP(inIPv6(flow)[14:], unix.IPPROTO_IPV6) }},
		"a fragment in IPv4": {make: func(flow int) []byte {
			return inIP(fragment(frame(flow, 1))[14:], unix.IPPROTO_IPIP)
		}, none: true},
		"ESP": {make: func(flow int) []byte {
			return transport(unix.IPPROTO_ESP, []byte{0, 0, 0, 7, 0, 0, 0, byte(flow)})
		}, none: true},
		"UDP behind AH": {make: func(flow int) []byte {
			return transport(unix.IPPROTO_AH, behindAH(frame(flow, 1)[34:]))
		}},
		"no ports": {make: func(flow int) []byte {
			return transport(unix.IPPROTO_ICMP, []byte{0, 0, 0, byte(flow)})
		}, none: true},
		"VXLAN":               {make: func(flow int) []byte { return inUDP(4789, vxlan(7), frame(flow, 1)) }},
		"VXLAN, two networks": {make: func(flow int) []byte { return inUDP(4789, vxlan(byte(flow)), frame(0, 1)) }},
		"VXLAN, two VLANs": {make: func(flow int) []byte {
			return inUDP(4789, vxlan(7), inVLAN(frame(0, 1), 7+flow))
		}},
		"VXLAN, IPv6 in IPv6": {make: func(flow int) []byte {
			return inTransport6(unix.IPPROTO_UDP, inUDP(4789, vxlan(7), inVLAN(inIPv6(flow), 7))[34:])
		}},
		"VXLAN in VXLAN": {make: func(flow int) []byte {
			return inUDP(8472, vxlan(7), inUDP(4789, vxlan(8), frame(flow, 1)))
		}},
		"VXLAN-GPE": {make: func(flow int) []byte {
			return inUDP(4790, []byte{0x0c, 0, 0, 2, 0, 0, 9, 0}, inIPv6(flow)[14:])
		}},
		"Geneve with options": {make: func(flow int) []byte {
			return inUDP(6081, []byte{2, 0, 0x65, 0x58, 0, 0, 9, 0, 1, 1, 0x80, 1, 0xde, 0xad, 0xbe, 0xef},
				frame(flow, 1))
		}},
		"GRE with checksum, key and number": {make: func(flow int) []byte {
			return transport(unix.IPPROTO_GRE, slices.Concat([]byte{0xb0, 0, 0x86, 0xdd}, make([]byte, 12),
				inIPv6(flow)[14:]))
		}},
		"GRE in UDP": {make: func(flow int) []byte { return inUDP(4754, []byte{0, 0, 8, 0}, frame(flow, 1)[14:]) }},
		"GUE": {make: func(flow int) []byte {
			return inUDP(6080, []byte{1, 4, 0, 0, 1, 2, 3, 4}, frame(flow, 1)[14:])
		}},
		"GUE with GRE": {make: func(flow int) []byte {
			return inUDP(6080, []byte{0, 47, 0, 0, 0, 0, 0x65, 0x58}, frame(flow, 1))
		}},
		"GUE version 1": {make: func(flow int) []byte { return inUDP(6080, nil, inIPv6(flow)[14:]) }},
		"IPv4 in IPv6 with options": {make: func(flow int) []byte {
			return inTransport6(unix.IPPROTO_DSTOPTS, append([]byte{unix.IPPROTO_IPIP, 0, 4, 1, 4, 1, 1, 0},
				frame(flow, 1)[14:]...))
		}},
		"ESP in VXLAN": {make: func(int) []byte {
			return inUDP(4789, vxlan(7), transport(unix.IPPROTO_ESP, make([]byte, 40)))
		}, none: true},
		"ARP in VXLAN": {make: func(int) []byte {
			return inUDP(4789, vxlan(7), slices.Concat(frame(0, 1)[:12], []byte{8, 6}, make([]byte, 28)))
		}, none: true},
		"cut short in VXLAN": {make: func(int) []byte { return inUDP(4789, vxlan(7), frame(0, 1)[:36]) }, none: true},
		"VXLAN without a network": {make: func(int) []byte { return inUDP(4789, make([]byte, 8), frame(0, 1)) },
			none: true},
		"a message of Geneve": {make: func(int) []byte {
			return inUDP(6081, []byte{0x40, 0, 0x65, 0x58, 0, 0, 9, 0}, frame(0, 1))
		}, none: true},
		"VXLAN to another port": {make: func(flow int) []byte { return inUDP(7789, vxlan(7), frame(flow, 1)) }, none: true},
		"Geneve to another port": {make: func(flow int) []byte {
			return inUDP(6082, slices.Concat([]byte{4, 0, 0x65, 0x58, 0, 0, 9, 0}, make([]byte, 16)), inIPv6(flow))
		}, none: true},
		"VXLAN to another port, in VXLAN": {make: func(flow int) []byte {
			return inUDP(4789, vxlan(7), inUDP(7789, vxlan(8), frame(flow, 1)))
		}, none: true},
		"VXLAN to another port, over IPv6": {make: func(flow int) []byte {
			return inTransport6(unix.IPPROTO_UDP, inUDP(7789, vxlan(7), frame(flow, 1))[34:])
		}, none: true},
		"GTP-U of version 0": {make: func(flow int) []byte {
			return inUDP(3386, append([]byte{0x1e, 0xff}, make([]byte, 18)...), frame(flow, 1)[14:60])
		}, none: true},
		"AMT": {make: func(flow int) []byte { return inUDP(2268, []byte{6, 0}, frame(flow, 1)[14:]) }, none: true},
		"L2TP to another port": {make: func(flow int) []byte {
			return inUDP(6000, []byte{0x40, 2, 0, 60, 0, 1, 0, 1, 0xff, 3, 0, 0x21}, frame(flow, 1)[14:])
		}, none: true},
		"WireGuard to another port": {make: func(flow int) []byte {
			return inUDP(51821, []byte{4, 0, 0, 0, 1, 2, 3, 4, byte(flow)}, make([]byte, 64))
		}, none: true},
		"DTLS": {make: func(flow int) []byte {
			return inUDP(5684, []byte{23, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, byte(flow)}, make([]byte, 64))
		}, none: true},
		"SCTP in UDP": {make: func(flow int) []byte {
			return inUDP(9899, []byte{0x13, byte(flow), 0x14, 0x51}, make([]byte, 40))
		}, none: true},
		"RoCEv2": {make: func(flow int) []byte {
			return inUDP(4791, []byte{100, 0x40, 0xff, 0xff, 0, 0, 0, byte(flow), 0, 0, 0, 1}, make([]byte, 40))
		}, none: true},
		"ESP in UDP": {make: func(int) []byte { return inUDP(4500, nil, make([]byte, 40)) }, none: true},
		"PPTP": {make: func(int) []byte {
			return transport(unix.IPPROTO_GRE, append([]byte{0x30, 1, 0x88, 0x0b}, make([]byte, 40)...))
		}, none: true},
	}
	names := slices.Sorted(maps.Keys(cases))
	taps := map[string][]int{}
	for i, name := range names {
		taps[name] = s.tap(fmt.Sprintf("tap%d", i), 2)
	}
	// moves writes the frames of all cases, of a flow each, and returns how many changed their queue, by case.
	moves := func(flow func(queue int) int) map[string]uint64 {
		o := s.watching(Config{EveryPacket: true}, func() {
			for name, tap := range taps {
				for i := range frames {
					must.Get(unix.Write(tap[i%2], cases[name].make(flow(i%2))))(t)
				}
			}
		})
		all := map[string]uint64{}
		for _, r := range o.Rows {
			var i int
			if _, err := fmt.Sscanf(r.To.Device, "tap%d", &i); err == nil && r.First() {
				all[names[i]] += r.Moves
			}
		}
		return all
	}
	apart := moves(func(queue int) int { return queue })
	together := moves(func(int) int { return 0 })
	for _, name := range names {
		if n := apart[name]; n != 0 {
			t.Errorf("%s: two flows, each on its queue: %d moves, expected none", name, n)
		}
		want := uint64(frames - 1)
		if cases[name].none {
			want = 0
		}
		must.Equal(t, together[name], want, "%s: one flow on two queues in turns: moves", name)
	}
}

// TestPayloadInPages: a UDP packet whose payload cannot be read may carry a tunnel, and is never found to move. A TCP
// packet is judged by its headers.
func TestPayloadInPages(t *testing.T) {
	const frames, size = 200, 5000 // a smaller frame is in one piece (drivers/net/tun.c, tun_alloc_skb)
	s := newScene(t, 0)
	s.vnet = true
	tap := s.tap("tap0", 2)
	for name, c := range map[string]struct {
		protocol byte
		headers  byte // bytes up to the payload
		want     uint64
	}{"UDP": {unix.IPPROTO_UDP, 42, 0}, "TCP": {unix.IPPROTO_TCP, 54, frames - 1}} {
		f := append(frame(0, 1), make([]byte, size)...)
		f[14+9] = c.protocol
		binary.BigEndian.PutUint16(f[14+2:], uint16(len(f)-14))
		binary.BigEndian.PutUint16(f[14+20+4:], uint16(len(f)-34))
		header := []byte{0, 0, c.headers, 0, 0, 0, 0, 0, 0, 0} // struct virtio_net_hdr
		o := s.watching(Config{EveryPacket: true}, func() {
			for i := range frames {
				must.Get(unix.Write(tap[i%2], slices.Concat(header, f)))(t)
			}
		})
		var seen, moves uint64
		for _, r := range o.Rows {
			if r.To.Device == "tap0" && r.First() {
				seen, moves = seen+r.Frames, moves+r.Moves
			}
		}
		must.Hold(t, seen == frames && moves == c.want, "%s: %d frames seen, expected %d; %d moves, expected %d", name, seen,
			frames, moves, c.want)
	}
}

func withOptions(f []byte) []byte {
	f = slices.Insert(f, 14+20, 1, 1, 1, 0) // three times nothing, and the end
	f[14] = 0x46
	return f
}

func inVLAN(f []byte, id int) []byte { return slices.Insert(f, 12, 0x81, 0, 0, byte(id)) }

func fragment(f []byte) []byte {
	f[14+6] = 0x20 // more of it follow
	return f
}

func inIPv6(flow int) []byte {
	f := frame(flow, 1)
	f[12], f[13] = 0x86, 0xdd
	ip := make([]byte, 40)
	ip[0], ip[6], ip[7] = 0x60, unix.IPPROTO_UDP, 64
	binary.BigEndian.PutUint16(ip[4:], uint16(len(f)-34))
	ip[8], ip[23], ip[24], ip[39] = 0xfd, 1, 0xfd, 2
	return slices.Concat(f[:14], ip, f[34:])
}

// inIP wraps a packet in another IPv4 header.
func inIP(packet []byte, protocol byte) []byte {
	f := frame(0, 1)[:34]
	f[14+9] = protocol
	return slices.Concat(f, packet)
}

// transport is a packet of one pair of addresses with what is behind its IP header.
func transport(protocol byte, behind []byte) []byte {
	f := frame(0, 1)[:34]
	f[14+9] = protocol
	return slices.Concat(f, behind)
}

// inTransport6 is the same in IPv6.
func inTransport6(protocol byte, behind []byte) []byte {
	f := inIPv6(0)[:54]
	f[14+6] = protocol
	return slices.Concat(f, behind)
}

// behindAH puts an authentication header of 24 bytes (RFC 4302) in front of UDP.
func behindAH(udp []byte) []byte {
	return slices.Concat([]byte{unix.IPPROTO_UDP, 4, 0, 0, 0, 0, 0, 7}, make([]byte, 16), udp)
}

// inUDP wraps a packet in a tunnel's header and UDP whose ports are those of every other.
func inUDP(port uint16, header, packet []byte) []byte {
	f := frame(0, 1)[:42]
	binary.BigEndian.PutUint16(f[34:], 54479)
	binary.BigEndian.PutUint16(f[36:], port)
	binary.BigEndian.PutUint16(f[38:], uint16(8+len(header)+len(packet)))
	return slices.Concat(f, header, packet)
}

func vxlan(network byte) []byte { return []byte{8, 0, 0, 0, 0, 0, network, 0} }

// inGRE wraps a packet with a key, as tunnels do (RFC 2890).
func inGRE(packet []byte, protocol uint16) []byte {
	f := frame(0, 1)
	f[14+9] = unix.IPPROTO_GRE
	gre := make([]byte, 8)
	gre[0] = 0x20
	binary.BigEndian.PutUint16(gre[2:], protocol)
	return slices.Concat(f[:34], gre, packet)
}
