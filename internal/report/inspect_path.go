package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/report/words"
)

// Station is one stop of a packet's path.
type Station struct {
	Kind, Name, Text string
	BackEnd          bool // it serves the guest's NIC: vhost or QEMU
}

func (s Station) draw(t *Text, mark string) {
	t.Wrap(fmt.Sprintf("  %s %-6s %s  ", mark, s.Kind, t.In(Bold, fmt.Sprintf("%-12s", s.Name))), s.Text)
}

// drawPaths draws the paths of the guests, those that share their way to the wire together, and the bridges without
// guests. It returns what was drawn.
func drawPaths(t *Text, h *facts.Host, verbose bool) map[string]bool {
	drawn := map[string]bool{}
	m := reach.Of(h)
	ways := slices.DeleteFunc(Group(m.Paths, wayKey), func(all []reach.Path) bool {
		return len(all[0].Hops) == 0 && len(all[0].NICs) == 0 && !all[0].Active
	})
	for _, alike := range Group(ways, func(way []reach.Path) string { return wayShape(h, way) }) {
		shown := alike[:fold(len(alike), mostWays, verbose)]
		for _, way := range shown {
			drawWay(t, h, way, drawn, verbose)
		}
		var names []string
		for _, way := range alike[len(shown):] {
			names = append(names, wayName(way))
			markDrawn(h, way, drawn)
		}
		drawFolded(t, "  ", "way", names)
	}
	empty := slices.DeleteFunc(slices.Clone(h.Bridges), func(b facts.Bridge) bool { return drawn[b.Name] })
	shown := fold(len(empty), mostWays, verbose)
	for _, b := range empty[:shown] {
		drawStations(t, h, m.From(b.Name), drawn)
		Station{Text: "no guest on this bridge"}.draw(t, "╵")
		t.Blank()
	}
	for _, b := range empty[shown:] {
		for _, hop := range m.From(b.Name) {
			drawn[hop.Device] = true
		}
	}
	drawFolded(t, "  ", "bridge", words.Each(empty[shown:], func(b facts.Bridge) string { return b.Name }))
	return drawn
}

// wayShape is the same for ways that differ in names alone: the kinds of their stations, and of their guests.
func wayShape(h *facts.Host, way []reach.Path) string {
	key := []string{fmt.Sprint(way[0].Kinds)}
	for _, hop := range outward(way[0].Hops) {
		key = append(key, hop.Kind)
	}
	for _, alike := range Group(way, func(p reach.Path) string { return pathShape(h, p) }) {
		key = append(key, pathShape(h, alike[0]), words.Either(len(alike) > 1, "several", "one"))
	}
	return strings.Join(key, "|")
}

// pathShape is the same for guests' NICs that differ in names, addresses and CPUs alone.
func pathShape(h *facts.Host, p reach.Path) string {
	g := guestOf(h, p)
	at := slices.IndexFunc(g.NICs(), func(i facts.Interface) bool { return i.MAC == p.MAC })
	if at < 0 {
		return fmt.Sprint(p.Kinds, g.State)
	}
	i := g.NICs()[at]
	return fmt.Sprint(p.Kinds, g.State, g.Job, g.VCPUs, len(g.Pins) > 0, len(g.Pending) > 0, i.Model, i.Type, i.Backend,
		i.Queues)
}

func guestOf(h *facts.Host, p reach.Path) *facts.Guest {
	return facts.Find(h.Guests, func(g *facts.Guest) bool { return g.Name == p.Guest })
}

// wayName names a way that is not drawn: the device nearest to its guests, or its NICs.
func wayName(way []reach.Path) string {
	if hops := outward(way[0].Hops); len(hops) > 0 {
		return hops[0].Device
	}
	return cmp.Or(strings.Join(way[0].NICs, "+"), way[0].Guest)
}

// markDrawn marks what stands for something that is drawn.
func markDrawn(h *facts.Host, way []reach.Path, drawn map[string]bool) {
	for _, p := range way {
		for _, hop := range p.Hops {
			drawn[hop.Device] = true
		}
		for _, nic := range p.NICs {
			drawn[nic] = true
		}
		drawn["guest "+p.Guest] = true
	}
}

// wayKey is the same for paths that differ in the tap alone.
func wayKey(p reach.Path) string {
	key := []string{fmt.Sprint(p.Kinds), strings.Join(p.NICs, ",")}
	for _, hop := range outward(p.Hops) {
		key = append(key, hop.Device)
	}
	return strings.Join(key, " ")
}

// outward returns a path's hops beyond the guest's own tap.
func outward(hops []reach.Hop) []reach.Hop {
	if len(hops) > 0 && (hops[0].Kind == "tap" || hops[0].Kind == "macvtap") {
		return hops[1:]
	}
	return hops
}

// drawWay draws paths that share their way to the wire: NICs, what is between, and a branch for each guest's NIC.
func drawWay(t *Text, h *facts.Host, group []reach.Path, drawn map[string]bool, verbose bool) {
	first := group[0]
	drawStations(t, h, outward(first.Hops), drawn)
	if len(first.Hops) == 0 {
		for _, nic := range first.NICs {
			Station{Kind: "NIC", Name: nic, Text: "physical function"}.draw(t, "╷")
		}
	}
	markDrawn(h, group, drawn)
	for _, alike := range Group(group, func(p reach.Path) string { return pathShape(h, p) }) {
		shown := len(alike)
		if !verbose && len(group) > mostAlike {
			shown = 1
		}
		for _, p := range alike[:shown] {
			mark := "├"
			for _, s := range pathStations(h, guestOf(h, p), p) {
				drawn[s.Name] = drawn[s.Name] || s.Kind == "tap"
				s.draw(t, mark)
				mark = "│"
			}
		}
		drawFolded(t, "  ├ ", "guest", words.Each(alike[shown:], func(p reach.Path) string { return p.Guest }))
	}
	if declined := first.Declined(); len(declined) > 0 {
		Station{Text: "not judged: mpps has no rules for " + reach.Words(declined)}.draw(t, "╵")
	}
	t.Blank()
}

// drawStations draws NICs, then what is between them and the guests, the wire first.
func drawStations(t *Text, h *facts.Host, hops []reach.Hop, drawn map[string]bool) {
	isNIC := func(hop reach.Hop) bool { return hop.Kind == "NIC" }
	nics := slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(hops), func(hop reach.Hop) bool {
		return !isNIC(hop)
	})), func(a, b reach.Hop) int { return strings.Compare(a.Device, b.Device) })
	between := slices.DeleteFunc(slices.Clone(hops), isNIC)
	slices.Reverse(between)
	all := slices.Concat(nics, between)
	for at, hop := range all {
		drawn[hop.Device] = true
		stationOf(h, hop).draw(t, words.Either(at == len(all)-1, "┿", "╷"))
	}
}

// stationOf returns the station of a device between the wire and a guest's tap.
func stationOf(h *facts.Host, hop reach.Hop) Station {
	s := Station{Kind: hop.Kind, Name: hop.Device}
	switch hop.Kind {
	case "openvswitch":
		s.Kind = "OVS"
	case reach.Routing:
		s.Kind, s.Name = "route", "the host"
		s.Text = "forwards by its routes" + words.If(h.Routing.Masquerade == facts.Yes, ", with NAT")
	}
	if n := facts.Find(h.NICs, func(n *facts.NIC) bool { return n.Name == hop.Device }); n != nil {
		s.Text = nicText(*n)
	}
	if b := facts.Find(h.Bridges, func(b *facts.Bridge) bool { return b.Name == hop.Device }); b != nil {
		s = bridgeStation(h, *b)
	}
	if l := facts.Find(h.Tunnels, func(l *facts.Tunnel) bool { return l.Name == hop.Device }); l != nil {
		s.Text = tunnelText(*l)
	}
	if l := facts.Find(h.Links, func(l *facts.Link) bool { return l.Name == hop.Device }); l != nil {
		s.Text = linkText(*l)
	}
	return s
}

func linkText(l facts.Link) string {
	switch {
	case l.Name == facts.OVSDatapath:
		return "the kernel's datapath of Open vSwitch, of all its bridges"
	case l.Elsewhere:
		return "leads to another network namespace"
	case l.Peer != "":
		return "the other end is " + l.Peer
	}
	return words.If(l.Lower != "", "over %s", l.Lower)
}

// pathStations returns what is between the last device that a path shares with others and the guest's inside.
func pathStations(h *facts.Host, g *facts.Guest, p reach.Path) []Station {
	at := slices.IndexFunc(g.NICs(), func(i facts.Interface) bool { return i.MAC == p.MAC })
	if slices.Contains(p.Kinds, reach.Function) {
		return functionStations(h, g, p)
	}
	list := guestStations(h, *g, g.NICs()[at])
	if inside := insideText(*g, p.MAC); inside != "" {
		list = append(list, Station{Kind: "inside", Text: inside})
	}
	return list
}

// functionStations returns a passed-through function and its guest.
func functionStations(h *facts.Host, g *facts.Guest, p reach.Path) []Station {
	what := Station{Kind: "PCI", Name: p.Function, Text: "passed through"}
	if v := facts.Find(h.VFs, func(v *facts.VF) bool { return v.PCI == p.Function }); v != nil {
		what = Station{Kind: "VF", Name: fmt.Sprintf("%s vf %d", v.PF, v.Index),
			Text: fmt.Sprintf("%s, IOMMU group %d, driver %s", v.PCI, v.Group, v.Driver)}
	}
	return []Station{what, {Kind: "guest", Name: g.Name, Text: g.State +
		": the function is passed through, no copy on the host"}}
}

// GuestPath returns bridge, tap, back end and guest of a guest's first NIC; nothing if there is none.
func GuestPath(h *facts.Host, guest string) []Station {
	at := slices.IndexFunc(h.Guests, func(g facts.Guest) bool { return g.Name == guest })
	if at < 0 || len(h.Guests[at].Interfaces) == 0 {
		return nil
	}
	nic := h.Guests[at].Interfaces[0]
	stations := guestStations(h, h.Guests[at], nic)
	if b := slices.IndexFunc(h.Bridges, func(b facts.Bridge) bool { return b.Name == nic.Source }); b >= 0 {
		stations = append([]Station{bridgeStation(h, h.Bridges[b])}, stations...)
	}
	return stations
}

// guestStations returns tap, back end and guest of one of a guest's NICs.
func guestStations(h *facts.Host, g facts.Guest, i facts.Interface) []Station {
	var list []Station
	if i.Tap != "" {
		text := "one queue"
		if at := slices.IndexFunc(h.Taps, func(tap facts.Tap) bool { return tap.Name == i.Tap }); at >= 0 {
			text = fmt.Sprintf("%s, tx queue length %d", words.Count(h.Taps[at].RxQueues, "queue"),
				h.Taps[at].TxQueueLen)
		}
		list = append(list, Station{Kind: "tap", Name: i.Tap, Text: text})
	}
	var pinned setting.CPUSet
	for _, p := range g.Pins {
		pinned = pinned.Or(p)
	}
	pins := words.Either(len(pinned) > 0, " on CPUs "+pinned.String(), " not pinned")
	text := fmt.Sprintf("%s: %s NIC %s, %s, %s%s", g.State+words.If(g.Job != "", " (%s)", g.Job),
		cmp.Or(i.Model, i.Type), i.MAC, words.Count(max(i.Queues, 1), "queue"), words.Count(g.VCPUs, "vCPU"), pins) +
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
		return s
	case i.Type == "vdpa" || i.Type == "vhost-vdpa":
		s.Kind, s.Name, s.Text = "vDPA", i.Source, "the device has the vrings"
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
