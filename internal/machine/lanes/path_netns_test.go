//go:build netns

package lanes

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

func ip(t testing.TB, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if out, err := exec.Command("ip", strings.Fields(command)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", command, err, out)
		}
	}
}

const nicQueues = 8

// farMAC is the address that guests send to.
var farMAC = net.HardwareAddr{0x02, 0, 0, 0, 0, 0x77}

// path is a host's packet path: guests' taps on a bridge, whose other port is the NIC or a VXLAN device with one queue
// over it, and a capture on each queue of the far end of the NIC's wire.
type path struct {
	t       testing.TB
	guests  []*guest
	far     []int // packet sockets, by queue
	seen    chan seen
	came    atomic.Uint64
	changed atomic.Uint64 // frames that came with other bytes
}

// guest is a tap with a descriptor for each of its queues.
type guest struct {
	number byte
	tap    string
	queues []*os.File
	sent   []uint32
}

// seen is one frame of a guest as captured.
type seen struct {
	guest, queue byte
	number       uint32
	at           int // queue of the far end, which is the NIC's transmit queue
}

const ethertype = 0x88b5 // IEEE: local experiments

func newPath(t testing.TB, vxlan bool, queues ...int) *path {
	t.Helper()
	p := &path{t: t, seen: make(chan seen, 1<<20)}
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0)
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
	n := fmt.Sprint(nicQueues)
	ip(t, "link add nic0 numtxqueues "+n+" numrxqueues "+n+" type veth peer name far0 numtxqueues "+n+" numrxqueues "+n,
		"link set far0 address "+farMAC.String(), "link set nic0 up", "link set far0 up", "link add br0 type bridge "+
			"forward_delay 0", "link set br0 up")
	port := "nic0"
	if vxlan {
		ip(t, "addr add 10.9.0.1/24 dev nic0", "neigh add 10.9.0.2 lladdr "+farMAC.String()+" dev nic0 nud permanent",
			"link add vx0 type vxlan id 7 dstport 4789 remote 10.9.0.2 local 10.9.0.1 dev nic0", "link set vx0 up")
		port = "vx0"
	}
	ip(t, "link set "+port+" master br0")
	forwards(t, port)
	for i, count := range queues {
		p.guests = append(p.guests, p.guest(byte(i), count))
	}
	if out, err := exec.Command("bridge", "fdb", "add", farMAC.String(), "dev", port, "master",
		"static").CombinedOutput(); err != nil {
		t.Fatalf("bridge fdb: %v\n%s", err, out)
	}
	p.capture()
	return p
}

// guest creates a tap and opens its queues, as QEMU does.
func (p *path) guest(number byte, queues int) *guest {
	p.t.Helper()
	g := &guest{number: number, tap: fmt.Sprintf("tap%d", number), sent: make([]uint32, queues)}
	for range queues {
		f := must.Get(os.OpenFile("/dev/net/tun", os.O_RDWR|unix.O_NONBLOCK, 0))(p.t)
		r := must.Get(unix.NewIfreq(g.tap))(p.t)
		r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_MULTI_QUEUE)
		if err := unix.IoctlIfreq(int(f.Fd()), unix.TUNSETIFF, r); err != nil {
			p.t.Fatalf("tap %s: %v", g.tap, err)
		}
		g.queues = append(g.queues, f)
	}
	ip(p.t, fmt.Sprintf("link set %s address fe:54:00:00:00:%02x", g.tap, number), "link set "+g.tap+" up master br0")
	forwards(p.t, g.tap)
	return g
}

// forwards waits until a port of the bridge forwards: the kernel notices its carrier later (net/core/link_watch.c), and
// until then the port drops what comes.
func forwards(t testing.TB, port string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		state := strings.TrimSpace(string(must.Get(os.ReadFile("/sys/class/net/" + port + "/brport/state"))(t)))
		if state == "3" { // BR_STATE_FORWARDING, include/uapi/linux/if_bridge.h
			return
		}
		must.Need(t, time.Now().Before(end), "port %s of the bridge is in state %s, expected 3", port, state)
	}
}

func (g *guest) close() {
	for _, f := range g.queues {
		f.Close()
	}
}

func (g *guest) frame(queue int) []byte { return frameOf(g.number, byte(queue), g.sent[queue]) }

// frameOf returns a frame with a number of a guest's queue; the number determines its content.
func frameOf(guest, queue byte, number uint32) []byte {
	f := make([]byte, 60)
	copy(f, farMAC)
	copy(f[6:], []byte{0x52, 0x54, 0, 0, 0, guest})
	binary.BigEndian.PutUint16(f[12:], ethertype)
	f[14], f[15] = guest, queue
	binary.BigEndian.PutUint32(f[16:], number)
	for i := 20; i < len(f); i++ {
		f[i] = byte(number) ^ byte(i*7)
	}
	return f
}

// send sends frames by each of the guest's queues in turn.
func (g *guest) send(t testing.TB, each int) {
	t.Helper()
	for range each {
		for q, f := range g.queues {
			if _, err := f.Write(g.frame(q)); err != nil {
				t.Errorf("%s queue %d: %v", g.tap, q, err)
				return
			}
			g.sent[q]++
		}
	}
}

// capture opens a packet socket for each queue of the far end: the kernel delivers a frame to the socket with the index
// of its queue (PACKET_FANOUT_QM; a veth keeps the index of the transmit queue).
func (p *path) capture() {
	p.t.Helper()
	far := must.Get(net.InterfaceByName("far0"))(p.t)
	all := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, unix.ETH_P_ALL))
	for range nicQueues {
		fd := must.Get(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0))(p.t)
		for _, err := range []error{
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: far.Index}),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_FANOUT, 77|unix.PACKET_FANOUT_QM<<16),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}),
		} {
			must.Need(p.t, err == nil, "capture: %v", err)
		}
		p.far = append(p.far, fd)
	}
	for queue, fd := range p.far {
		go p.read(queue, fd)
	}
}

func (p *path) read(queue, fd int) {
	b := make([]byte, 2048)
	for {
		n, err := unix.Read(fd, b)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			return
		}
		f := b[:n]
		if n > 70 && binary.BigEndian.Uint16(f[12:]) == unix.ETH_P_IP && f[23] == unix.IPPROTO_UDP {
			f = f[50:] // the outer headers of VXLAN
		}
		if len(f) < 20 || binary.BigEndian.Uint16(f[12:]) != ethertype {
			continue // the kernel's own
		}
		if sent := frameOf(f[14], f[15], binary.BigEndian.Uint32(f[16:])); !bytes.Equal(f, sent) {
			p.changed.Add(1)
		}
		p.came.Add(1)
		p.seen <- seen{f[14], f[15], binary.BigEndian.Uint32(f[16:]), queue}
	}
}

// matrix counts the frames of each guest's queue by NIC queue.
type matrix map[[3]int]int

// collect waits for all frames that the guests have sent since the last call, each exactly once, and counts them by
// queue.
func (p *path) collect(had map[[3]int]bool) matrix {
	p.t.Helper()
	m := matrix{}
	missing := 0
	for _, g := range p.guests {
		for _, n := range g.sent {
			missing += int(n)
		}
	}
	missing -= len(had)
	limit := time.After(time.Minute)
	for ; missing > 0; missing-- {
		select {
		case s := <-p.seen:
			key := [3]int{int(s.guest), int(s.queue), int(s.number)}
			must.Need(p.t, !had[key], "frame %v came twice", key)
			had[key] = true
			m[[3]int{int(s.guest), int(s.queue), s.at}]++
		case <-limit:
			p.t.Fatalf("%d frames of %d are lost, %d of them by the capture; came so far %v", missing, missing+len(had),
				p.overflowed(), m)
		}
	}
	return m
}

// overflowed returns how many frames the capture had no room for.
func (p *path) overflowed() (n uint32) {
	for _, fd := range p.far {
		if s, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			n += s.Drops
		}
	}
	return n
}

// pace waits until the capture has all but a few of the sent frames, for at most a second.
func (p *path) pace(few uint64) {
	sent := uint64(0)
	for _, g := range p.guests {
		for _, n := range g.sent {
			sent += uint64(n)
		}
	}
	for range 1000 {
		if p.came.Load()+few >= sent {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// run sends frames and returns the queues that they used.
func (p *path) run(had map[[3]int]bool, each int) matrix {
	p.t.Helper()
	for left := each; left > 0; left -= 500 {
		for _, g := range p.guests {
			g.send(p.t, min(left, 500))
		}
		p.pace(8000)
	}
	return p.collect(had)
}

// exact reports whether every frame used the queue of its lane according to windows.
func (m matrix) exact(t *testing.T, what string, each int, guests []*guest, windows []setting.Lane) {
	t.Helper()
	want := 0
	for i, g := range guests {
		for q := range g.queues {
			want++
			at := windows[i].Base + q%windows[i].Count
			if n := m[[3]int{int(g.number), q, at}]; n != each {
				t.Errorf("%s: of %s queue %d %d frames of %d came by queue %d of the NIC: %v", what, g.tap, q, n, each,
					at, m)
			}
		}
	}
	must.Hold(t, len(m) == want, "%s: %d lanes, expected %d: %v", what, len(m), want, m)
}
