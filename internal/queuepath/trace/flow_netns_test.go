//go:build netns

package trace

import (
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFlows: two flows of each kind of packet are told apart, so that each can keep to its queue, and one that changes its queue
// is found to. What has no flow is never found to move.
func TestFlows(t *testing.T) {
	const frames = 200
	s := newScene(t, 0)
	tap := s.tap("tap0", 2)
	for name, c := range map[string]struct {
		make func(flow int) []byte
		none bool
	}{
		"UDP":                {make: func(flow int) []byte { return frame(flow, 1) }},
		"IPv4 with options":  {make: func(flow int) []byte { return withOptions(frame(flow, 1)) }},
		"in a VLAN":          {make: func(flow int) []byte { return inVLAN(frame(flow, 1)) }},
		"IPv6":               {make: inIPv6},
		"IPv4 in GRE":        {make: func(flow int) []byte { return inGRE(frame(flow, 1)[14:], 0x0800) }},
		"Ethernet in GRE":    {make: func(flow int) []byte { return inGRE(frame(flow, 1), 0x6558) }},
		"a fragment":         {make: func(flow int) []byte { return fragment(frame(flow, 1)) }, none: true},
		"no IP":              {make: func(flow int) []byte { f := frame(flow, 1); f[12], f[13] = 0x88, 0xb5; return f }, none: true},
		"cut short":          {make: func(flow int) []byte { return frame(flow, 1)[:30] }, none: true},
		"IPv4 in IPv4":       {make: func(flow int) []byte { return inIP(frame(flow, 1)[14:], unix.IPPROTO_IPIP) }},
		"IPv6 in IPv4":       {make: func(flow int) []byte { return inIP(inIPv6(flow)[14:], unix.IPPROTO_IPV6) }},
		"a fragment in IPv4": {make: func(flow int) []byte { return inIP(fragment(frame(flow, 1))[14:], unix.IPPROTO_IPIP) }, none: true},
		"ESP":                {make: func(flow int) []byte { return security(unix.IPPROTO_ESP, 0, flow) }},
		"AH":                 {make: func(flow int) []byte { return security(unix.IPPROTO_AH, 4, flow) }},
		"no ports":           {make: func(flow int) []byte { return security(unix.IPPROTO_ICMP, 0, flow) }, none: true},
	} {
		t.Run(name, func(t *testing.T) {
			write := func(queue, flow int) {
				if _, err := unix.Write(tap[queue], c.make(flow)); err != nil {
					t.Fatal(err)
				}
			}
			moves := func(f func()) (n uint64) {
				for _, r := range s.watching(Config{EveryPacket: true}, f).Rows {
					if r.First() && r.To.Device == "tap0" {
						n += r.Moves
					}
				}
				return n
			}
			if n := moves(func() {
				for i := range frames {
					write(i%2, i%2)
				}
			}); n != 0 {
				t.Errorf("two flows, each on its queue: %d moves, expected none", n)
			}
			want := uint64(frames - 1)
			if c.none {
				want = 0
			}
			if n := moves(func() {
				for i := range frames {
					write(i%2, 0)
				}
			}); n != want {
				t.Errorf("one flow on two queues in turns: %d moves, expected %d", n, want)
			}
		})
	}
}

func withOptions(f []byte) []byte {
	f = slices.Insert(f, 14+20, 1, 1, 1, 0) // three times nothing, and the end
	f[14] = 0x46
	return f
}

func inVLAN(f []byte) []byte { return slices.Insert(f, 12, 0x81, 0, 0, 7) }

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

// security is a packet of one pair of addresses, with its security parameters (SPI) at an offset behind the IP header.
func security(protocol byte, at, spi int) []byte {
	f := frame(0, 1)
	f[14+9] = protocol
	binary.BigEndian.PutUint32(f[34+at:], uint32(spi+1))
	return f
}

// inGRE wraps a packet with a key, as tunnels do (RFC 2890).
func inGRE(packet []byte, protocol uint16) []byte {
	f := frame(0, 1)
	f[14+9] = unix.IPPROTO_GRE
	gre := make([]byte, 8)
	gre[0] = 0x20
	binary.BigEndian.PutUint16(gre[2:], protocol)
	return slices.Concat(f[:34], gre, packet)
}
