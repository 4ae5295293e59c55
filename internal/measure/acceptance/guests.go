package acceptance

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// Guests that the campaign over modes makes for itself. They boot the host's kernel with mpps as their init, from
// memory.
const (
	madePrefix   = "mpps-" // of the guests' names
	MadeVCPUs    = 2
	MadeMemory   = 512 << 20 // bytes
	madeOverhead = 128 << 20 // of QEMU, about
)

// MadeGuest is a guest that the campaign makes.
type MadeGuest struct {
	Mode    string `json:"mode"`
	Name    string `json:"name"`
	Address string `json:"address"` // with prefix length
}

// madeModes are the modes that guests can be made for, as domain render names their NICs, and the module that drives
// the NIC in the guest.
var madeModes = []struct{ mode, Model, Driver, Module string }{
	{"e1000", "e1000", "", "e1000"},
	{"virtio", "virtio", "qemu", "virtio_net"},
	{"vhost", "virtio", "vhost", "virtio_net"},
}

// NIC returns the model and driver of the guest's NIC, as in a definition, and the kernel's module for it.
func (g MadeGuest) NIC() (model, driver, module string) {
	for _, m := range madeModes {
		if m.mode == g.Mode {
			return m.Model, m.Driver, m.Module
		}
	}
	return "", "", ""
}

// ParseGuestAddress reads the IPv4 address of the first guest, with the length of its prefix.
func ParseGuestAddress(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p.Bits() > 30 {
		return p, fmt.Errorf(" %q: expected an IPv4 address with prefix length, such as 10.0.0.10/24", text)
	}
	return p, nil
}

// MakesGuests reports whether the experiment makes guests.
func (e *Experiment) MakesGuests(in Inputs) bool { return e == modes && in.MakeGuests }

// withGuests adds the guests to make, one for each mode that no --mode names, and their modes.
func (in Inputs) withGuests() Inputs {
	first, err := ParseGuestAddress(in.GuestAddress)
	if !in.MakeGuests || len(in.Made) > 0 || err != nil {
		return in
	}
	in.Modes = slices.Clone(in.Modes)
	for at, m := first.Addr(), 0; m < len(madeModes); m++ {
		mode := madeModes[m].mode
		if hasMode(in.Modes, mode) {
			continue
		}
		g := MadeGuest{Mode: mode, Name: madePrefix + mode, Address: netip.PrefixFrom(at, first.Bits()).String()}
		in.Made = append(in.Made, g)
		text := mode + "=" + g.Agent()
		if in.From != "" {
			text += ",from=" + in.From
		}
		in.Modes = append(in.Modes, text)
		at = at.Next()
	}
	return in
}

// Agent returns where the guest's agent listens.
func (g MadeGuest) Agent() string {
	p, _ := netip.ParsePrefix(g.Address) // made by withGuests
	return netip.AddrPortFrom(p.Addr(), agentPort).String()
}

// agentPort is that of an agent's default address.
const agentPort = 7878

// Making is what guests to make were found to lack on this host; nil errors: nothing.
type Making struct {
	Libvirt            error
	Kernel, KVM, Vhost error
	Modules            map[string]error // by mode
	Init               error            // mpps itself as the guests' init
	Server             error            // of the engine, which they serve too
}

// NeedMadeGuests checks what guests to make need.
func NeedMadeGuests(in Inputs, s Seen) []Check {
	const what = "guests to make"
	if !in.MakeGuests {
		return nil
	}
	checks := lackingLinks(named([]Link{{"--via", in.Via, true}}), s)
	add := func(code, why, hint string) { checks = append(checks, lacks(code, what, why, hint)) }
	if in.Via == "" {
		add("bridge", "nothing says which bridge they are ports of", "--via br0; 'mpps inspect' shows the bridges")
	}
	switch {
	case in.GuestAddress == "":
		add("guest-address", "nothing says which addresses they get", "--guest-address 10.0.0.10/24: free ones "+
			"from this on, in the network of --mode native")
	case len(in.Made) == 0:
		add("modes", "e1000, virtio and vhost are all named by --mode", "without --make-guests nothing is made")
	case !inNetwork(in.Made):
		add("guest-address", "from "+in.GuestAddress+" on the network has too few addresses",
			"--guest-address takes the first of "+fmt.Sprint(len(in.Made))+" free ones in a row")
	}
	if in.SecretFile == "" {
		add("secret", "they would serve anyone who reaches them", "--secret-file FILE, the same as of the native agent")
	}
	if !s.Root {
		add("root", "making guests needs root", "repeat with sudo")
	}
	missing := s.Making != nil && s.Making.Libvirt != nil // which is said below
	if why, hidden := guestsHidden(s.Host); hidden && !missing {
		add("libvirt", why, "'virsh list --all' says what it lacks")
	}
	for _, g := range in.Made {
		if guestOf(s.Host, g.Name) != nil {
			add("guest-name", "there is a guest "+g.Name+" already", "virsh domrename "+g.Name+" NEW gives it another "+
				"name; 'mpps acceptance modes --mode "+g.Mode+"=HOST:PORT' measures a guest of yours instead")
		}
	}
	checks = append(checks, enoughMemory(in, s.Host)...)
	if m := s.Making; m != nil {
		for _, c := range []struct {
			code, hint string
			err        error
		}{
			{"libvirt", "install libvirt's daemon for QEMU and virsh", m.Libvirt},
			{"kvm", "load kvm_intel or kvm_amd; virtualization may be off in the firmware", m.KVM},
			{"vhost", "modprobe vhost_net", m.Vhost},
			{"kernel", "the guests boot this host's kernel: reinstall its package", m.Kernel},
			{"engine", "install " + in.Engine + " here: the guests get its server from this host", m.Server},
			{"init", "use a release of mpps, which is static", m.Init},
		} {
			if c.err != nil {
				add(c.code, c.err.Error(), hintOf(c.err, c.hint))
			}
		}
		for _, g := range in.Made {
			if err := m.Modules[g.Mode]; err != nil {
				add("module", g.Mode+": "+err.Error(), hintOf(err, "install the rest of this kernel's modules, or "+
					"name a guest of yours by --mode "+g.Mode+"=HOST:PORT"))
			}
		}
	}
	if len(checks) > 0 {
		return checks
	}
	names := facts.Map(in.Made, func(g MadeGuest) string { return g.Name + " " + g.Address })
	return []Check{ok("guests", what, strings.Join(names, ", ")+": without a disk, removed at the end")}
}

// inNetwork reports whether all addresses are of hosts of one network.
func inNetwork(all []MadeGuest) bool {
	first, err := netip.ParsePrefix(all[0].Address)
	if err != nil {
		return false
	}
	for _, g := range all {
		p, err := netip.ParsePrefix(g.Address)
		if err != nil || p.Masked() != first.Masked() || p.Addr() == p.Masked().Addr() ||
			!p.Contains(p.Addr().Next()) { // the last one is for broadcasts
			return false
		}
	}
	return true
}

// madeReserve is the memory that the guests leave to the host, in bytes.
const madeReserve = 512 << 20

// enoughMemory checks for the guests' memory.
func enoughMemory(in Inputs, h *facts.Host) []Check {
	var free uint64
	for _, n := range h.Topology.Nodes {
		free += n.Available
	}
	need := uint64(len(in.Made))*(MadeMemory+madeOverhead) + madeReserve
	if free == 0 || free >= need { // 0: not seen
		return nil
	}
	return []Check{lacks("memory", "guests to make", fmt.Sprintf("%d MiB of memory are available, %d MiB are needed",
		free>>20, need>>20), "stop something, or name guests of yours by --mode")}
}
