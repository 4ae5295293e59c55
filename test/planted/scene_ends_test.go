package planted

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
)

// addEnd builds one end.
func (s *scene) addEnd(ctx context.Context, i int, e End) error {
	placed := &placedEnd{End: e, ip: net.IPv4(198, 19, byte(i), 2)}
	s.ends = append(s.ends, placed)
	if e.Kind == "guest" {
		placed.port, placed.mac = "tap"+e.Name, net.HardwareAddr{0x52, 0x54, 0, 0, 2, byte(i + 1)}
		if err := s.startGuest(ctx, placed); err != nil {
			return err
		}
		return s.port(placed.port, placed.mac)
	}
	var err error
	if placed.place, err = s.place(fmt.Sprint("e", i)); err != nil {
		return err
	}
	placed.port = "port" + e.Name
	inner, outer, err := s.pair(s.host, placed.port, placed.place, "eth0", 1)
	if err != nil {
		return err
	}
	placed.mac = outer.Attrs().HardwareAddr
	if s.s.Path.Forward == "route" {
		err = s.routeTo(placed, inner)
	} else {
		err = s.port(placed.port, placed.mac)
	}
	if err != nil {
		return err
	}
	if e.Kind == "counter" {
		return s.count(placed.place, "eth0")
	}
	if e.Kind == "bare" {
		return nil
	}
	return s.startSocket(ctx, placed, outer)
}

// routeTo has the host know the way to an end without asking.
func (s *scene) routeTo(e *placedEnd, inner netlink.Link) error {
	address, err := netlink.ParseAddr(net.IPv4(198, 19, e.ip[14], 1).String() + "/24")
	if err != nil {
		return err
	}
	if err := s.host.on.AddrAdd(inner, address); err != nil {
		return err
	}
	return s.host.on.NeighAdd(&netlink.Neigh{LinkIndex: inner.Attrs().Index, IP: e.ip, HardwareAddr: e.mac,
		State: netlink.NUD_PERMANENT})
}

// count takes and counts whatever arrives at a device, before the network stack sees it.
func (s *scene) count(p *place, device string) error {
	method := traffic.XDP
	if device == tunnelName {
		method = traffic.XDPSkb
	}
	sink, err := traffic.NewSink(traffic.SinkConfig{In: traffic.Endpoint{Netns: p.netns, Iface: device},
		DropOther: true, Method: method})
	if err != nil {
		return fmt.Errorf("counter: %w", err)
	}
	s.later(sink.Close)
	return nil
}

func micro(us float64) time.Duration { return time.Duration(us * float64(time.Microsecond)) }

// startGuest starts what looks like a QEMU with vhost.
func (s *scene) startGuest(ctx context.Context, e *placedEnd) error {
	p := &guestPart{
		Tap: e.port, Queues: e.Queues, VCPUs: e.VCPUs, Vhost: micro(e.VhostUS), VCPU: micro(e.VCPUUS),
		VhostOn: s.real(e.VhostCPUs), VCPUOn: s.real(e.VCPUCPUs), Emulated: e.Emulated, Node: e.Node,
	}
	for _, t := range s.s.Traffic {
		if t.From == e.Name {
			p.Tick, p.SendPPS, p.SendFlow = s.tick, t.PPS, flow{Src: e.mac, Dst: s.wireMAC, To: net.IPv4(198, 18, 0, 9),
				Bytes: t.Frame, Flows: t.Flows, Port: t.Port, Source: t.Source, TTL: t.TTL}
		}
	}
	vhost := "on"
	if e.Emulated {
		vhost = "off"
	}
	if e.Plain {
		var err error
		e.actor, err = startActor(ctx, "program "+e.Name, part{Netns: s.host.netns, Comm: "tunneld", Guest: p})
		if err == nil {
			s.later(e.actor.stop)
		}
		return err
	}
	a, err := startActor(ctx, "guest "+e.Name, part{Netns: s.host.netns, Comm: emulator, Guest: p},
		"qemu-system-x86_64", "-name", "guest="+s.base+e.Name, "-machine", "q35,accel=kvm", "-m", "256", "-smp",
		fmt.Sprint(e.VCPUs),
		"-netdev", fmt.Sprintf("tap,id=net0,ifname=%s,vhost=%s,queues=%d", e.port, vhost, e.Queues),
		"-device", fmt.Sprintf("virtio-net-pci,netdev=net0,mac=%s", e.mac))
	if err != nil {
		return err
	}
	e.actor = a
	s.later(a.stop)
	return nil
}

// startSocket gives the namespace of an end an address and starts who reads there.
func (s *scene) startSocket(ctx context.Context, e *placedEnd, device netlink.Link) error {
	address, err := netlink.ParseAddr(e.ip.String() + "/16")
	if err != nil {
		return err
	}
	if err := e.place.on.AddrAdd(device, address); err != nil {
		return err
	}
	if err := e.place.on.RouteAdd(&netlink.Route{LinkIndex: device.Attrs().Index,
		Dst: &net.IPNet{IP: net.IPv4(198, 18, 0, 0), Mask: net.CIDRMask(16, 32)}}); err != nil {
		return err
	}
	p := &socketPart{Port: e.Port, Read: micro(e.ReadUS), Pause: micro(e.PauseUS), Buffer: e.Buffer}
	if e.actor, err = startActor(ctx, "socket "+e.Name, part{Netns: e.place.netns, Comm: "application",
		CPUs: s.real(e.CPUs), Socket: p}); err != nil {
		return err
	}
	s.later(e.actor.stop)
	return nil
}

// steer sets which CPUs receive from the NIC. A veth has no interrupts: software steering stands in for them.
func (s *scene) steer() error {
	if len(s.s.Path.Steer) == 0 {
		return nil
	}
	var mask uint64
	for _, n := range s.real(s.s.Path.Steer) {
		mask |= 1 << n
	}
	for queue := range s.s.Path.Queues {
		if err := s.host.write(fmt.Sprintf("/sys/class/net/%s/queues/rx-%d/rps_cpus", nicName, queue),
			fmt.Sprintf("%x", mask)); err != nil {
			return err
		}
	}
	return nil
}

// real are the numbers that the machine's CPUs have.
func (s *scene) real(cpus []int) []int {
	var all []int
	for _, n := range cpus {
		all = append(all, s.cpus[n])
	}
	return all
}

// inside calls f on a thread in the namespace, with its /sys.
func (p *place) inside(f func() error) error {
	return onThread(func() error {
		ns, err := netns.GetFromName(p.netns)
		if err != nil {
			return err
		}
		defer ns.Close()
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("mount namespace: %w", err)
		}
		if err := netns.Set(ns); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("keep mounts to itself: %w", err)
		}
		if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
			return fmt.Errorf("mount sysfs: %w", err)
		}
		return f()
	})
}

func (p *place) write(file, text string) error {
	return p.inside(func() error { return os.WriteFile(file, []byte(text), 0) })
}

func (p *place) read(file string) (text string, err error) {
	err = p.inside(func() error {
		b, err := os.ReadFile(file)
		text = string(b)
		return err
	})
	return text, err
}

// onThread calls f on a thread that ends with it.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked
		done <- f()
	}()
	return <-done
}
