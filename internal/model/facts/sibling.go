package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// Sibling returns a copy of a host that can be compared with other hosts of the same build: NICs, bridges and tunnels
// are named by role and slot ("uplink0", "bridge(uplink0)"), guests and what comes and goes with them are left out, and
// addresses, serials and names are masked. What changes by itself is left out as in Diff.
func Sibling(h *Host) *Host {
	n := newSiblingNames(h)
	c := configuration(h)
	c.Name, c.Guests, c.Taps, c.VFs, c.Reservations, c.Leaving, c.Pools = "", nil, nil, nil, nil, nil, nil
	c.Kernel.Version = "" // follows from the release
	c.Kernel.CommandLine = n.commandLine(h.Kernel.CommandLine)
	c.Boot = n.boot(h.Boot)
	c.Topology.Nodes = edited(c.Topology.Nodes, func(node *Node) { node.Memory = node.Memory >> 30 << 30 })
	c.Topology.DeniedCPUs, c.Topology.DeniedNodes, c.Topology.Suspect = nil, nil, nil
	c.NICs = n.nics(c.NICs)
	n.devices(c)
	n.rest(c)
	c.Readings = n.readings(c.Readings)
	return c
}

// siblingNames maps the devices of a host to names by role.
type siblingNames struct {
	host  *Host
	known map[string]string // device or PCI address → name
	gone  map[string]bool   // devices of guests and containers
	words []string          // keys of known, longest first, and the host's name
}

func newSiblingNames(h *Host) *siblingNames {
	n := &siblingNames{host: h, known: map[string]string{}, gone: map[string]bool{}}
	n.nameNICs()
	for _, t := range h.Taps {
		n.gone[t.Name] = true
	}
	for _, v := range h.VFs {
		n.gone[v.PCI], n.gone[v.NIC] = true, true
	}
	for _, g := range h.Guests {
		for _, nic := range g.NICs() {
			n.gone[nic.Tap] = true
		}
	}
	delete(n.gone, "")
	for _, t := range h.Tunnels {
		n.nameTunnel(t.Name, 0)
	}
	for _, b := range h.Bridges {
		n.known[b.Name] = n.over("bridge", b.Ports)
	}
	for _, l := range h.Links {
		if _, named := n.known[l.Name]; !named {
			if l.Kind == "veth" || l.Elsewhere {
				n.gone[l.Name] = true
				continue
			}
			n.known[l.Name] = n.over(cmp.Or(l.Kind, "device"), n.members(l.Name, l.Lower))
		}
	}
	for name := range n.known {
		n.words = append(n.words, name)
	}
	if h.Name != "" {
		n.words = append(n.words, h.Name)
	}
	slices.SortFunc(n.words, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return n
}

// spare is the role of a NIC that carries nothing that is known.
const spare = "spare"

// nameNICs names NICs by role, counted in the order of their slots.
func (n *siblingNames) nameNICs() {
	carrying := map[string]bool{}
	for _, t := range n.host.Tunnels {
		carrying[t.Lower] = true
		for _, lower := range t.Underlay {
			carrying[lower] = true
		}
	}
	nics := slices.Clone(n.host.NICs)
	slices.SortStableFunc(nics, func(a, b NIC) int {
		return cmp.Or(strings.Compare(a.PCI, b.PCI), CompareVersions(a.Name, b.Name))
	})
	count := map[string]int{}
	for i := range nics {
		nic := &nics[i]
		if nic.PhysFn != "" || nic.Representor() {
			n.gone[nic.Name] = true
			continue
		}
		role := spare
		switch {
		case nic.Master != "" || carrying[nic.Name]:
			role = "uplink"
		case nic.SRIOV != nil && nic.SRIOV.Enabled > 0:
			role = "functions"
		case nic.Management != "":
			role = "management"
		}
		n.known[nic.Name] = fmt.Sprintf("%s%d", role, count[role])
		count[role]++
		if nic.PCI != "" {
			n.known[nic.PCI] = n.known[nic.Name]
		}
	}
}

// nameTunnel names a tunnel after its type and what it goes over. Tunnels may lie on each other, in an invented
// snapshot in a circle.
func (n *siblingNames) nameTunnel(name string, depth int) {
	t := Find(n.host.Tunnels, func(t *Tunnel) bool { return t.Name == name })
	if t == nil || n.known[name] != "" || depth > 8 {
		return
	}
	var over []string
	for _, lower := range append(n.members(name, t.Lower), t.Underlay...) {
		n.nameTunnel(lower, depth+1)
		over = append(over, lower)
	}
	n.known[name] = n.over(t.Type, over)
}

// members returns the device under another one, and the NICs that are its ports.
func (n *siblingNames) members(name, lower string) []string {
	var all []string
	if lower != "" {
		all = append(all, lower)
	}
	for _, nic := range n.host.NICs {
		if nic.Master == name {
			all = append(all, nic.Name)
		}
	}
	return all
}

// over returns the name of a device by its kind and the named devices that it goes over.
func (n *siblingNames) over(kind string, devices []string) string {
	names := n.all(devices)
	if len(names) == 0 {
		return kind
	}
	return kind + "(" + strings.Join(names, "+") + ")"
}

// all returns the names of devices, sorted, each once, without those that have none.
func (n *siblingNames) all(devices []string) []string {
	var names []string
	for _, d := range devices {
		if known := n.known[d]; known != "" {
			names = append(names, known)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// nics returns the NICs that are no functions, by their names.
func (n *siblingNames) nics(all []NIC) []NIC {
	all = Where(all, func(nic NIC) bool { return !n.gone[nic.Name] })
	for i := range all {
		nic := &all[i]
		if name := n.known[nic.Name]; !strings.HasPrefix(name, spare) {
			nic.Speed = n.speed(nic.Name)
		}
		nic.Name, nic.MAC, nic.PCI, nic.SwitchID, nic.Master = n.known[nic.Name], "", "", "", n.known[nic.Master]
		nic.IRQs = edited(nic.IRQs, func(irq *IRQ) {
			irq.Name, irq.Number, irq.Hint = cmp.Or(irq.On, irq.Name), 0, nil
		})
	}
	slices.SortFunc(all, func(a, b NIC) int { return CompareVersions(a.Name, b.Name) })
	return all
}

// speed returns the speed that a NIC has negotiated; 0: it has no link.
func (n *siblingNames) speed(name string) int {
	nic := Find(n.host.NICs, func(nic *NIC) bool { return nic.Name == name })
	if nic == nil || nic.Carrier == "down" {
		return 0
	}
	return nic.Speed
}

// devices renames what guests' packets pass besides NICs.
func (n *siblingNames) devices(c *Host) {
	c.Bridges = edited(c.Bridges, func(b *Bridge) { b.Name, b.MAC, b.Ports = n.known[b.Name], "", n.all(b.Ports) })
	c.Tunnels = edited(c.Tunnels, func(t *Tunnel) {
		t.Name, t.Lower, t.Master = n.known[t.Name], n.known[t.Lower], n.known[t.Master]
		t.Underlay = n.all(t.Underlay)
	})
	c.Links = edited(Where(c.Links, func(l Link) bool { return !n.gone[l.Name] }), func(l *Link) {
		l.Name, l.Lower, l.Master, l.Peer = n.known[l.Name], n.known[l.Lower], n.known[l.Master], ""
		l.Underlay = n.all(l.Underlay)
	})
	c.Pollers = edited(c.Pollers, func(p *Poller) { p.Functions, p.NICs = n.all(p.Functions), n.all(p.NICs) })
	if c.Routing != nil {
		routing := *c.Routing
		routing.Addressed, routing.Uplinks = n.all(routing.Addressed), n.all(routing.Uplinks)
		c.Routing = &routing
	}
	n.openVSwitch(c)
	if c.Passthrough != nil {
		p := *c.Passthrough
		p.Groups = nil
		p.Functions = edited(p.Functions, func(f *PhysicalFunction) {
			f.NIC, f.PCI = n.known[f.NIC], ""
			f.Bridges = edited(f.Bridges, func(b *PCIBridge) { b.PCI = "" })
		})
		slices.SortFunc(p.Functions, func(a, b PhysicalFunction) int { return CompareVersions(a.NIC, b.NIC) })
		c.Passthrough = &p
	}
}

// openVSwitch names the bridges and ports of Open vSwitch after the NICs that they go over. Ports over no NIC come and
// go with guests, containers and the other hosts of a mesh of tunnels; a chassis of OVN has its own name and address.
func (n *siblingNames) openVSwitch(c *Host) {
	if c.OpenVSwitch == nil {
		return
	}
	o := *c.OpenVSwitch
	if o.OVN != nil {
		chassis := *o.OVN
		chassis.Chassis, chassis.EncapIP = "", ""
		o.OVN = &chassis
	}
	o.Bridges = edited(o.Bridges, func(b *OVSBridge) {
		var nics []string
		ports := []OVSPort{}
		for _, p := range b.Ports {
			var over []string
			for _, i := range p.Interfaces {
				over = append(over, cmp.Or(n.known[i.Name], n.known[i.Options["dpdk-devargs"]]))
			}
			if slices.Contains(over, "") || len(over) == 0 || p.Name == b.Name {
				continue
			}
			p.Interfaces = slices.Clone(p.Interfaces)
			for k := range p.Interfaces {
				p.Interfaces[k].Name, p.Interfaces[k].Options = over[k], nil
			}
			slices.SortFunc(p.Interfaces, func(a, b OVSInterface) int { return CompareVersions(a.Name, b.Name) })
			slices.Sort(over)
			if p.Name = over[0]; len(over) > 1 {
				p.Name = "bond(" + strings.Join(over, "+") + ")"
			}
			ports, nics = append(ports, p), append(nics, over...)
		}
		slices.SortFunc(ports, func(a, b OVSPort) int { return CompareVersions(a.Name, b.Name) })
		if b.Ports = ports; len(nics) > 0 {
			slices.Sort(nics)
			b.Name = "bridge(" + strings.Join(nics, "+") + ")"
		}
	})
	c.OpenVSwitch = &o
}

// rest masks what other parts of the inventory say of names, disks and files, and leaves out the rules of guests.
func (n *siblingNames) rest(c *Host) {
	c.Netfilter.Rules = nil
	if c.Housekeeping != nil {
		k := *c.Housekeeping
		k.Swap = edited(k.Swap, func(s *SwapArea) { s.Name = s.Type })
		k.IRQs = edited(k.IRQs, func(irq *IRQ) { irq.Number, irq.Hint = 0, nil })
		k.VFFiles = edited(k.VFFiles, func(f *VFFile) { f.Path, f.Device = n.mask(f.Path), n.known[f.Device] })
		c.Housekeeping = &k
	}
	if c.Lasting != nil {
		l := *c.Lasting
		l.Sysctls = edited(l.Sysctls, n.owned)
		l.NetworkManager = edited(l.NetworkManager, func(v *OwnedValue) { n.owned(v); v.File = "" })
		c.Lasting = &l
	}
	if len(c.Attested) > 0 {
		attested := map[string]Attestation{}
		for id, a := range c.Attested {
			a.By, a.At = "", time.Time{}
			attested[id] = a
		}
		c.Attested = attested
	}
}

func (n *siblingNames) owned(v *OwnedValue) {
	v.Key, v.Value, v.Of = n.path(v.Key), n.mask(v.Value), n.known[v.Of]
}

// ownArguments are kernel arguments that name the host's own disks, addresses and files.
var ownArguments = []string{"BOOT_IMAGE", "root", "resume", "resume_offset", "initrd", "ip", "nfsroot",
	"systemd.machine_id", "systemd.hostname", "rd.luks.uuid", "rd.lvm.lv", "rd.md.uuid", "ostree", "netconsole"}

// commandLine leaves out the arguments that are each host's own.
func (n *siblingNames) commandLine(text string) string {
	words := Where(setting.ParseCommandLine(text), func(word string) bool {
		name, _, _ := strings.Cut(word, "=")
		return !slices.Contains(ownArguments, name)
	})
	return n.mask(strings.Join(words, " "))
}

// boot returns the boot loader and the entry that boots next.
func (n *siblingNames) boot(b *Boot) *Boot {
	if b == nil {
		return nil
	}
	c := &Boot{Loader: b.Loader, Writer: b.Writer, Frozen: n.mask(b.Frozen), Modules: b.Modules}
	if e, known := b.NextEntry(); known {
		c.Next = "next"
		c.Entries = []BootEntry{{ID: c.Next, Version: e.Version, Arguments: n.commandLine(e.Arguments)}}
	}
	return c
}

// ofGuests are the kinds of values that come with guests, and of whole rule sets, which name them.
var ofGuests = []setting.Kind{setting.Domain, setting.DomainLive, setting.DomainDevice, setting.ThreadAffinity,
	setting.Inside, setting.GuestArg, setting.VFAttr, setting.RuleSet, setting.Fact}

// desiredFile lists the values to restore, those of guests too.
const desiredFile = "var/lib/mpps/desired.json"

// readings returns the readings at the addresses that siblings have in common.
func (n *siblingNames) readings(all Readings) Readings {
	kept := make(Readings, len(all))
	for a, r := range all {
		if slices.Contains(ofGuests, a.Kind) || n.gone[a.Device()] || a.Path == desiredFile {
			continue
		}
		if slices.ContainsFunc(strings.Split(a.Path, "/"), func(e string) bool { return n.gone[e] }) {
			continue
		}
		r.Value = n.mask(r.Value)
		kept[n.address(a)] = r
	}
	return kept
}

// address returns the address of a value by the names of devices, without the numbers of interrupts.
func (n *siblingNames) address(a setting.Address) setting.Address {
	path := n.path(a.Path)
	switch a.Kind {
	case setting.IRQAffinity: // device, name, number
		if at := strings.LastIndexByte(path, '/'); at > 0 {
			path = path[:at]
		}
	case setting.IRQCPUs: // number, name
		if _, name, found := strings.Cut(path, "/"); found {
			path = name
		}
	case setting.Sysctl:
		if device := a.Device(); n.known[device] != "" {
			path = strings.ReplaceAll(a.Path, device, n.known[device])
		}
	}
	return setting.Address{Kind: a.Kind, Path: path}
}

// path replaces the elements of a path that name devices.
func (n *siblingNames) path(path string) string {
	elements := strings.Split(path, "/")
	for i, e := range elements {
		elements[i] = cmp.Or(n.known[e], e)
	}
	return strings.Join(elements, "/")
}

// mask replaces names of devices, and addresses, UUIDs and serials, which no two hosts share.
func (n *siblingNames) mask(text string) string {
	if text == "" || !strings.ContainsFunc(text, isLetter) {
		return text
	}
	for _, word := range n.words {
		if strings.Contains(text, word) {
			text = replaceWord(text, word, cmp.Or(n.known[word], "HOST"))
		}
	}
	if !strings.ContainsAny(text, ":-") && len(text) < 32 {
		return text
	}
	text = uuidWord.ReplaceAllString(text, "UUID")
	text = machineWord.ReplaceAllString(text, "ID")
	return macWord.ReplaceAllString(text, "MAC")
}

// isLetter reports whether a character can be part of a name.
func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
