//go:build netns

package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
)

// TestOwnTrafficBeside: the host sends datagrams of its own through the same NIC while a guest's packets pass, so that
// socket buffers' addresses go from the one to the other all the time. No row may join them, and both must be counted
// to the frame.
func TestOwnTrafficBeside(t *testing.T) {
	for name, tunnelQueues := range map[string]int{"bridge": 0, "vxlan": 4} {
		t.Run(name, func(t *testing.T) {
			const rounds = 40_000
			s := newScene(t, tunnelQueues)
			tap := s.tap("tap0", 2)
			var own int
			if tunnelQueues > 0 { // the NIC has an address of its own there
				s.inHost(func() (err error) {
					own, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
					return err
				})
			} else {
				s.inHost(func() (err error) {
					own, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
					return err
				})
			}
			defer unix.Close(own)
			o := s.watching(Config{EveryPacket: true}, func() {
				for i := range rounds {
					s.send(tap[i%2], frame(i%7, byte(i%2)))
					var err error
					if tunnelQueues > 0 {
						err = unix.Sendto(own, make([]byte, 18), 0,
							&unix.SockaddrInet4{Port: 9, Addr: [4]byte{192, 0, 2, 2}})
					} else {
						err = unix.Sendto(own, frame(i%7, 5), 0, &unix.SockaddrLinklayer{Ifindex: s.nic.Attrs().Index,
							Halen: 6})
						s.written++
					}
					s.must(err)
				}
				s.settle()
			})
			guest := frameSum(o, func(r *queuepath.Row) bool {
				return r.To.Device == "nic0" && r.Origin.Device == "tap0"
			})
			host := frameSum(o, func(r *queuepath.Row) bool {
				return r.To.Device == "nic0" && r.Origin.Device == "nic0" && r.First()
			})
			others := frameSum(o, func(r *queuepath.Row) bool {
				return r.To.Device == "nic0" && r.Origin.Device != "tap0" && !(r.Origin.Device == "nic0" && r.First())
			})
			// The host's own reports of multicast groups may be among its.
			must.Hold(t, guest == rounds && host >= rounds && host <= rounds+10,
				"%d frames of the guest and %d of the host claimed, expected %d of each", guest, host, rounds)
			must.Hold(t, others <= 10, "%d frames came some other way", others)
			must.Hold(t, o.Lost.Joins <= 10, "the way of %d frames was forgotten", o.Lost.Joins)
		})
	}
}

// TestOtherNamespaces: devices of another namespace have the same index and carry packets at the same time. Nothing of
// it is counted, and the same watched there counts that alone.
func TestOtherNamespaces(t *testing.T) {
	const frames = 5_000
	s, other := newScene(t, 0), newScene(t, 0)
	tap, foreign := s.tap("tap0", 2), other.tap("tap0", 2)
	if a, b := s.nic.Attrs().Index, other.nic.Attrs().Index; a != b {
		t.Fatalf("the NICs have the indexes %d and %d: the test needs the same", a, b)
	}
	var there *queuepath.Observation
	o := s.watching(Config{EveryPacket: true}, func() {
		there = other.watching(Config{EveryPacket: true}, func() {
			for i := range frames {
				s.send(tap[0], frame(1, 0))
				if i%2 == 0 {
					other.send(foreign[1], frame(1, 1))
				}
			}
			s.settle()
			other.settle()
		})
	})
	for _, c := range []struct {
		name         string
		o            *queuepath.Observation
		queue0, want uint64
	}{{"own", o, frames, 0}, {"other", there, 0, frames / 2}} {
		for queue, want := range []uint64{c.queue0, c.want} {
			at := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: queue}
			must.Equal(t, frameSum(c.o, func(r *queuepath.Row) bool { return r.First() && r.To == at }), want,
				"%s namespace, %v: frames", c.name, at)
		}
	}
}

// TestWayBack: what comes from the wire goes to the guest's queue that the tap chooses; what is read from each is what
// is claimed.
func TestWayBack(t *testing.T) {
	const frames, batch = 50_000, 100
	s := newScene(t, 0)
	tap := s.tap("tap0", 4)
	var out int
	n, err := openNamespace(s.host[:len(s.host)-1] + "w")
	s.must(err)
	s.must(n.do(func() (err error) {
		out, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	defer unix.Close(out)
	peer, err := s.wire.LinkByName("wire0")
	s.must(err)
	got := [4]uint64{}
	drain := func() (n int) {
		buffer := make([]byte, 2048)
		for queue, fd := range tap {
			for {
				if _, err := unix.Read(fd, buffer); err != nil {
					break
				}
				if buffer[42+1] == mark {
					got[queue]++
					n++
				}
			}
		}
		return n
	}
	to := func(flow int) []byte {
		f := frame(flow, 3)
		copy(f, net.HardwareAddr{2, 0, 0, 0, 9, 9}) // nobody yet: the bridge sends it to all ports
		copy(f[6:], remote)
		return f
	}
	o := s.watching(Config{EveryPacket: true}, func() {
		for i := 0; i < frames; {
			for range batch {
				s.must(unix.Sendto(out, to(i%64), 0, &unix.SockaddrLinklayer{Ifindex: peer.Attrs().Index, Halen: 6}))
				i++
			}
			deadline := time.Now().Add(5 * time.Second)
			for n := drain(); n < batch; n += drain() {
				must.Need(t, !time.Now().After(deadline), "%d of %d frames came to the guest", n, batch)
			}
		}
	})
	used := 0
	for queue, want := range got {
		at := queuepath.Queue{Device: "tap0", Direction: queuepath.Tx, Queue: queue}
		if n := frameSum(o, func(r *queuepath.Row) bool {
			return r.Origin.Device == "nic0" && r.Origin.Direction == queuepath.Rx && r.To == at
		}); n != want {
			t.Errorf("%v: %d frames claimed, %d were read from it", at, n, want)
		}
		if want > 0 {
			used++
		}
	}
	must.Hold(t, used >= 2, "%d queues of the guest were used, expected several", used)
}

// TestMoves: a flow that the guest sends on another queue each time moves with every frame, at its tap and where the
// NIC's queue follows; one that stays moves never.
func TestMoves(t *testing.T) {
	const frames = 4_000
	s := newScene(t, 0)
	tap := s.tap("tap0", 4)
	moves := func(o *queuepath.Observation, device string) (n uint64) {
		for _, r := range o.Rows {
			if r.To.Device == device && r.Origin.Device == "tap0" {
				n += r.Moves
			}
		}
		return n
	}
	o := s.watching(Config{EveryPacket: true}, func() {
		for i := range frames {
			s.send(tap[i%4], frame(i%4, 1)) // each flow has its queue
		}
		s.settle()
	})
	if a, b := moves(o, "tap0"), moves(o, "nic0"); a != 0 || b != 0 {
		t.Errorf("flows that stay: %d moves at the tap and %d at the NIC, expected none", a, b)
	}
	o = s.watching(Config{EveryPacket: true}, func() {
		for i := range frames {
			s.send(tap[2+i%2], frame(9, 1)) // one flow, two queues, and the NIC's queues 2 and 3
		}
		s.settle()
	})
	if a, b := moves(o, "tap0"), moves(o, "nic0"); a != frames-1 || b != frames-1 {
		t.Errorf("a flow that changes its queue with every frame: %d moves at the tap and %d at the NIC, expected %d",
			a, b, frames-1)
	}
}

// TestWindows: what short windows see has the shares of the whole. Four queues carry one, two, three and four tenths.
func TestWindows(t *testing.T) {
	s := newScene(t, 0)
	tap := s.tap("tap0", 4)
	weights := [10]int{0, 1, 2, 3, 1, 2, 3, 2, 3, 3}
	o := s.watching(Config{}, func() {
		for i, end := 0, time.Now().Add(3*time.Second); time.Now().Before(end); i++ {
			s.send(tap[weights[i%10]], frame(i%3, byte(weights[i%10])))
		}
	})
	if o.Watched <= 0 || o.Watched > o.Seconds*0.995 { // each window has a lead
		t.Errorf("watched %.3f of %.3f s, expected a part", o.Watched, o.Seconds)
	}
	var all, share [4]float64
	var sum float64
	for queue := range 4 {
		at := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: queue}
		all[queue] = float64(frameSum(o, func(r *queuepath.Row) bool { return r.First() && r.To == at }))
		sum += all[queue]
	}
	if sum < 1000 {
		t.Fatalf("%.0f frames were seen, expected thousands", sum)
	}
	for queue := range 4 {
		share[queue] = all[queue] / sum
		// The order of ten repeats, so that a share can be off by ten frames for each window only.
		if want := float64(queue+1) / 10; math.Abs(share[queue]-want) > 0.02 {
			t.Errorf("queue %d: share %.3f, expected %.1f", queue, share[queue], want)
		}
	}
	// By the watched time it is what was sent, as far as a busy machine lets both run at the same time.
	if told, sent := sum/o.Watched*o.Seconds, float64(s.written); told < 0.2*sent || told > 3*sent {
		t.Errorf("%.0f frames by the rate within windows, %.0f were sent", told, sent)
	}
}

// TestMacvtap: what a guest sends through a macvtap is transmitted on it, and goes on to the device below: out of the
// host, by the guest, and not the host's own.
func TestMacvtap(t *testing.T) {
	const frames = 2_000
	s := newScene(t, 0)
	s.must(s.on.LinkSetNoMaster(s.nic))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "mv0", s.nic.Attrs().Index
	err := s.on.LinkAdd(&netlink.Macvtap{Macvlan: netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}})
	if errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no macvtap")
	}
	s.must(err)
	s.up(s.on, "mv0")
	var fd int
	s.inHost(func() error {
		node, err := charDevice(t, "mv0")
		if err != nil {
			return err
		}
		if fd, err = unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
		request, err := unix.NewIfreq("mv0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		return unix.IoctlIfreq(fd, unix.TUNSETIFF, request)
	})
	defer unix.Close(fd)
	o := s.watching(Config{EveryPacket: true}, func() {
		for i := range frames {
			s.send(fd, frame(i%8, 1))
		}
		s.settle()
	})
	for to := range wireQueues {
		at := queuepath.Queue{Device: "nic0", Direction: queuepath.Tx, Queue: to}
		claimed := frameSum(o, func(r *queuepath.Row) bool {
			return r.Origin.Device == "mv0" && r.From.Device == "mv0" && r.To == at
		})
		if counted := s.counters.at(t, to, 1); claimed != counted {
			t.Errorf("%v: %d frames of the guest claimed, %d counted on the wire", at, claimed, counted)
		}
	}
	var out uint64
	for _, l := range queuepath.Lanes(o) {
		if l.Way == queuepath.Out && l.Left {
			out += l.Frames
		}
	}
	must.Equal(t, out, frames, "frames on lanes out of the host")
}

// charDevice makes a node of the file by which a macvtap of the calling thread's namespace is opened.
func charDevice(t *testing.T, name string) (string, error) {
	files, err := filepath.Glob("/sys/class/net/" + name + "/tap*/dev")
	if err != nil || len(files) != 1 {
		return "", fmt.Errorf("files of %s: %v (%v), expected one", name, files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(strings.TrimSpace(string(text)), "%d:%d", &major, &minor); err != nil {
		return "", err
	}
	node := filepath.Join(t.TempDir(), "tap")
	return node, unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor)))
}

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
			must.Hold(t, o.Lost.Joins <= 10, "the way of %d frames was forgotten", o.Lost.Joins)
			for from := range written {
				origin := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: from}
				var whole queuepath.Row
				for _, r := range o.Rows {
					if r.First() && r.To == origin {
						whole.Frames += r.Frames
						whole.Packets += r.Packets
					}
				}
				must.Hold(t, whole.Frames == written[from] && whole.Packets == pieces*written[from],
					"%v: %d frames of %d packets, expected %d of %d", origin, whole.Frames, whole.Packets,
					written[from], pieces*written[from])
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
