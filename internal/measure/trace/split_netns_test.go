//go:build netns

package trace

import (
	"encoding/binary"
	"testing"

	"mpps/internal/advise/queuepath"
)

// TestCutOnTheWay: guests hand over frames that are cut into several packets, and the NIC cannot cut them, so that the
// kernel does between the last device that sees the whole and the NIC: each piece still has its way, also behind a
// tunnel, and the packets of the whole are counted as many.
func TestCutOnTheWay(t *testing.T) {
	for name, tunnelQueues := range map[string]int{"bridge": 0, "vxlan": 4} {
		t.Run(name, func(t *testing.T) {
			const frames, pieces = 2_000, 8
			s := newScene(t, tunnelQueues)
			s.vnet = true
			// larger ones the kernel cuts (net/core/dev.c, gso_features_check)
			s.must(s.on.LinkSetGSOMaxSize(s.nic, 500))
			tap := s.tap("tap0", 2)
			var written [2]uint64
			o := s.watching(Config{EveryPacket: true}, func() {
				for i := range frames {
					queue := i / 3 % 2
					s.written += pieces - 1
					s.send(tap[queue], large(i%5, byte(queue), pieces))
					written[queue]++
				}
				s.settle()
			})
			if o.Lost.Joins > 10 {
				t.Errorf("the way of %d frames was forgotten", o.Lost.Joins)
			}
			for from := range written {
				origin := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: from}
				var whole queuepath.Row
				for _, r := range o.Rows {
					if r.First() && r.To == origin {
						whole.Frames += r.Frames
						whole.Packets += r.Packets
					}
				}
				if whole.Frames != written[from] || whole.Packets != pieces*written[from] {
					t.Errorf("%v: %d frames of %d packets, expected %d of %d", origin, whole.Frames, whole.Packets,
						written[from], pieces*written[from])
				}
				for to := range wireQueues {
					at := queuepath.Queue{Device: "nic0", Direction: queuepath.Tx, Queue: to}
					claimed := frameSum(o, func(r *queuepath.Row) bool { return r.Origin == origin && r.To == at })
					if counted := s.counters.at(t, to, from); claimed != counted {
						t.Errorf("%v to %v: %d frames claimed, %d counted on the wire", origin, at, claimed, counted)
					}
				}
			}
		})
	}
}

// large is a frame of pieces UDP packets that each begin with the tag, behind its header for the tap.
func large(flow int, tag byte, pieces int) []byte {
	const (
		header, piece   = 42, 100
		needsChecksum   = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM
		cutUDP          = 5 // VIRTIO_NET_HDR_GSO_UDP_L4
		checksumOf      = 34
		checksumAt      = 6
		hdrBytes        = 10
		ipHeader, udpAt = 14, 34
	)
	f := make([]byte, hdrBytes+header+pieces*piece)
	f[0], f[1] = needsChecksum, cutUDP
	binary.NativeEndian.PutUint16(f[2:], header)
	binary.NativeEndian.PutUint16(f[4:], piece)
	binary.NativeEndian.PutUint16(f[6:], checksumOf)
	binary.NativeEndian.PutUint16(f[8:], checksumAt)
	packet := f[hdrBytes:]
	copy(packet, frame(flow, tag)[:header])
	binary.BigEndian.PutUint16(packet[ipHeader+2:], uint16(len(packet)-ipHeader))
	packet[ipHeader+10], packet[ipHeader+11] = 0, 0
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(packet[ipHeader+i:]))
	}
	binary.BigEndian.PutUint16(packet[ipHeader+10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(packet[udpAt+4:], uint16(len(packet)-udpAt))
	for i := range pieces {
		packet[header+i*piece], packet[header+i*piece+1] = tag, mark
		packet[header+i*piece+4] = 0xf0 // what would be a length in TCP
	}
	return f
}
