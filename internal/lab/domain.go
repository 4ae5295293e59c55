package lab

import (
	"cmp"
	_ "embed"
	"encoding/xml"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// Model of a guest's NIC.
type Model string

const (
	E1000  Model = "e1000"  // emulated by QEMU: an exit for nearly every packet
	Virtio Model = "virtio" // paravirtual, served by a thread of QEMU
	Vhost  Model = "vhost"  // paravirtual, served by the kernel of the host
	VF     Model = "vf"     // virtual function of an SR-IOV NIC, handed through
	// Macvtap is Vhost behind a macvtap device in bridge mode; only with Direct.
	Macvtap Model = "macvtap"
	// VhostUser is served by a process that connects to QEMU's socket and maps the guest's memory; QEMU waits for it.
	// Only with Direct.
	VhostUser Model = "vhost-user"
	// Passt is paravirtual and served by passt, which translates the guest's connections to sockets of L1; only with
	// Direct, and with QEMU 10.1 or later.
	Passt Model = "passt"
)

// NIC is a guest's NIC.
type NIC struct {
	Model   Model
	Bridge  string // of L1; Macvtap: the device below; Passt: one with the guest's address; not for VF and VhostUser
	MAC     string // empty: derived from the guest's name and the NIC's index
	Addr    string // address with prefix length, as in 10.50.0.2/24; empty: the NIC is only brought up
	Tap     string // name of the tap in L1; empty: libvirt's choice
	Queues  int    // Virtio and Vhost; 0 is 1
	RxQueue int    // descriptors, Virtio and Vhost: 256, 512 or 1024; 0: QEMU's default
	VF      string // PCI address of the virtual function in L1, as in 0000:01:10.0
	Socket  string // VhostUser: its path in L1
	TCP     string // Passt: TCP ports of L1 that passt forwards to the guest, in its syntax
	UDP     string // likewise UDP ports
}

// GuestSpec describes a guest.
type GuestSpec struct {
	Name      string
	Binary    string // static program of L0 that becomes the guest's init (see guestinit)
	NICs      []NIC
	MemoryMiB int      // 0: 256
	VCPUs     int      // 0: 2
	Modules   []string // in addition to those of the NICs and virtio_net
	Routes    []string // "DESTINATION=GATEWAY"; the destination may be "default"
	Forward   bool     // IPv4 forwarding on
	Args      []string // more kernel arguments
	Realtime  bool     // boots the realtime kernel, whatever L1 booted
	Agent     bool     // includes the QEMU guest agent, busybox, ethtool and cyclictest
	Programs  []string // more static programs of L0, in /opt
	// with Direct: CPUs of L1 for its QEMU and vhost threads, in taskset's format; empty: all
	CPUs   string
	Direct bool  // started by a QEMU command line, which takes half the time; unknown to libvirt; not with Agent
	Probe  Probe // nil: Ping; with Agent, its answer is awaited too
}

//go:embed templates/domain.xml
var domainText string

var domainTemplate = template.Must(template.New("domain").Funcs(template.FuncMap{"xml": escapeXML}).Parse(domainText))

func escapeXML(s string) (string, error) {
	var b strings.Builder
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}

// pciAddr is a PCI address in the four parts of libvirt's XML, each hexadecimal.
type pciAddr struct{ Domain, Bus, Slot, Function string }

var pciRE = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])$`)

func parsePCI(s string) (pciAddr, error) {
	m := pciRE.FindStringSubmatch(s)
	if m == nil {
		return pciAddr{}, fmt.Errorf("PCI address %q: want the form 0000:01:10.0", s)
	}
	return pciAddr{m[1], m[2], m[3], m[4]}, nil
}

// fill sets defaults and refuses invalid specifications.
func (g *GuestSpec) fill() error {
	if err := checkName(g.Name); err != nil {
		return fmt.Errorf("guest: %w", err)
	}
	g.MemoryMiB, g.VCPUs = cmp.Or(g.MemoryMiB, 256), cmp.Or(g.VCPUs, 2)
	if g.Probe == nil {
		g.Probe = Ping
	}
	if len(g.NICs) == 0 {
		return fmt.Errorf("guest %s: has no NIC", g.Name)
	}
	if !g.Direct && g.CPUs != "" {
		return fmt.Errorf("guest %s: CPUs belong to a guest that is started directly", g.Name)
	}
	if g.Direct && g.Agent {
		return fmt.Errorf("guest %s: an agent is asked through libvirt, which does not know a guest that is started "+
			"directly", g.Name)
	}
	g.NICs = slices.Clone(g.NICs)
	for i := range g.NICs {
		n := &g.NICs[i]
		if n.MAC == "" {
			n.MAC = guestMAC(g.Name, i)
		}
		if _, err := net.ParseMAC(n.MAC); err != nil {
			return fmt.Errorf("guest %s: NIC %d: %w", g.Name, i, err)
		}
		if n.Addr != "" {
			if _, err := netip.ParsePrefix(n.Addr); err != nil {
				return fmt.Errorf("guest %s: NIC %d: %w", g.Name, i, err)
			}
		}
		switch n.Model {
		case E1000, Virtio, Vhost, Macvtap, Passt, VhostUser:
			if n.special() && (!g.Direct || n.Queues > 1) {
				return fmt.Errorf("guest %s: NIC %d: %s: only in a guest that is started directly, with one queue",
					g.Name, i, n.Model)
			}
			if n.Model == VhostUser && n.Socket == "" {
				return fmt.Errorf("guest %s: NIC %d: vhost-user wants a socket", g.Name, i)
			}
			if n.Model == Passt && n.Addr == "" {
				return fmt.Errorf("guest %s: NIC %d: passt wants the address of its device", g.Name, i)
			}
			if n.Bridge == "" && n.Model != VhostUser {
				return fmt.Errorf("guest %s: NIC %d: model %s wants a bridge", g.Name, i, n.Model)
			}
			if n.Model == E1000 && (n.Queues > 1 || n.RxQueue > 0) {
				return fmt.Errorf("guest %s: NIC %d: e1000 has one queue of fixed size", g.Name, i)
			}
		case VF:
			if _, err := parsePCI(n.VF); err != nil {
				return fmt.Errorf("guest %s: NIC %d: %w", g.Name, i, err)
			}
		default:
			return fmt.Errorf("guest %s: NIC %d: model %q: want e1000, virtio, vhost, vf, macvtap, vhost-user or "+
				"passt", g.Name, i, n.Model)
		}
	}
	return nil
}

// special reports whether templates/domain.xml has no form for the NIC.
func (n *NIC) special() bool { return n.Model == Macvtap || n.Model == VhostUser || n.Model == Passt }

// tapped reports whether the NIC has a tap or macvtap device in L1.
func (n *NIC) tapped() bool { return n.Model != VF && n.Model != VhostUser && n.Model != Passt }

// guestMAC derives an address from the guest's name and the NIC's index (FNV-1a, QEMU's prefix).
func guestMAC(name string, nic int) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", byte(h.Sum32()>>8)|0x80, byte(h.Sum32()), byte(nic))
}

// modules lists the modules for the guest's initramfs.
func (g *GuestSpec) modules() []string {
	mods := []string{"virtio_net"} // always, so that a guest may be moved from e1000 to virtio
	for _, n := range g.NICs {
		switch n.Model {
		case E1000:
			mods = append(mods, "e1000")
		case VF:
			mods = append(mods, "igbvf")
		}
	}
	return slices.Concat(mods, []string{"button"}, g.Modules)
}

// cmdline returns the guest's kernel command line; guestinit reads the arguments that begin with mpps.
func (g *GuestSpec) cmdline() string {
	a := []string{"console=ttyS0", "panic=-1", "quiet", "mitigations=off", "no_timer_check", "tsc=reliable",
		"mpps.hostname=" + g.Name}
	for _, n := range g.NICs {
		a = append(a, "mpps.addr="+n.MAC+"="+n.Addr)
	}
	for _, r := range g.Routes {
		a = append(a, "mpps.route="+r)
	}
	if slices.ContainsFunc(g.NICs, func(n NIC) bool { return n.Model == Passt }) {
		// passt broadcasts until a frame tells it the guest's MAC address, and the guest's TCP ignores broadcasts.
		a = append(a, "sysctl.net.ipv4.conf.default.arp_notify=1")
	}
	if g.Forward {
		a = append(a, "mpps.forward=1")
	}
	return strings.Join(append(a, g.Args...), " ")
}

// domainXML renders the guest; paths are L1's.
func (g *GuestSpec) domainXML(kernel, initrd, console string) (string, error) {
	type nic struct {
		NIC
		PCI pciAddr
	}
	v := struct {
		GuestSpec
		NICs                             []nic
		Kernel, Initrd, Console, Cmdline string
	}{GuestSpec: *g, Kernel: kernel, Initrd: initrd, Console: console, Cmdline: g.cmdline()}
	for _, n := range g.NICs {
		x := nic{NIC: n}
		if n.Model == VF {
			p, err := parsePCI(n.VF)
			if err != nil {
				return "", err
			}
			x.PCI = p
		}
		v.NICs = append(v.NICs, x)
	}
	var b strings.Builder
	if err := domainTemplate.Execute(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}
