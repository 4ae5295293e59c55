//go:build netns

package main

import (
	"encoding/binary"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/queuepath"
)

// TestSteerManyFlows: 2,000 flows over a steered tunnel are healthy, although dozens share their outer source port with a flow on
// another queue. One more flow that two queues really send in turns is found, in front of the tunnel and behind it.
func TestSteerManyFlows(t *testing.T) {
	if !inHost(t) {
		return
	}
	s := newSteered(t)
	seen := make(chan int, 1)
	go func() { seen <- sharedPorts(t, 3*time.Second) }()
	s.sendFlows(2000, false)
	s.mpps(exitChanges, "path", "--steer", "--for", "500ms", "--detailed-exit-code")
	for _, f := range s.watch().Faults {
		t.Errorf("2,000 flows: %s: %s", f.Name(), f.Evidence)
	}
	shared := <-seen
	t.Logf("%d outer ports are shared by flows of several queues", shared)
	if shared < 20 {
		t.Errorf("%d outer ports are shared by flows of several queues: too few to prove anything", shared)
	}
	s.end()

	s.stop = make(chan struct{})
	s.sendFlows(2000, true)
	faults := s.watch().Faults
	s.end()
	for _, side := range []string{"tap0 rx", "nic0 tx", "far0 rx"} {
		if !slices.ContainsFunc(faults, func(f queuepath.Fault) bool { return f.Kind == queuepath.Flapping && f.Object == side }) {
			t.Errorf("one flow on two queues in turns: no flapping found at %s in %+v", side, faults)
		}
	}
}

// sendFlows sends so many flows, each on one queue of a guest, until end, and with roaming one more on two queues of the first in turns.
func (s *steered) sendFlows(flows int, roaming bool) {
	frame := make([]byte, 60)
	copy(frame, []byte{0x02, 0, 0, 0, 0, 0x77, 0x52, 0x54, 0, 0, 0, 0, 0x08, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 8, 0, 1, 10, 8, 0, 2})
	write := func(guest, queue, flow int) {
		frame[11], frame[29] = byte(guest+1), byte(10+guest)
		binary.BigEndian.PutUint16(frame[34:], uint16(10000+flow))
		binary.BigEndian.PutUint16(frame[38:], 26)
		binary.BigEndian.PutUint16(frame[24:], headerSum(frame[14:34]))
		if _, err := s.taps[guest][queue].Write(frame); err == nil {
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

// sharedPorts is how many outer source ports flows of several queues of guests had in common for a while, as seen on far0.
func sharedPorts(t *testing.T, during time.Duration) int {
	device, err := net.InterfaceByName("far0")
	if err != nil {
		t.Error(err)
		return 0
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer unix.Close(fd)
	const allProtocols = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: device.Index}); err != nil {
		t.Error(err)
		return 0
	}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	const inner = 14 + 20 + 8 + 8 + 14 + 20 // of the inner ports
	queues := map[uint16]map[int]bool{}
	b := make([]byte, 200)
	for began := time.Now(); time.Since(began) < during; {
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil || n < inner+4 || binary.BigEndian.Uint16(b[36:]) != 4789 {
			continue
		}
		port := binary.BigEndian.Uint16(b[34:])
		if queues[port] == nil {
			queues[port] = map[int]bool{}
		}
		queues[port][int(binary.BigEndian.Uint16(b[inner:])-10000)%8] = true
	}
	shared := 0
	for _, q := range queues {
		if len(q) > 1 {
			shared++
		}
	}
	return shared
}
