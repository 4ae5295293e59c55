//go:build netns

package spaces

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/must"
	"mpps/internal/thread"
)

// scene has a NIC, "wire", whose other end is in the namespace "out", and says what leads where.
type scene struct {
	*testing.T
	guests []facts.Guest
}

func newScene(t *testing.T) *scene {
	treetest.IP(t, "link set lo up", "netns add out", "link add wire type veth peer name far netns out",
		"link set wire up", "-n out link set far up", "-n out addr add 192.0.2.1/24 dev far")
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", "out").Run() })
	return &scene{T: t}
}

// pod makes a namespace with a tap and a QEMU that runs in it.
func (s *scene) pod(name string) {
	s.Helper()
	treetest.IP(s.T, "netns add "+name, "-n "+name+" link set lo up", "-n "+name+" tuntap add tap0 mode tap",
		"-n "+name+" link set tap0 up", "-n "+name+" link add k6t type bridge", "-n "+name+" link set k6t up",
		"-n "+name+" link set tap0 master k6t")
	s.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	pid := treetest.NamedQEMU(s.T, func(argv ...string) *exec.Cmd {
		return exec.Command("ip", append([]string{"netns", "exec", name}, argv...)...)
	})
	s.guests = append(s.guests, facts.Guest{Name: name, State: "running", PID: pid, Elsewhere: true,
		Interfaces: []facts.Interface{{MAC: name, Type: "tap", Tap: "tap0"}}})
}

// host returns the facts, with wire as a NIC.
func (s *scene) host() *facts.Host {
	m, h := treetest.Live(s.T), &facts.Host{}
	link.Inventory(context.Background(), m, h)
	h.NICs = append(h.NICs, facts.NIC{Name: "wire"})
	for l := range facts.Each(h.Links) {
		if l.Name == "wire" {
			h.NICs[len(h.NICs)-1].Master = l.Master
		}
	}
	h.Links = facts.Where(h.Links, func(l facts.Link) bool { return l.Name != "wire" })
	h.Guests = append([]facts.Guest(nil), s.guests...)
	Inventory(context.Background(), m, h)
	return h
}

// is compares the path of the first guest.
func (s *scene) is(h *facts.Host, kinds, nics, hops string) {
	s.Helper()
	p := reach.Of(h).Paths[0]
	var passed []string
	for _, hop := range p.Hops {
		one := hop.Device
		if hop.Kind == reach.Routing {
			one = "route"
		}
		if hop.Namespace != 0 {
			one = h.Namespace(hop.Namespace).Title() + ":" + one
		}
		passed = append(passed, one)
	}
	if fmt.Sprint(p.Kinds) != "["+kinds+"]" || strings.Join(p.NICs, " ") != nics || strings.Join(passed, " ") != hops {
		s.Errorf("%v by %v to %v; unseen %+v", p.Kinds, passed, p.NICs, h.Unseen)
	}
}

// arrive sends frames from the guest's side of the tap and asserts that they come out at the far end of the wire.
func (s *scene) arrive(pod string, frame []byte) {
	s.Helper()
	before := s.received()
	err := thread.Do(func() error {
		ns, err := unix.Open("/run/netns/"+pod, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(ns)
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			return err
		}
		tap, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(tap)
		request, err := unix.NewIfreq("tap0")
		if err != nil {
			return err
		}
		request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI)
		if err := unix.IoctlIfreq(tap, unix.TUNSETIFF, request); err != nil {
			return err
		}
		for range 200 { // a new bridge drops for a moment
			for range 10 {
				if _, err := unix.Write(tap, frame); err != nil {
					return err
				}
			}
			time.Sleep(10 * time.Millisecond)
			if s.received() >= before+100 {
				return nil
			}
		}
		return fmt.Errorf("%d frames arrived", s.received()-before)
	})
	must.Try(s, err)
}

// received returns the unicast and broadcast frames that arrived at the far end of the wire.
func (s *scene) received() (n int) {
	text := treetest.Tool(s.T, "ip", "netns", "exec", "out", "cat", "/sys/class/net/far/statistics/rx_packets")
	_, _ = fmt.Sscan(text, &n)
	return n
}

// udp returns a frame with a UDP packet of 18 bytes.
func udp(to net.HardwareAddr, source, destination string) []byte {
	frame := make([]byte, 14+20+8+18)
	copy(frame, to)
	copy(frame[6:], []byte{2, 0, 0, 0, 0, 9})
	frame[12] = 8
	ip := frame[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
	copy(ip[12:], net.ParseIP(source).To4())
	copy(ip[16:], net.ParseIP(destination).To4())
	sum := uint32(0)
	for i := 0; i < 20; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	sum = sum&0xffff + sum>>16
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	binary.BigEndian.PutUint16(ip[20:], 5000)
	binary.BigEndian.PutUint16(ip[22:], 9)
	binary.BigEndian.PutUint16(ip[24:], 26)
	return frame
}

var everybody = net.HardwareAddr{255, 255, 255, 255, 255, 255}

// TestBridgeBinding: tap and eth0 are ports of a bridge in the pod, and the host's end is a port of a bridge
// with a NIC.
func TestBridgeBinding(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	treetest.IP(t, "link add eth0 type veth peer name eth0 netns pod", "link set eth0 up", "link add br0 type bridge",
		"link set br0 up", "link set wire master br0", "link set eth0 master br0", "-n pod link set eth0 up",
		"-n pod link set eth0 master k6t")
	s.is(s.host(), "bridged other-namespace", "wire", "pod:tap0 pod:k6t pod:eth0 eth0 br0 wire")
	s.arrive("pod", udp(everybody, "192.0.2.9", "192.0.2.255"))

	// Another device of the same name takes the place of the host's end: it is not taken for it.
	treetest.IP(t, "link set eth0 nomaster", "link set eth0 name other", "link add eth0 type veth peer name x",
		"link set eth0 master br0")
	s.is(s.host(), "inner other-namespace", "", "pod:tap0 pod:k6t pod:eth0 other")
}

// TestMasqueradeBinding: the pod forwards with NAT, and the host routes what comes by a bridge of pods.
func TestMasqueradeBinding(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	for _, neighbour := range []string{"a", "b"} {
		treetest.IP(t, "netns add n"+neighbour, "link add v"+neighbour+" type veth peer name eth0 netns n"+neighbour)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", "n"+neighbour).Run() })
	}
	treetest.IP(t, "link add v0 type veth peer name eth0 netns pod", "link set v0 up", "link add cni0 type bridge",
		"link set cni0 up", "addr add 10.244.0.1/24 dev cni0", "link set v0 master cni0", "link set va master cni0",
		"link set vb master cni0", "addr add 192.0.2.7/24 dev wire", "route add default via 192.0.2.1",
		"-n pod link set eth0 up", "-n pod addr add 10.244.0.9/24 dev eth0", "-n pod route add default via 10.244.0.1",
		"-n pod addr add 10.0.2.1/24 dev k6t")
	must.Do(t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644))
	treetest.Tool(t, "ip", "netns", "exec", "pod", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1")
	treetest.Tool(t, "ip", "netns", "exec", "pod", "nft", "add table ip k; add chain ip k p "+
		"{ type nat hook postrouting priority 100; }; add rule ip k p masquerade")
	h := s.host()
	s.is(h, "other-namespace routed", "wire", "pod:tap0 pod:k6t pod:route pod:eth0 v0 cni0 route wire")
	must.Equal(t, len(h.Namespaces), 1, "namespaces, without the neighbours'")
	mac := treetest.IPLinkIn(t, "pod", "k6t")["address"].(string)
	to := must.Get(net.ParseMAC(mac))(t)
	s.arrive("pod", udp(to, "10.0.2.2", "192.0.2.1"))
}

// TestMacvlan: a macvlan of the host's NIC in the pod, as Multus makes it.
func TestMacvlan(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	treetest.IP(t, "link add net1 link wire type macvlan mode bridge", "link set net1 netns pod",
		"-n pod link set net1 up promisc on", "-n pod link set net1 master k6t")
	s.is(s.host(), "other-namespace", "wire", "pod:tap0 pod:k6t pod:net1 wire")
	s.arrive("pod", udp(everybody, "192.0.2.9", "192.0.2.255"))
}

// TestTunnelOfHost: a VXLAN that the host bound to its NIC and then gave to the pod. The pod's own devices have the
// same numbers.
func TestTunnelOfHost(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	treetest.IP(t, "addr add 192.0.2.7/24 dev wire",
		"link add vx0 type vxlan id 7 dstport 4789 dev wire remote 192.0.2.1", "link set vx0 netns pod", "-n pod link set vx0 up", "-n pod link set vx0 master k6t")
	s.is(s.host(), "other-namespace", "wire", "pod:tap0 pod:k6t pod:vx0 wire")
	s.arrive("pod", udp(everybody, "192.0.2.9", "192.0.2.255"))
}

// TestOpenNamespace: a pair of mpps's own, as it measures with, leads from the bridge to a namespace that only a
// descriptor holds. Without a look into it nobody could say where the bridge's packets go.
func TestOpenNamespace(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	held := -1
	must.Do(t, thread.Do(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		held, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	}))
	defer unix.Close(held)
	gear := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), held)
	treetest.IP(t, "link add v0 type veth peer name eth0 netns pod", "link set v0 up", "-n pod link set eth0 up",
		"-n pod link set eth0 master k6t", "link add br0 type bridge", "link set br0 up", "link set v0 master br0",
		"link add g0 type veth peer name g1 netns "+gear, "link set g0 master br0", "link set g0 up")
	treetest.Tool(t, "nsenter", "--net="+gear, "ip", "link", "set", "g1", "up")
	s.is(s.host(), "inner other-namespace", "", "pod:tap0 pod:k6t pod:eth0 v0 br0 g0")
}

// TestProgram: a BPF program at the host's end of the pair chooses where packets go: nothing beyond it is claimed.
func TestProgram(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	treetest.IP(t, "link add v0 type veth peer name eth0 netns pod", "link set v0 up", "-n pod link set eth0 up",
		"-n pod link set eth0 master k6t", "addr add 192.0.2.7/24 dev wire", "route add default via 192.0.2.1",
		"addr add 10.244.0.1/32 dev v0")
	_ = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	s.is(s.host(), "other-namespace routed", "wire", "pod:tap0 pod:k6t pod:eth0 v0 route wire")
	attach(t, "v0")
	s.is(s.host(), "other-namespace unresolved", "", "pod:tap0 pod:k6t pod:eth0 v0")
}

// TestGone: a guest that ended, and a process that has its number now, have no namespace that is read.
func TestGone(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	s.guests[0].PID = os.Getpid()
	h := s.host()
	s.is(h, "other-namespace unresolved", "", "")
	if len(h.Namespaces) != 0 || len(facts.Where(h.Unseen, func(u facts.Unseen) bool {
		return strings.Contains(u.What, "pod") && u.Why == errGone.Error()
	})) != 1 {
		t.Errorf("namespaces %+v, unseen %+v", h.Namespaces, h.Unseen)
	}
	// It ends between the look at its guest and that at its namespaces' devices: the open file keeps it.
	held := must.Get(open("/run/netns/pod"))(t)
	defer held.close()
	treetest.IP(t, "netns del pod")
	f := &finder{m: treetest.Live(t), h: h, until: time.Now().Add(patience), host: held, known: map[uint64]*space{}}
	again := must.Get(open(fmt.Sprintf("/proc/self/fd/%d", held.fd)))(t)
	if _, err := f.add(again); err != nil || len(f.read) != 1 {
		t.Errorf("%v, %d read", err, len(f.read))
	}
	f.read[0].close()
}

// TestManyNamespaces: a node with 300 pods on one bridge takes half a second of CPU at most, and its snapshot has the
// guest's namespace alone.
func TestManyNamespaces(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	var batch strings.Builder
	fmt.Fprintln(&batch, "link add cni0 type bridge\nlink set cni0 up\naddr add 10.244.0.1/16 dev cni0\n"+
		"link add v0 type veth peer name eth0 netns pod\nlink set v0 up\nlink set v0 master cni0")
	for i := range 300 {
		fmt.Fprintf(&batch, "netns add m%d\nlink add v%d type veth peer name eth0 netns m%d\nlink set v%d master cni0\n", i,
			i+1, i, i+1)
	}
	file := filepath.Join(t.TempDir(), "batch")
	must.Do(t, os.WriteFile(file, []byte(batch.String()), 0o600))
	t.Cleanup(func() {
		for i := range 300 {
			_ = unix.Unmount(fmt.Sprintf("/run/netns/m%d", i), unix.MNT_DETACH)
			_ = os.Remove(fmt.Sprintf("/run/netns/m%d", i))
		}
	})
	treetest.IP(t, "-batch "+file, "-n pod link set eth0 up", "-n pod link set eth0 master k6t",
		"addr add 192.0.2.7/24 dev wire", "route add default via 192.0.2.1")
	_ = os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	m, h := treetest.Live(t), &facts.Host{}
	link.Inventory(context.Background(), m, h)
	h.NICs, h.Guests = append(h.NICs, facts.NIC{Name: "wire"}), s.guests
	h.Links = facts.Where(h.Links, func(l facts.Link) bool { return l.Name != "wire" })
	begun, wall := spent(), time.Now()
	Inventory(context.Background(), m, h)
	took := spent() - begun
	t.Logf("%s of CPU, %s", took, time.Since(wall))
	s.is(h, "other-namespace routed", "wire", "pod:tap0 pod:k6t pod:eth0 v0 cni0 route wire")
	must.Hold(t, took <= 500*time.Millisecond && len(h.Namespaces) == 1,
		"%s of CPU, %d namespaces kept", took, len(h.Namespaces))
}

// TestHostile: whoever is root in a namespace can make as many devices there as he likes, with any names.
func TestHostile(t *testing.T) {
	if !treetest.InNamespace(t) {
		return
	}
	s := newScene(t)
	s.pod("pod")
	var batch strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&batch, "link add x%d type bridge\n", i)
	}
	file := filepath.Join(t.TempDir(), "batch")
	must.Do(t, os.WriteFile(file, []byte(batch.String()), 0o600))
	treetest.IP(t, "-n pod -batch "+file)
	treetest.Tool(t, "ip", "-n", "pod", "link", "set", "k6t", "down")
	treetest.Tool(t, "ip", "-n", "pod", "link", "set", "k6t", "name", "\x1b[2J\x07")
	begun := spent()
	h := s.host()
	t.Logf("%s of CPU", spent()-begun)
	if len(h.Namespaces) == 0 { // a busy machine does not read it in time
		must.Contain(t, fmt.Sprint(h.Unseen), "network namespace")
		return
	}
	n := h.Namespaces[0]
	must.Hold(t, len(n.Devices) <= mostDevices && n.Cut, "%d devices, cut %v", len(n.Devices), n.Cut)
	for _, d := range n.Devices {
		must.Hold(t, !strings.ContainsAny(d.Name+d.Master, "\x1b\x07"), "device %q under %q", d.Name, d.Master)
	}
	if p := reach.Of(h).Paths[0]; !p.Has(reach.Unresolved) {
		t.Errorf("%+v", p)
	}
}

func spent() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
