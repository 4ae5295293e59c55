//go:build netns

package main

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/outcome"
)

// TestSteerManyFlows: 2,000 flows over a steered tunnel are healthy, although dozens share their outer source port with
// a flow on another queue, or all their outer addresses. One more flow that two queues really send in turns is found,
// in front of the tunnel and behind it.
func TestSteerManyFlows(t *testing.T) {
	for kind := range tunnels {
		t.Run(kind, func(t *testing.T) { testSteerManyFlows(t, kind) })
	}
}

func testSteerManyFlows(t *testing.T, kind string) {
	if !inHost(t) {
		return
	}
	s := newSteered(t, kind)
	seen := make(chan map[uint16]int, 1)
	go func() { seen <- outerPorts(t, 3*time.Second) }()
	s.sendFlows(2000, false)
	s.mpps(outcome.CodeChanges, "path", "--steer", "--for", s.during("2s", "5s"), "--detailed-exit-code")
	for _, f := range s.watch().Faults {
		t.Errorf("2,000 flows: %s: %s", f.Name(), f.Evidence)
	}
	ports := <-seen
	shared := 0
	for _, queues := range ports {
		if queues > 1 {
			shared++
		}
	}
	t.Logf("%d outer ports, %d are shared by flows of several queues", len(ports), shared)
	if len(ports) > 1 && shared < 20 {
		t.Errorf("%d outer ports are shared by flows of several queues: too few to prove anything", shared)
	}
	s.end()

	s.stop = make(chan struct{})
	s.sendFlows(2000, true)
	faults := s.watch().Faults
	s.end()
	for _, side := range []string{"tap0 rx", "nic0 tx", "far0 rx"} {
		if !slices.ContainsFunc(faults, func(f queuepath.Fault) bool {
			return f.Kind == queuepath.Flapping &&
				f.Object == side
		}) {
			t.Errorf("one flow on two queues in turns: no flapping found at %s in %+v", side, faults)
		}
	}
}

// sendFlows sends so many flows, each on one queue of a guest, until end, and with roaming one more on two queues of
// the first in turns.
func (s *steered) sendFlows(flows int, roaming bool) {
	frame := make([]byte, 60)
	copy(frame, []byte{0x02, 0, 0, 0, 0, 0x77, 0x52, 0x54, 0, 0, 0, 0, 0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0,
		0, 10, 8, 0, 1, 10, 8, 0, 2})
	write := func(guest, queue, flow int) {
		frame[11], frame[29] = byte(guest+1), byte(10+guest)
		binary.BigEndian.PutUint16(frame[34:], uint16(10000+flow))
		binary.BigEndian.PutUint16(frame[38:], 26)
		binary.BigEndian.PutUint16(frame[24:], headerSum(frame[14:34]))
		out := frame
		if outer := headers[s.kind]; outer != nil {
			binary.BigEndian.PutUint16(outer[10:], headerSum(outer[:20]))
			out = slices.Concat(frame[:14], outer, frame)
		}
		if _, err := s.taps[guest][queue].Write(out); err == nil {
			s.sent.Add(1)
		}
	}
	s.done.Go(func() {
		for turn := 0; ; turn++ {
			select {
			case <-s.stop:
				return
			case <-time.After(500 * time.Microsecond):
			}
			for i := range 16 {
				flow := (16*turn + i) % flows
				write(flow%2, flow/2%4, flow)
			}
			if roaming {
				write(0, turn%2, flows)
			}
		}
	})
}

// outerPorts are the source ports of tunnel frames that arrive at far0 within a time, with the number of guests' queues
// whose flows have each. A tunnel without UDP has none.
func outerPorts(t *testing.T, during time.Duration) map[uint16]int {
	device, err := net.InterfaceByName("far0")
	if err != nil {
		t.Error(err)
		return nil
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer unix.Close(fd)
	const allProtocols = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: device.Index}); err != nil {
		t.Error(err)
		return nil
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	// bytes: the headers before the tunnel's own, and a guest's frame, which is the last
	const outer, frame = 14 + 20 + 8, 60
	queues := map[uint16]map[int]bool{}
	b := make([]byte, 300)
	for began := time.Now(); time.Since(began) < during; {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil || n < outer+frame || b[23] != unix.IPPROTO_UDP {
			continue
		}
		port := binary.BigEndian.Uint16(b[34:])
		if queues[port] == nil {
			queues[port] = map[int]bool{}
		}
		queues[port][int(binary.BigEndian.Uint16(b[n-frame+34:])-10000)%8] = true
	}
	ports := map[uint16]int{}
	for port, q := range queues {
		ports[port] = len(q)
	}
	return ports
}
