package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Station is one stop of a packet's path.
type Station struct {
	Kind, Name, Text string
	BackEnd          bool // it serves the guest's NIC: vhost or QEMU
}

func (s Station) draw(t *Text, mark string) {
	t.Wrap(fmt.Sprintf("  %s %-6s %s  ", mark, s.Kind, t.In(Bold, fmt.Sprintf("%-12s", s.Name))), s.Text)
}

// draw draws a way from the wire to the guests.
func (w *Way) draw(t *Text) {
	for i, s := range w.Shared {
		s.draw(t, words.Either(w.Joined && i == len(w.Shared)-1, "┿", "╷"))
	}
	for _, b := range w.Branches {
		for i, s := range b.Stations {
			s.draw(t, words.Either(i == 0, "├", "│"))
		}
		last := b.Stations[len(b.Stations)-1] // a tap of no guest
		drawFolded(t, "  ├ ", words.Either(last.Kind == "tap", "tap", "guest"), b.Alike)
	}
	switch {
	case w.Declined != "":
		Station{Text: "not judged: mpps has no rules for " + w.Declined}.draw(t, "╵")
	case len(w.Branches) == 0:
		Station{Text: "no guest was found on this bridge"}.draw(t, "╵")
	}
	t.Blank()
	drawFolded(t, "  ", words.Either(len(w.Branches) > 0, "way", "bridge"), w.Alike)
}

// stationOf returns the station of a device between the wire and a guest's tap.
func stationOf(h *devices, hop reach.Hop) Station {
	if hop.Namespace != 0 {
		return namespaceStation(h.Host, hop)
	}
	s := Station{Kind: hop.Kind, Name: hop.Device}
	switch hop.Kind {
	case "openvswitch":
		s.Kind, s.Text = "OVS", ovsText(h.OpenVSwitch, hop.Device)
	case reach.PMDBridge:
		s.Kind, s.Text = "PMD", ovsText(h.OpenVSwitch, hop.Device)
	case reach.DPDKPort, reach.VhostUserPort:
		return polledStation(h.Host, hop)
	case reach.Routing:
		s.Kind, s.Name = "route", "the host"
		s.Text = "forwards by its routes" + words.If(h.Routing.Masquerade == facts.Yes, ", with NAT")
	}
	if n := h.nics[hop.Device]; n != nil {
		s.Text = nicText(*n)
	}
	if b := h.bridges[hop.Device]; b != nil {
		s = bridgeStation(h.Host, *b)
	}
	if l := h.tunnels[hop.Device]; l != nil {
		if ports, known := ovsTunnelStation(h.Host, l); known {
			return ports
		}
		s.Text = tunnelText(*l)
	}
	if l := h.links[hop.Device]; l != nil && s.Text == "" {
		s.Text = linkText(h.Host, *l)
	}
	return s
}

// devices finds the devices and guests of a host by name: a bridge can have thousands of ports, a guest of NICs.
type devices struct {
	*facts.Host
	guests  map[string]*facts.Guest
	vnics   map[vnic]facts.Interface
	nics    map[string]*facts.NIC
	bridges map[string]*facts.Bridge
	tunnels map[string]*facts.Tunnel
	links   map[string]*facts.Link
}

// vnic is a guest's NIC, by the names that a path has of it.
type vnic struct{ guest, mac string }

func devicesOf(h *facts.Host) *devices {
	guests := byName(h.Guests, func(g *facts.Guest) string { return g.Name })
	vnics := map[vnic]facts.Interface{}
	for _, g := range guests {
		for _, i := range slices.Backward(g.NICs()) { // the first of a MAC wins
			vnics[vnic{g.Name, i.MAC}] = i
		}
	}
	return &devices{h, guests, vnics, byName(h.NICs, func(n *facts.NIC) string { return n.Name }),
		byName(h.Bridges, func(b *facts.Bridge) string { return b.Name }),
		byName(h.Tunnels, func(l *facts.Tunnel) string { return l.Name }),
		byName(h.Links, func(l *facts.Link) string { return l.Name })}
}

// byName indexes a list. The first of the same name wins.
func byName[T any](all []T, name func(*T) string) map[string]*T {
	index := make(map[string]*T, len(all))
	for i := len(all) - 1; i >= 0; i-- {
		index[name(&all[i])] = &all[i]
	}
	return index
}

func linkText(h *facts.Host, l facts.Link) string {
	switch {
	case l.Name == facts.OVSDatapath:
		return "the kernel's datapath of Open vSwitch, of all its bridges"
	case len(l.Programs) > 0:
		return words.Join(", ", otherEnd(h, l), programsText(l))
	case l.Elsewhere && otherEnd(h, l) != "":
		return otherEnd(h, l)
	case l.Elsewhere:
		return "leads to another network namespace"
	case l.Peer != "":
		return "the other end is " + l.Peer
	case l.Kind == "ifb":
		return "tc sends what the guest sends through it, and it comes back"
	}
	return words.If(l.Lower != "", "over %s", l.Lower)
}

// pathStations returns what is between the last device that a path shares with others and the guest's inside.
func pathStations(named *devices, p reach.Path) []Station {
	h, g := named.Host, named.guests[p.Guest]
	if slices.Contains(p.Kinds, reach.Function) {
		return functionStations(h, g, p)
	}
	list := guestStations(h, *g, named.vnics[vnic{p.Guest, p.MAC}])
	if p.Has(reach.VDPA) {
		list = slices.Concat(eswitchStations(h, p), list)
	}
	if len(p.Hops) > 0 && p.Hops[0].Kind == reach.VhostUserPort {
		list = append([]Station{polledStation(h, p.Hops[0])}, list...)
	}
	if inside := insideText(*g, p.MAC); inside != "" {
		list = append(list, Station{Kind: "inside", Text: inside})
	}
	return list
}

// eswitchStations returns the representor of a path's function, if it has one, and the function.
func eswitchStations(h *facts.Host, p reach.Path) (list []Station) {
	for _, hop := range p.Hops {
		if hop.Kind == reach.RepresentorPort {
			list = append(list, Station{Kind: "port", Name: hop.Device, Text: "representor of the function: packets " +
				"that no offloaded rule handles pass the host here"})
		}
	}
	if v := facts.Find(h.VFs, func(v *facts.VF) bool { return v.PCI != "" && v.PCI == p.Function }); v != nil {
		list = append(list, Station{Kind: "VF", Name: fmt.Sprintf("%s vf %d", v.PF, v.Index),
			Text: fmt.Sprintf("%s, IOMMU group %d, driver %s", v.PCI, v.Group, v.Driver)})
	}
	return list
}

// functionStations returns a passed-through function and its guest.
func functionStations(h *facts.Host, g *facts.Guest, p reach.Path) []Station {
	list := eswitchStations(h, p)
	if len(list) == 0 {
		list = []Station{{Kind: "PCI", Name: p.Function, Text: "passed through"}}
	}
	return append(list, Station{Kind: "guest", Name: g.Name, Text: g.State + ofOwner(*g) +
		": the function is passed through, no copy on the host"})
}

// GuestPath returns bridge, tap, back end and guest of a guest's first NIC; nothing if there is none.
func GuestPath(h *facts.Host, guest string) []Station {
	g := facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == guest })
	if g == nil || len(g.Interfaces) == 0 {
		return nil
	}
	nic := g.Interfaces[0]
	stations := guestStations(h, *g, nic)
	if b := facts.Find(h.Bridges, func(b *facts.Bridge) bool { return b.Name == nic.Source }); b != nil {
		stations = append([]Station{bridgeStation(h, *b)}, stations...)
	}
	return stations
}

// ofOwner names the platform that makes a guest's definition; empty if that is the operator, with libvirt.
func ofOwner(g facts.Guest) string { return words.If(g.Platform().Rewrites(), ", %s", ownerText(g)) }

// ownerText names the platform of a guest, with its own name of the guest if that is another.
func ownerText(g facts.Guest) string {
	if g.Owner == nil || g.Owner.ID == "" || g.Owner.ID == g.Name {
		return "of " + g.Platform().Title()
	}
	return "of " + g.Owner.String()
}

// vcpuSeats returns the CPUs that a guest's vCPUs are pinned to, or that somebody, such as Proxmox VE, bound all of
// their threads to; none if they run wherever nothing is isolated.
func vcpuSeats(h *facts.Host, g *facts.Guest) (seats setting.CPUSet) {
	for _, pin := range g.VCPUPins() {
		seats = seats.Or(pin)
	}
	if len(seats) > 0 || g.Managed {
		return seats
	}
	for _, t := range g.Threads {
		if t.Role == "vcpu" {
			seats = seats.Or(t.Affinity)
		}
	}
	if len(h.Topology.Online.Minus(h.SetAside()).Minus(seats)) == 0 {
		return nil
	}
	return seats
}

// guestStations returns tap, back end and guest of one of a guest's NICs.
func guestStations(h *facts.Host, g facts.Guest, i facts.Interface) []Station {
	var list []Station
	if i.Tap != "" {
		list = append(list, Station{Kind: "tap", Name: i.Tap, Text: tapText(h, &g, i)})
	}
	seats := vcpuSeats(h, &g)
	pins := words.Either(len(seats) > 0, " on CPUs "+seats.String(), " not pinned")
	text := fmt.Sprintf("%s: %s NIC%s, %s, %s%s", g.State+words.If(g.Job != "", " (%s)", g.Job)+ofOwner(g),
		cmp.Or(i.Model, i.Type), words.If(i.MAC != "", " %s", i.MAC), words.Count(max(i.Queues, 1), "queue"),
		words.Count(g.VCPUs, "vCPU"), pins) +
		words.If(len(g.Pending) > 0, "; %s for a restart", words.Count(len(g.Pending), "change waits", "changes wait"))
	return append(list, backEnd(h, g, i), Station{Kind: "guest", Name: g.Name, Text: text})
}

// insideText returns what a guest's agent reports about the guest and its NIC with a MAC address; empty if the guest
// was not looked into.
func insideText(g facts.Guest, mac string) string {
	if g.Inside == nil {
		return ""
	}
	parts := []string{g.Inside.Release, g.Inside.OS}
	if in := g.Inside.Host; in != nil {
		for _, n := range in.NICs {
			if n.MAC == mac && n.Channels != nil {
				queues := words.Count(n.Channels.MaxCombined, "queue")
				parts = append(parts, fmt.Sprintf("%s uses %d of %s", n.Name, n.Channels.Combined, queues))
			}
		}
		parts = append(parts, words.If(in.Kernel.Clocksource != "", "clock %s", in.Kernel.Clocksource))
	}
	return words.Join(", ", append(parts, words.If(g.Inside.Why != "", "not seen: %s", g.Inside.Why))...)
}

// backEnd returns what serves a guest's NIC.
func backEnd(h *facts.Host, g facts.Guest, i facts.Interface) Station {
	s := Station{Kind: "vhost", BackEnd: true}
	switch {
	case i.Type == "user" || i.Backend == "passt":
		s.Kind, s.Name = "user", cmp.Or(i.Backend, "slirp")
		s.Text = "a process makes sockets of the guest's packets: no tap, no vhost"
		return s
	case i.Type == "vhostuser" || i.Type == "vhost-user":
		s.Kind, s.Name, s.Text = "vhost", "user", "another process has the vrings"+pollersText(h)
		if _, port := h.OpenVSwitch.VhostUserPort(i.Source); port != nil && h.OpenVSwitch.Polled != nil {
			s.Name = cmp.Or(port.Status["mode"], "socket")
			s.Text = words.Join(", ", i.Source, port.Status["status"],
				words.If(port.Status["vring_0_size"] != "", "rings of %s", port.Status["vring_0_size"]))
		}
		return s
	case i.VDPA():
		s.Kind, s.Name, s.Text = "vDPA", i.Source, "the device serves the vrings"
		if v := h.VDPAOf(i); v != nil {
			s.Name, s.Text = v.Name, words.Join(", ", v.Parent+" serves the vrings", v.Node,
				words.If(v.Queues > 0, "%s", words.Count(v.Queues, "queue pair")), words.If(v.MTU > 0, "MTU %d", v.MTU))
		}
		return s
	case !i.Virtio():
		s.Kind, s.Name, s.Text = "QEMU", "device model", "QEMU emulates the NIC's registers: many exits a packet"
		return s
	}
	var where []string
	sure := "of some NIC of the guest"
	for _, thread := range g.Threads {
		if thread.Role != "vhost" || thread.NIC != "" && thread.NIC != i.MAC {
			continue
		}
		switch thread.Sure {
		case "":
		case facts.OnlyOne:
			sure = "the only one"
		default:
			sure = "found by " + string(thread.Sure)
		}
		where = append(where, fmt.Sprintf("%d on CPU %d (allowed %s)", thread.TID, thread.CPU, thread.Affinity))
	}
	switch {
	case len(where) > 0:
		s.Name, s.Text = words.Count(len(where), "thread"), strings.Join(where, ", ")+": "+sure
	case i.Backend == "qemu":
		s.Kind, s.Name, s.Text = "QEMU", "back end", "QEMU copies every packet in its own process"
	case g.State == "running":
		s.Name, s.Text = "unknown", "no vhost thread seen"
	default:
		s.Text = "not running"
	}
	return s
}

func nicText(n facts.NIC) string {
	node := words.Either(n.Node >= 0, fmt.Sprintf("node %d", n.Node), "node unknown")
	queues := fmt.Sprintf("%d rx and %d tx queues", n.RxQueues, n.TxQueues)
	parts := []string{cmp.Or(n.Driver, "unknown driver"), node, queues}
	if n.Rings != nil {
		parts = append(parts, fmt.Sprintf("rings %d/%d", n.Rings.Rx, n.Rings.Tx))
	}
	var irqs setting.CPUSet
	for _, irq := range n.IRQs {
		irqs = irqs.Or(irq.Affinity)
	}
	parts = append(parts, words.If(len(irqs) > 0, "interrupts on %s", irqs.Words()))
	if n.SRIOV != nil {
		parts = append(parts, fmt.Sprintf("%d of %d VFs", n.SRIOV.Enabled, n.SRIOV.Total))
	}
	return words.Join(", ", append(parts, words.If(n.Management != "", "management path: %s", n.Management))...)
}

func tunnelText(t facts.Tunnel) string {
	return words.Count(t.TxQueues, "tx queue") + words.If(t.Lockless, ", lockless") +
		words.If(t.Lower != "", ", over %s", t.Lower)
}

// bridgeStation says whether a bridge's frames run through iptables, which either its own switch or the host's decides
// (net/bridge/br_netfilter_hooks.c, br_nf_pre_routing), and how many rules wait there.
func bridgeStation(h *facts.Host, b facts.Bridge) Station {
	on, sure := false, true
	for name, own := range map[string]bool{"iptables": b.CallIPTables, "ip6tables": b.CallIP6Tables,
		"arptables": b.CallARPTables} {
		hosts := h.Readings.At(setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-"+name))
		on = on || own || hosts.Value == "1"
		sure = sure && hosts.State != setting.Unknown
	}
	rules := 0
	for _, set := range h.Netfilter.Rules {
		rules += set.Rules
	}
	text := "its frames skip iptables"
	switch {
	case on:
		text = "its frames run through iptables, " + words.Count(rules, "rule") + " on the host"
	case h.Netfilter.BridgeModule && !sure:
		text = "br_netfilter is loaded: its frames may run through iptables"
	}
	return Station{Kind: "bridge", Name: b.Name, Text: text + words.If(b.STP, ", STP") +
		words.If(b.VLANFiltering, ", VLAN filtering")}
}

// pollersText names the processes that have vrings of guests, and their CPUs.
func pollersText(h *facts.Host) string {
	var all []string
	for _, p := range h.Pollers {
		if p.Sockets {
			all = append(all, fmt.Sprintf("%s (%d) on %s", p.Comm, p.PID, p.CPUs.Words()))
		}
	}
	return words.If(len(all) > 0, ": %s", strings.Join(all, ", "))
}
