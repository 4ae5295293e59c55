package traffic

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
)

// Frame sizes in bytes, including the 4 byte FCS as in RFC 2544 section 9. A VLAN tag adds 4 to both limits.
const (
	MinFrame = 64
	MaxFrame = 1518

	fcsBytes  = 4
	vlanBytes = 4
	ethBytes  = 14
	ipBytes   = 20
	udpBytes  = 8

	// Payload: magic 4, stream 2, sequence 8, timestamp 4: see bpf/frame.h.
	payloadHeader = 18
	magic         = 0x6d707073
)

// MaxSourceMACs is the most source MAC addresses: tables of bridges and switches are to hold them.
const MaxSourceMACs = 65536

// Offsets from the EtherType of the IPv4 packet, as in bpf/frame.h.
const (
	etherTypeAt = 12
	atIP        = 2
	atProto     = 11
	atIPSum     = 12
	atSrc       = 14
	atDst       = 18
	atPorts     = 22
	atUDPLen    = 26
	atUDPSum    = 28
	atMagic     = 30
	atStream    = 34
	atSeq       = 36
	atStamp     = 44
	atDstPort   = 24
	atPktgenSeq = 34
	l3Bytes     = 48
)

// AddrRange is Count consecutive IPv4 addresses.
type AddrRange struct {
	First netip.Addr `json:"first"`
	Count uint32     `json:"count"` // 0 means 1
}

// DefaultDestination is where test frames go unless their Frame says otherwise (RFC 2544 appendix C.2.2).
var DefaultDestination = netip.AddrFrom4([4]byte{198, 19, 0, 1})

// Last returns the last address; false unless all of them are IPv4.
func (r AddrRange) Last() (netip.Addr, bool) {
	if !r.First.Is4() {
		return netip.Addr{}, false
	}
	last := uint64(addr(r.First)) + uint64(max(r.Count, 1)) - 1
	return addrFrom(uint32(last)), last <= math.MaxUint32
}

// Contains reports whether an address is in the range.
func (r AddrRange) Contains(a netip.Addr) bool {
	last, ok := r.Last()
	return ok && r.First.Compare(a) <= 0 && a.Compare(last) <= 0
}

// PortRange is Count consecutive UDP ports.
type PortRange struct {
	First uint16 `json:"first"`
	Count uint32 `json:"count"` // 0 means 1; at most 65536 - First
}

// A Frame describes a generator's test frames: Ethernet, an optional VLAN tag, IPv4 without options and UDP.
//
// The flows are all combinations of the four ranges. The source port varies fastest.
type Frame struct {
	Size int `json:"size"` // with FCS, 0 means 64
	// sizes to cycle through, up to 64 with up to 8 different ones; Size is then the largest
	Sizes  []int            `json:"sizes,omitempty"`
	SrcMAC net.HardwareAddr `json:"src_mac,omitempty"`
	// how many source MAC addresses the frames take in turn; 0 means 1, at most MaxSourceMACs. All but SrcMAC are
	// locally administered, and count up from it in their last three bytes.
	SrcMACs     uint32           `json:"src_macs,omitempty"`
	DstMAC      net.HardwareAddr `json:"dst_mac,omitempty"`
	VLAN        uint16           `json:"vlan,omitempty"` // 1–4094, 0 for no tag
	Priority    uint8            `json:"priority,omitempty"`
	Src         AddrRange        `json:"src"` // 198.18.0.1 unless set (RFC 2544 appendix C.2.2)
	Dst         AddrRange        `json:"dst"` // 198.19.0.1 unless set
	SrcPort     PortRange        `json:"src_port"`
	DstPort     PortRange        `json:"dst_port"`
	TTL         uint8            `json:"ttl,omitempty"` // 64 unless set
	TOS         uint8            `json:"tos,omitempty"`
	UDPChecksum bool             `json:"udp_checksum,omitempty"` // otherwise sent as 0, none (RFC 768)
}

// withDefaults fills in unset fields, except the MAC addresses.
func (f Frame) withDefaults() Frame {
	if len(f.Sizes) > 0 {
		f.Size = slices.Max(f.Sizes)
	}
	if f.Size == 0 {
		f.Size = MinFrame
		if f.VLAN != 0 {
			f.Size += vlanBytes
		}
	}
	if !f.Src.First.IsValid() {
		f.Src.First = netip.AddrFrom4([4]byte{198, 18, 0, 1})
	}
	if !f.Dst.First.IsValid() {
		f.Dst.First = DefaultDestination
	}
	f.SrcPort.First, f.DstPort.First = cmp.Or(f.SrcPort.First, 49152), cmp.Or(f.DstPort.First, 9) // 9: discard
	f.Src.Count, f.Dst.Count = max(f.Src.Count, 1), max(f.Dst.Count, 1)
	f.SrcPort.Count, f.DstPort.Count = max(f.SrcPort.Count, 1), max(f.DstPort.Count, 1)
	f.TTL = cmp.Or(f.TTL, 64)
	return f
}

// ErrFrame is wrapped by every error about a Frame.
var ErrFrame = errors.New("bad test frame")

// check validates a frame whose defaults are filled in. mtu 0 means no limit.
func (f Frame) check(mtu int) error {
	lo, hi := MinFrame, MaxFrame
	if f.VLAN != 0 {
		lo, hi = lo+vlanBytes, hi+vlanBytes
	}
	if len(f.Sizes) > maxOrder {
		return fmt.Errorf("%w: %d sizes in turn, want up to %d", ErrFrame, len(f.Sizes), maxOrder)
	}
	if kinds := f.mix().kinds; len(kinds) > maxSizes {
		return fmt.Errorf("%w: %d different sizes, want up to %d", ErrFrame, len(kinds), maxSizes)
	}
	for _, size := range append([]int{f.Size}, f.Sizes...) {
		if size < lo || size > hi {
			return fmt.Errorf("%w: size %d, want %d to %d bytes with FCS", ErrFrame, size, lo, hi)
		}
	}
	switch {
	case mtu > 0 && f.Size-fcsBytes-f.l2Bytes() > mtu:
		return fmt.Errorf("%w: size %d needs an MTU of %d, the interface has %d",
			ErrFrame, f.Size, f.Size-fcsBytes-f.l2Bytes(), mtu)
	case f.VLAN > 4094:
		return fmt.Errorf("%w: VLAN %d, want 1 to 4094", ErrFrame, f.VLAN)
	case f.Priority > 7:
		return fmt.Errorf("%w: priority %d, want 0 to 7", ErrFrame, f.Priority)
	case !f.Src.First.Is4() || !f.Dst.First.Is4():
		return fmt.Errorf("%w: addresses %s and %s, want IPv4", ErrFrame, f.Src.First, f.Dst.First)
	case uint64(addr(f.Src.First))+uint64(f.Src.Count) > 1<<32 || uint64(addr(f.Dst.First))+uint64(f.Dst.Count) > 1<<32:
		return fmt.Errorf("%w: address range runs past 255.255.255.255", ErrFrame)
	case uint64(f.SrcPort.First)+uint64(f.SrcPort.Count) > 1<<16 ||
		uint64(f.DstPort.First)+uint64(f.DstPort.Count) > 1<<16:
		return fmt.Errorf("%w: port range runs past 65535", ErrFrame)
	case f.SrcMACs > MaxSourceMACs:
		return fmt.Errorf("%w: %d source MAC addresses, want up to %d", ErrFrame, f.SrcMACs, MaxSourceMACs)
	case len(f.SrcMAC) != 6 || len(f.DstMAC) != 6:
		return fmt.Errorf("%w: MAC addresses %q and %q, want 6 bytes", ErrFrame, f.SrcMAC, f.DstMAC)
	}
	return nil
}

// Flows returns the number of distinct flows.
func (f Frame) Flows() uint64 {
	f = f.withDefaults()
	return uint64(f.Src.Count) * uint64(f.Dst.Count) * uint64(f.SrcPort.Count) * uint64(f.DstPort.Count)
}

func (f Frame) l2Bytes() int {
	if f.VLAN != 0 {
		return ethBytes + vlanBytes
	}
	return ethBytes
}

func (f Frame) ipLen() uint16  { return uint16(f.Size - fcsBytes - f.l2Bytes()) }
func (f Frame) udpLen() uint16 { return f.ipLen() - ipBytes }
func (f Frame) tci() uint16    { return uint16(f.Priority)<<13 | f.VLAN }

func addr(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// addrFrom is the inverse of addr.
func addrFrom(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// flow is one flow, as offsets into the ranges.
type flow struct{ src, dst, sport, dport uint32 }

// next steps to the next flow.

func (f *Frame) next(p *flow) {
	if p.sport++; p.sport < f.SrcPort.Count {
		return
	}
	p.sport = 0
	if p.dport++; p.dport < f.DstPort.Count {
		return
	}
	p.dport = 0
	if p.dst++; p.dst < f.Dst.Count {
		return
	}
	p.dst = 0
	if p.src++; p.src < f.Src.Count {
		return
	}
	p.src = 0
}

// at returns the n-th flow.
func (f *Frame) at(n uint64) flow {
	var p flow
	p.sport, n = uint32(n%uint64(f.SrcPort.Count)), n/uint64(f.SrcPort.Count)
	p.dport, n = uint32(n%uint64(f.DstPort.Count)), n/uint64(f.DstPort.Count)
	p.dst, n = uint32(n%uint64(f.Dst.Count)), n/uint64(f.Dst.Count)
	p.src = uint32(n % uint64(f.Src.Count))
	return p
}

// template returns a frame without FCS, complete except for what put writes.
func (f Frame) template(stream uint16) []byte {
	b := make([]byte, f.Size-fcsBytes)
	copy(b, f.DstMAC)
	copy(b[6:], f.SrcMAC)
	p := b[etherTypeAt:]
	if f.VLAN != 0 {
		binary.BigEndian.PutUint16(p, 0x8100)
		binary.BigEndian.PutUint16(p[2:], f.tci())
		p = p[vlanBytes:]
	}
	binary.BigEndian.PutUint16(p, 0x0800)
	p[atIP], p[3] = 0x45, f.TOS
	binary.BigEndian.PutUint16(p[4:], f.ipLen())
	p[8], p[10], p[atProto] = 0x40, f.TTL, 17 // don't fragment
	binary.BigEndian.PutUint16(p[atUDPLen:], f.udpLen())
	binary.BigEndian.PutUint32(p[atMagic:], magic)
	binary.BigEndian.PutUint16(p[atStream:], stream)
	return b
}

// Example returns the first frame of the first stream, without FCS.
func (f Frame) Example() []byte {
	f = f.withDefaults()
	b := f.template(0)
	f.put(b, sums{ip: f.ipBase(), udp: f.udpBase(0)}, flow{}, 0, 0)
	return b
}

// ipBase returns the sum over the IPv4 header without addresses and checksum.
func (f Frame) ipBase() uint32 {
	p := f.template(0)[f.l2Bytes():]
	return sum(p[:12])
}

// udpBase returns the sum for the UDP checksum without addresses, ports, sequence number and timestamp.
func (f Frame) udpBase(stream uint16) uint32 {
	s := uint32(17) + 2*uint32(f.udpLen()) + magic>>16 + magic&0xffff + uint32(stream)
	return fold(uint64(s))
}

// put writes the varying parts of a frame that template made.
func (f *Frame) put(b []byte, base sums, p flow, seq uint64, stamp uint32) {
	if f.SrcMACs > 1 {
		f.putSource(b[6:12], uint32(seq%uint64(f.SrcMACs)))
	}
	h := b[f.l2Bytes()-2:]
	src, dst := addr(f.Src.First)+p.src, addr(f.Dst.First)+p.dst
	sport, dport := uint32(f.SrcPort.First)+p.sport, uint32(f.DstPort.First)+p.dport
	binary.BigEndian.PutUint32(h[atSrc:], src)
	binary.BigEndian.PutUint32(h[atDst:], dst)
	binary.BigEndian.PutUint16(h[atIPSum:], ^uint16(fold(uint64(base.ip)+uint64(src)+uint64(dst))))
	binary.BigEndian.PutUint32(h[atPorts:], sport<<16|dport)
	if f.UDPChecksum {
		s := fold(uint64(base.udp) + uint64(src) + uint64(dst) + uint64(sport) + uint64(dport) +
			seq>>32 + seq&0xffffffff + uint64(stamp))
		if s != 0xffff { // RFC 768: a sum of zero is sent as all ones
			s = uint32(^uint16(s))
		}
		binary.BigEndian.PutUint16(h[atUDPSum:], uint16(s))
	}
	binary.BigEndian.PutUint64(h[atSeq:], seq)
	binary.BigEndian.PutUint32(h[atStamp:], stamp)
}

// putSource writes the n-th source MAC address, whose first is SrcMAC.
func (f *Frame) putSource(b []byte, n uint32) {
	copy(b, f.SrcMAC)
	if n == 0 {
		return
	}
	b[0] |= 2 // locally administered (IEEE 802, 8.4)
	last := (uint32(f.SrcMAC[3])<<16 | uint32(f.SrcMAC[4])<<8 | uint32(f.SrcMAC[5])) + n
	b[3], b[4], b[5] = byte(last>>16), byte(last>>8), byte(last)
}

// parsePktgen parses a frame of the kernel's packet generator. Stream and sequence number are counted from 0.
func parsePktgen(b []byte) (tag, bool) {
	p, ok := matchUDP(b, pktgenMagic)
	if !ok {
		return tag{}, false
	}
	return tag{
		stream: binary.BigEndian.Uint16(p[atDstPort:]) - pktgenPort,
		seq:    uint64(binary.BigEndian.Uint32(p[atPktgenSeq:]) - 1),
	}, true
}

// matchUDP returns the frame from its inner EtherType on, if it is an UDP frame, with or without a VLAN tag, whose
// payload begins with a magic number.
func matchUDP(b []byte, magic uint32) (p []byte, ok bool) {
	if len(b) < etherTypeAt+l3Bytes {
		return nil, false
	}
	p = b[etherTypeAt:]
	if t := binary.BigEndian.Uint16(p); t == 0x8100 || t == 0x88a8 {
		p = p[vlanBytes:]
	}
	return p, len(p) >= l3Bytes && binary.BigEndian.Uint16(p) == 0x0800 && p[atIP] == 0x45 && p[atProto] == 17 &&
		binary.BigEndian.Uint32(p[atMagic:]) == magic
}

// sums are the constant parts of both checksums.
type sums struct{ ip, udp uint32 }

// fold adds carries until 16 bits are left (RFC 1071).
func fold(s uint64) uint32 {
	for s>>16 != 0 {
		s = s&0xffff + s>>16
	}
	return uint32(s)
}

// sum returns the folded one's complement sum over b.
func sum(b []byte) uint32 {
	var s uint64
	for ; len(b) >= 2; b = b[2:] {
		s += uint64(b[0])<<8 | uint64(b[1])
	}
	if len(b) == 1 {
		s += uint64(b[0]) << 8
	}
	return fold(s)
}

// tag is the payload header of a received test frame.
type tag struct {
	stream uint16
	seq    uint64
	stamp  uint32
}

// parse parses a test frame, with or without one VLAN tag.
func parse(b []byte) (tag, bool) {
	p, ok := matchUDP(b, magic)
	if !ok {
		return tag{}, false
	}
	return tag{
		stream: binary.BigEndian.Uint16(p[atStream:]),
		seq:    binary.BigEndian.Uint64(p[atSeq:]),
		stamp:  binary.BigEndian.Uint32(p[atStamp:]),
	}, true
}
