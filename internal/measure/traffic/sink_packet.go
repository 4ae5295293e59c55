package traffic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// packetSink counts on a packet socket with a ring (TPACKET_V3, since 3.2). The frames also go on to the stack. At high
// rates the ring overruns, which Counts reports.
type packetSink struct {
	conf     SinkConfig
	fd       int
	ring     []byte
	warnings []string
	closing  atomic.Bool
	done     chan error

	mu      sync.Mutex // guards what follows
	streams []tracker
	foreign uint64
	stamped uint64
	overrun uint64
	hist    Histogram
	failed  error
}

const (
	ringBlock  = 1 << 20
	ringBlocks = 16
	ringRetire = 10 // ms after which a block is delivered although not full
	snapBytes  = 96 // enough for every header of a test frame
)

func newPacketSink(c SinkConfig, dev Device, why []string) (_ *packetSink, err error) {
	s := &packetSink{conf: c, fd: -1, streams: make([]tracker, c.Streams), warnings: why, done: make(chan error, 1)}
	if c.DropOther {
		s.warnings = append(s.warnings, "a packet socket cannot drop: frames also go to the stack")
	}
	defer func() {
		if err != nil && s.fd >= 0 {
			unix.Close(s.fd)
		}
	}()
	err = dev.Do(func() error {
		// Protocol 0 until the filter is in place.
		if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("packet socket: %w", err)
		}
		if err := s.setUp(); err != nil {
			return err
		}
		err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: swap16(unix.ETH_P_ALL), Ifindex: dev.Index})
		if err != nil {
			return fmt.Errorf("packet socket on %s: %w", dev.Endpoint, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	go func() { s.done <- s.read() }()
	return s, nil
}

// setUp sets the filter and the ring.
func (s *packetSink) setUp() error {
	filter := matchFilter(s.conf.Pktgen)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		return fmt.Errorf("packet socket filter: %w", err)
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("packet ring version 3: %w", err)
	}
	req := unix.TpacketReq3{
		Block_size: ringBlock, Block_nr: ringBlocks, Frame_size: 2048,
		Frame_nr: ringBlock * ringBlocks / 2048, Retire_blk_tov: ringRetire,
	}
	if err := unix.SetsockoptTpacketReq3(s.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return fmt.Errorf("packet ring of %d MiB: %w", ringBlock*ringBlocks>>20, err)
	}
	var err error
	s.ring, err = unix.Mmap(s.fd, 0, ringBlock*ringBlocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the packet ring: %w", err)
	}
	return nil
}

// matchFilter accepts incoming test frames, tagged or not, and pktgen's, truncated to snapBytes. It is classic BPF,
// which works on every kernel.
func matchFilter(pktgen bool) []unix.SockFilter {
	alternative := uint32(magic)
	if pktgen {
		alternative = pktgenMagic
	}
	const (
		ldh     = unix.BPF_LD | unix.BPF_H | unix.BPF_ABS
		ldw     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ldb     = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
		jeq     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ret     = unix.BPF_RET | unix.BPF_K
		pktType = 0xfffff000 + 4 // SKF_AD_OFF + SKF_AD_PKTTYPE
	)
	body := func(off uint32, last uint8) []unix.SockFilter { // last: distance to the drop at the end
		return []unix.SockFilter{
			{Code: ldh, K: off},
			{Code: jeq, K: 0x0800, Jf: last - 1},
			{Code: ldb, K: off + atIP},
			{Code: jeq, K: 0x45, Jf: last - 3},
			{Code: ldb, K: off + atProto},
			{Code: jeq, K: unix.IPPROTO_UDP, Jf: last - 5},
			{Code: ldw, K: off + atMagic},
			{Code: jeq, K: magic, Jt: 1},
			{Code: jeq, K: alternative, Jf: last - 8},
			{Code: ret, K: snapBytes},
		}
	}
	f := []unix.SockFilter{
		{Code: ldw, K: pktType},
		{Code: jeq, K: unix.PACKET_OUTGOING, Jt: 23},
		{Code: ldh, K: etherTypeAt},
		{Code: jeq, K: 0x8100, Jt: 11},
		{Code: jeq, K: 0x88a8, Jt: 10},
	}
	f = append(f, body(etherTypeAt, 19)...)
	f = append(f, body(etherTypeAt+vlanBytes, 9)...)
	return append(f, unix.SockFilter{Code: ret, K: 0})
}

// read takes blocks off the ring until the sink is closed.
func (s *packetSink) read() error {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLERR}}
	for n := 0; !s.closing.Load(); {
		block := s.ring[n*ringBlock:][:ringBlock]
		// struct tpacket_block_desc: version, offset, then tpacket_hdr_v1.
		h := (*unix.TpacketHdrV1)(unsafe.Pointer(&block[8]))
		if atomic.LoadUint32(&h.Block_status)&unix.TP_STATUS_USER == 0 {
			if _, err := unix.Poll(fds, 50); err != nil && !errors.Is(err, unix.EINTR) {
				return s.fail(fmt.Errorf("wait for the packet ring: %w", err))
			}
			if fds[0].Revents&unix.POLLERR != 0 {
				// The interface went down; SO_ERROR clears the condition.
				if v, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && v != 0 &&
					unix.Errno(v) != unix.ENETDOWN {
					return s.fail(fmt.Errorf("packet ring: %w", unix.Errno(v)))
				}
			}
			continue
		}
		s.take(block, h)
		atomic.StoreUint32(&h.Block_status, 0)
		n = (n + 1) % ringBlocks
	}
	return nil
}

func (s *packetSink) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
	return err
}

// take counts the frames of one block.
func (s *packetSink) take(block []byte, h *unix.TpacketHdrV1) {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset := realtimeOffset()
	at := h.Offset_to_first_pkt
	for range h.Num_pkts {
		p := (*unix.Tpacket3Hdr)(unsafe.Pointer(&block[at]))
		s.frame(block[int(at)+int(p.Mac):][:p.Snaplen], p, offset)
		if p.Next_offset == 0 {
			break
		}
		at += p.Next_offset
	}
}

func (s *packetSink) frame(b []byte, p *unix.Tpacket3Hdr, offset int64) {
	t, ok := parse(b)
	i := int(t.stream) - int(s.conf.Stream)
	ofPktgen := false
	if !ok {
		if t, ofPktgen = parsePktgen(b); !ofPktgen {
			return // impossible: the filter checked the same bytes
		}
		i = int(t.stream)
	}
	if i < 0 || i >= len(s.streams) {
		s.foreign++
		return
	}
	if ofPktgen && s.conf.Unnumbered {
		t.seq = s.streams[i].next
	}
	size := int(p.Len) + fcsBytes
	if p.Status&unix.TP_STATUS_VLAN_VALID != 0 {
		size += vlanBytes // the kernel stripped the tag
	}
	now := int64(p.Sec)*1e9 + int64(p.Nsec) - offset
	s.streams[i].arrive(uint64(now))
	s.streams[i].record(t.seq, size)
	if s.conf.Latency && t.stamp != 0 {
		s.stamped++
		s.hist.Record(delay(uint32(now) - t.stamp))
	}
}

// realtimeOffset returns CLOCK_REALTIME - CLOCK_MONOTONIC in ns: the ring uses the former, timestamps the latter. A
// step of the clock between the readings would spoil the delays of one block. Of several attempts it takes the
// shortest: if the thread lost its CPU in between, the offset is wrong by half of that time.
func realtimeOffset() (offset int64) {
	shortest := int64(math.MaxInt64)
	for range 8 {
		var before, real, after unix.Timespec
		for _, c := range []struct {
			clock int32
			ts    *unix.Timespec
		}{{unix.CLOCK_MONOTONIC, &before}, {unix.CLOCK_REALTIME, &real}, {unix.CLOCK_MONOTONIC, &after}} {
			if unix.ClockGettime(c.clock, c.ts) != nil {
				return 0 // both clocks exist on every kernel since 2.6
			}
		}
		took := after.Nano() - before.Nano()
		if took < shortest {
			shortest, offset = took, real.Nano()-before.Nano()-took/2
		}
		if took < 10_000 {
			break
		}
	}
	return offset
}

func (s *packetSink) Method() Method { return AFPacket }

func (s *packetSink) Counts() (Counts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return Counts{}, errClosed
	}
	if s.failed != nil {
		return Counts{}, s.failed
	}
	st, err := unix.GetsockoptTpacketStatsV3(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return Counts{}, fmt.Errorf("packet ring statistics: %w", err)
	}
	s.overrun += uint64(st.Drops) // reading resets them
	c := Counts{Method: AFPacket, Exact: true, Foreign: s.foreign, Stamped: s.stamped, Overrun: s.overrun,
		Warnings: s.warnings}
	for i := range s.streams {
		c.add(s.streams[i].counts(s.conf.Stream + uint16(i)))
	}
	return c, nil
}

func (s *packetSink) Histogram() (*Histogram, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hist
	return &h, nil
}

func (s *packetSink) Reset() error {
	if _, err := s.Counts(); err != nil { // resets the ring's own counters
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.streams)
	s.hist = Histogram{}
	s.foreign, s.stamped, s.overrun = 0, 0, 0
	return nil
}

func (s *packetSink) Close() error {
	if s.closing.Swap(true) {
		return nil
	}
	err := <-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, unix.Munmap(s.ring), unix.Close(s.fd))
}

// Settle waits for late frames until the count of a sink has not changed for quiet, or limit is over. A packet sink
// needs more than 10 ms of quiet.
func Settle(ctx context.Context, s Sink, quiet, limit time.Duration) (Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	last, err := s.Counts()
	for err == nil {
		select {
		case <-ctx.Done():
			return last, nil
		case <-time.After(quiet):
		}
		var c Counts
		if c, err = s.Counts(); err == nil && c.Received == last.Received {
			return c, nil
		}
		last = c
	}
	return last, err
}
