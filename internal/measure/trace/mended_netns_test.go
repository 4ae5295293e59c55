//go:build netns

package trace

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// TestMendedFaults: a fault of real packets is found and named first, and where its cause is gone nothing is said any
// more.
func TestMendedFaults(t *testing.T) {
	cpus := allowed(t)
	if len(cpus) < 2 {
		t.Skip("needs two CPUs: who sends by which queue is told by CPU")
	}
	const rounds = 10_000
	// each sends rounds frames of one flow by the tap's queue and from the CPU that are told for them, again every
	// hundred frames.
	each := func(s *scene, tap []int, at func(i int) (queue, cpu int)) {
		restore := pin(t)
		defer restore()
		for i := range rounds {
			queue, cpu := at(i)
			if i%100 == 0 {
				pinTo(t, cpu)
			}
			s.send(tap[queue], frame(1, 0))
		}
		s.settle()
	}
	for _, c := range []struct {
		name   string
		tunnel int
		queues int
		host   *facts.Host
		ready  func(s *scene)
		run    func(s *scene, tap []int, mended bool)
		first  string
	}{
		{"a flow that the guest sends by two queues", 0, 4, nil, func(*scene) {},
			func(s *scene, tap []int, mended bool) {
				each(s, tap, func(i int) (int, int) {
					if mended {
						return 1, 0
					}
					return 1 + i%2, 0
				})
			}, "flapping tap0 rx"},
		{"a sender that changes CPUs", 0, 1, nil,
			func(s *scene) { s.xps(setting.CPUs(cpus[0]), setting.CPUs(cpus[1])) },
			func(s *scene, tap []int, mended bool) {
				each(s, tap, func(i int) (int, int) {
					if mended {
						return 0, 1
					}
					return 0, i / 100
				})
			}, "flapping nic0 tx"},
		{"XPS rewritten in flight", 0, 1, nil, func(*scene) {}, func(s *scene, tap []int, mended bool) {
			each(s, tap, func(i int) (int, int) {
				if i%100 == 0 && (!mended || i == 0) {
					sets := make([]setting.CPUSet, 2)
					sets[i/100%2] = setting.CPUs(cpus...)
					s.xps(sets...)
				}
				return 0, 0
			})
		}, "flapping nic0 tx"},
		{"RPS to another node", 1, 1, nodes(cpus[:2]), func(*scene) {}, func(s *scene, _ []int, mended bool) {
			set := setting.CPUs(cpus[1])
			if mended {
				set = nil
			}
			s.rps("vx0", set)
			s.fromWire(rounds)
		}, "remote vx0 rx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.tunnel)
			tap := s.tap("tap0", c.queues)
			c.ready(s)
			for _, mended := range []bool{false, true, false, true} {
				faults := queuepath.Faults(s.watching(Config{EveryPacket: true, Host: c.host},
					func() { c.run(s, tap, mended) }))
				found := ""
				if len(faults) > 0 {
					found = faults[0].Name()
				}
				if want := map[bool]string{false: c.first}[mended]; found != want {
					t.Errorf("mended %v: found %q first, expected %q: %+v", mended, found, want, faults)
				}
			}
		})
	}
}

// nodes is a machine each of whose CPUs is a separate node.
func nodes(cpus []int) *facts.Host {
	h := &facts.Host{}
	for node, cpu := range cpus {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: cpu, Online: true, Node: node})
	}
	return h
}

// rps sets which CPUs go on with what a device hands over.
func (s *scene) rps(device string, set setting.CPUSet) {
	s.t.Helper()
	s.inHost(func() error {
		// mounted for reading; this thread's own
		if err := unix.Mount("", "/sys", "", unix.MS_REMOUNT, ""); err != nil {
			return err
		}
		mask := "0"
		if len(set) > 0 {
			mask = set.Mask()
		}
		return os.WriteFile(fmt.Sprintf("/sys/class/net/%s/queues/rx-0/rps_cpus", device), []byte(mask), 0)
	})
}

// fromWire sends frames in VXLAN from the wire to the host, from the first CPU; the bridge hands them to its taps.
func (s *scene) fromWire(frames int) {
	s.t.Helper()
	restore := pin(s.t)
	defer restore()
	pinTo(s.t, 0)
	peer, err := s.wire.LinkByName("wire0")
	s.must(err)
	var out int
	n, err := openNamespace(s.host[:len(s.host)-1] + "w")
	s.must(err)
	s.must(n.do(func() (err error) {
		out, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	defer unix.Close(out)
	for i := range frames {
		inner := frame(i%16, 3)
		copy(inner, net.HardwareAddr{2, 0, 0, 0, 9, 9}) // nobody: the bridge sends it to all ports
		s.must(unix.Sendto(out, s.encapsulated(inner), 0, &unix.SockaddrLinklayer{Ifindex: peer.Attrs().Index,
			Halen: 6}))
	}
}

// encapsulated puts a frame into VXLAN as the other end of the tunnel does.
func (s *scene) encapsulated(inner []byte) []byte {
	f := make([]byte, outer, outer+len(inner))
	copy(f, s.nic.Attrs().HardwareAddr)
	copy(f[6:], remote)
	f[12] = 8
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(outer-14+len(inner)))
	copy(ip[12:], net.IPv4(192, 0, 2, 2).To4())
	copy(ip[16:], net.IPv4(192, 0, 2, 1).To4())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp, 50000)
	binary.BigEndian.PutUint16(udp[2:], 4789)
	binary.BigEndian.PutUint16(udp[4:], uint16(16+len(inner)))
	udp[8], udp[14] = 8, 7 // RFC 7348: the network's number is there, and it is 7
	return append(f, inner...)
}
