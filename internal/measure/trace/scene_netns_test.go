//go:build netns

package trace

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
)

// scene is a host in a network namespace: taps of guests that the test itself plays, a bridge, a veth as NIC whose
// other end, in its own namespace, counts what arrives on each queue, and between bridge and NIC a VXLAN device,
// or nothing.
type scene struct {
	t        testing.TB
	host     string // name of the namespace
	on       *netlink.Handle
	wire     *netlink.Handle
	nic      netlink.Link
	counters *capture
	tunnel   bool
	vnet     bool // taps of frames with a header that says how they are cut (struct virtio_net_hdr)
	written  uint64
}

const (
	wireQueues = 4
	outer      = 14 + 20 + 8 + 8 // headers of VXLAN over IPv4
	tagOffset  = 14 + 20 + 8     // of the first byte behind the UDP header
)

// remote is whom all guests send to, beyond the NIC.
var remote = net.HardwareAddr{2, 0, 0, 0, 1, 1}

func newScene(t testing.TB, tunnelQueues int) *scene {
	t.Helper()
	base := fmt.Sprintf("qp%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	s := &scene{t: t, host: base + "h", tunnel: tunnelQueues > 0}
	s.on = s.namespace(base + "h")
	s.wire = s.namespace(base + "w")
	w, err := netns.GetFromName(base + "w")
	s.must(err)
	defer w.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "nic0", wireQueues, wireQueues
	s.must(s.on.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "wire0", PeerNamespace: netlink.NsFd(int(w)),
		PeerNumTxQueues: wireQueues, PeerNumRxQueues: wireQueues}))
	s.nic = s.up(s.on, "nic0")
	peer := s.up(s.wire, "wire0")
	attrs = netlink.NewLinkAttrs()
	attrs.Name = "br0"
	s.must(s.on.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}))
	bridge := s.up(s.on, "br0")
	uplink := s.nic
	if s.tunnel {
		address, err := netlink.ParseAddr("192.0.2.1/24")
		s.must(err)
		s.must(s.on.AddrAdd(s.nic, address))
		far := net.IPv4(192, 0, 2, 2)
		s.must(s.on.NeighAdd(&netlink.Neigh{LinkIndex: s.nic.Attrs().Index, IP: far,
			HardwareAddr: peer.Attrs().HardwareAddr, State: netlink.NUD_PERMANENT}))
		attrs = netlink.NewLinkAttrs()
		attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "vx0", tunnelQueues, tunnelQueues
		s.must(s.on.LinkAdd(&netlink.Vxlan{LinkAttrs: attrs, VxlanId: 7, Group: far, Port: 4789, Learning: false}))
		uplink = s.up(s.on, "vx0")
	}
	s.must(s.on.LinkSetMaster(uplink, bridge))
	s.must(s.on.NeighSet(&netlink.Neigh{Family: unix.AF_BRIDGE, LinkIndex: uplink.Attrs().Index, HardwareAddr: remote,
		State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER}))
	s.forwards(uplink.Attrs().Name)
	s.counters = newCapture(t, base+"w", peer.Attrs().Index, s.tagAt())
	return s
}

// tagAt is where a frame has its tag when it comes to the wire.
func (s *scene) tagAt() int {
	if s.tunnel {
		return outer + tagOffset
	}
	return tagOffset
}

func (s *scene) must(err error) {
	s.t.Helper()
	must.Do(s.t, err)
}

// namespace makes one in which nothing but the test's own frames is sent.
func (s *scene) namespace(name string) *netlink.Handle {
	s.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		h, err := netns.NewNamed(name)
		if err == nil {
			h.Close()
			for _, which := range []string{"all", "default"} {
				// absent without IPv6
				_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/disable_ipv6", []byte("1"), 0)
			}
		}
		done <- err
	}()
	s.must(<-done)
	s.t.Cleanup(func() {
		must.Succeed(s.t, netns.DeleteNamed(name), "remove namespace %s", name)
	})
	h, err := netns.GetFromName(name)
	s.must(err)
	defer h.Close()
	on, err := netlink.NewHandleAt(h)
	s.must(err)
	s.t.Cleanup(on.Close)
	return on
}

func (s *scene) up(on *netlink.Handle, name string) netlink.Link {
	s.t.Helper()
	l, err := on.LinkByName(name)
	s.must(err)
	s.must(on.LinkSetUp(l))
	return l
}

// inHost calls f on a thread in the host's namespace.
func (s *scene) inHost(f func() error) {
	s.t.Helper()
	n, err := openNamespace(s.host)
	s.must(err)
	s.must(n.do(f))
}

// tap makes a tap with so many queues, as a guest's QEMU would, and makes it a port of the bridge. What is written to a
// file comes in on the queue of its number, and what the host sends to that queue is read from it.
func (s *scene) tap(name string, queues int) []int {
	s.t.Helper()
	var files []int
	s.inHost(func() error {
		for range queues {
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			files = append(files, fd)
			request, err := unix.NewIfreq(name)
			if err != nil {
				return err
			}
			flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
			if s.vnet {
				flags |= unix.IFF_VNET_HDR
			}
			if queues > 1 {
				flags |= unix.IFF_MULTI_QUEUE
			}
			request.SetUint16(flags)
			if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
				return fmt.Errorf("tap %s: %w", name, err)
			}
		}
		return nil
	})
	s.t.Cleanup(func() {
		for _, fd := range files {
			unix.Close(fd)
		}
	})
	l := s.up(s.on, name)
	bridge, err := s.on.LinkByName("br0")
	s.must(err)
	s.must(s.on.LinkSetMaster(l, bridge))
	s.forwards(name)
	return files
}

// forwards waits until a port of the bridge forwards: it begins to when its carrier has been noticed.
func (s *scene) forwards(port string) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		var state string
		s.inHost(func() error {
			text, err := os.ReadFile("/sys/class/net/" + port + "/brport/state")
			state = strings.TrimSpace(string(text))
			return err
		})
		if state == "3" { // BR_STATE_FORWARDING, include/uapi/linux/if_bridge.h
			return
		}
		must.Need(s.t, !time.Now().After(deadline), "port %s of the bridge is in state %s, expected 3", port, state)
	}
}

// frame is a UDP packet of 60 bytes: a flow, and a tag that counters on the wire tell frames apart by.
func frame(flow int, tag byte) []byte {
	f := make([]byte, 60)
	copy(f, remote)
	copy(f[6:], net.HardwareAddr{2, 0, 0, 0, 0, tag})
	f[12] = 8
	ip := f[14:]
	ip[0], ip[3], ip[8], ip[9] = 0x45, 46, 64, unix.IPPROTO_UDP
	copy(ip[12:], net.IPv4(198, 18, 0, tag).To4())
	copy(ip[16:], net.IPv4(198, 19, 0, 1).To4())
	var sum uint32
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	udp := ip[20:]
	binary.BigEndian.PutUint16(udp, uint16(10000+flow))
	binary.BigEndian.PutUint16(udp[2:], 9)
	binary.BigEndian.PutUint16(udp[4:], 26)
	udp[8], udp[9] = tag, mark
	return f
}

// send writes a frame to a queue of a tap. Now and then it waits until all that was written has come to the wire, so
// that no ring on the way overflows.
func (s *scene) send(fd int, f []byte) {
	s.t.Helper()
	if _, err := unix.Write(fd, f); err != nil {
		s.t.Fatalf("write to the tap: %v", err)
	}
	if s.written++; s.written%100 == 0 {
		s.settle()
	}
}

func (s *scene) settle() {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); s.counters.total(s.t) < s.written; {
		if time.Now().After(deadline) {
			s.t.Fatalf("%d of %d frames came to the wire", s.counters.total(s.t), s.written)
		}
		runtime.Gosched()
	}
}

// watching watches the host's namespace while f runs.
func (s *scene) watching(c Config, f func()) *queuepath.Observation {
	s.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready := make(chan struct{})
	done := make(chan error, 1)
	var o *queuepath.Observation
	c.Netns, c.For = s.host, time.Hour // until f has ended
	c.Progress = func(time.Duration) {
		select {
		case <-ready:
		default:
			close(ready)
		}
	}
	go func() {
		var err error
		o, err = Watch(ctx, c)
		done <- err
	}()
	select {
	case <-ready:
	case err := <-done:
		s.t.Fatalf("watching ended before it began: %v", err)
	}
	f()
	stop()
	s.must(<-done)
	return o
}
