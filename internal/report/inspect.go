package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/report/words"
)

// Inspect draws what a host is: one line of who it is, its nodes, and the path of a packet from each NIC to each guest.
func Inspect(t *Text, h *facts.Host) {
	t.Wrap("", t.In(Bold, headline(h)))
	drawTopology(t, h)
	if h.Lasting != nil {
		drawTunedProfile(t, h.Lasting.Tuned)
	}
	t.Blank()
	drawn := map[string]bool{}
	for _, b := range h.Bridges {
		drawBridgePath(t, h, b, drawn)
		t.Blank()
	}
	drawPassthrough(t, h, drawn)
	drawOthers(t, h, drawn)
	t.Each(t.In(Yellow, "suspect: "), h.Topology.Suspect)
}

func headline(h *facts.Host) string {
	virtual := words.Either(h.Emulated, "EMULATED: its rates and times prove nothing",
		words.If(h.Virtual != "", "a guest of %s", h.Virtual))
	kernel := words.If(h.Kernel.Release != "", "Linux %s", h.Kernel.Release)
	return words.Join(" · ", cmp.Or(h.Name, "host"), kernel, h.Topology.Model, virtual)
}

func drawTopology(t *Text, h *facts.Host) {
	c := h.Topology.Counts
	online := words.Count(c.CPUsOnline, "CPU") + words.If(c.CPUsOffline > 0, " and %d offline", c.CPUsOffline)
	t.Line("%s", words.Join(", ", words.Count(c.Packages, "package"), words.Count(c.NUMANodes, "NUMA node"),
		words.Count(c.Cores, "core"), online, words.Either(c.L3Caches > 0, words.Count(c.L3Caches, "L3 cache"), "")))
	var rows [][]string
	for _, n := range h.Topology.Nodes {
		memory := words.Bytes(n.Memory) + ", " + words.Bytes(n.Free) + " free"
		rows = append(rows, []string{fmt.Sprintf("  node %d", n.ID), n.CPUs.Words(), memory,
			hugepagesText(n.Hugepages)})
	}
	t.Table(rows)
}

func hugepagesText(pools []facts.Hugepages) string {
	parts := words.Each(pools, func(p facts.Hugepages) string {
		return words.If(p.Total > 0, "%d × %s pages (%d free)", p.Total, words.Bytes(p.Size), p.Free)
	})
	return cmp.Or(words.Join(", ", parts...), "no huge pages")
}

// Station is one stop of a packet's path.
type Station struct {
	Kind, Name, Text string
	BackEnd          bool // it serves the guest's NIC: vhost or QEMU
}

func (s Station) draw(t *Text, mark string) {
	t.Wrap(fmt.Sprintf("  %s %-6s %s  ", mark, s.Kind, t.In(Bold, fmt.Sprintf("%-12s", s.Name))), s.Text)
}

// drawBridgePath draws what is above a bridge once, the bridge, and a branch for each guest's NIC on it.
func drawBridgePath(t *Text, h *facts.Host, b facts.Bridge, drawn map[string]bool) {
	drawn[b.Name] = true
	for _, n := range h.NICs {
		if n.Master == b.Name || slices.Contains(b.Ports, n.Name) {
			drawn[n.Name] = true
			Station{Kind: "NIC", Name: n.Name, Text: nicText(n)}.draw(t, "╷")
		}
	}
	for _, tunnel := range h.Tunnels {
		if tunnel.Master == b.Name {
			drawn[tunnel.Name] = true
			Station{Kind: tunnel.Type, Name: tunnel.Name, Text: tunnelText(tunnel)}.draw(t, "╷")
		}
	}
	bridgeStation(h, b).draw(t, "┿")
	found := false
	for _, g := range h.Guests {
		for _, i := range g.NICs() {
			if i.Source != b.Name && (i.Tap == "" || !slices.Contains(b.Ports, i.Tap)) {
				continue
			}
			found = true
			drawn[i.Tap], drawn["guest "+g.Name] = true, true
			mark := "├"
			for _, s := range guestStations(h, g, i) {
				s.draw(t, mark)
				mark = "│"
			}
			if text := insideText(g, i.MAC); text != "" {
				Station{Kind: "inside", Text: text}.draw(t, "│")
			}
		}
	}
	if !found {
		Station{Text: "no guest on this bridge"}.draw(t, "╵")
	}
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
	return append(list, backEnd(g, i), Station{Kind: "guest", Name: g.Name, Text: text})
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
func backEnd(g facts.Guest, i facts.Interface) Station {
	s := Station{Kind: "vhost", BackEnd: true}
	if i.Model != "virtio" {
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

func drawPassthrough(t *Text, h *facts.Host, drawn map[string]bool) {
	for _, g := range h.Guests {
		for _, pci := range g.Hostdevs {
			at := slices.IndexFunc(h.VFs, func(v facts.VF) bool { return v.PCI == pci })
			if at < 0 {
				continue
			}
			v := h.VFs[at]
			drawn[v.NIC], drawn["guest "+g.Name] = true, true
			Station{Kind: "NIC", Name: v.PF, Text: "physical function"}.draw(t, "╷")
			Station{Kind: "VF", Name: fmt.Sprintf("%s vf %d", v.PF, v.Index),
				Text: fmt.Sprintf("%s, IOMMU group %d, driver %s", v.PCI, v.Group, v.Driver)}.draw(t, "│")
			Station{Kind: "guest", Name: g.Name, Text: g.State +
				": the VF is passed through, no copy on the host"}.draw(t, "╵")
			t.Blank()
		}
	}
}

// drawOthers lists what is on no path.
func drawOthers(t *Text, h *facts.Host, drawn map[string]bool) {
	headed := false
	add := func(seen bool, kind, name, text string) {
		if seen {
			return
		}
		if !headed {
			t.Heading("not on a path to a guest")
			headed = true
		}
		t.Wrap(fmt.Sprintf("  %-7s %-12s  ", kind, name), text)
	}
	for _, n := range h.NICs {
		add(drawn[n.Name], "NIC", n.Name, nicText(n))
	}
	for _, n := range h.Tunnels {
		add(drawn[n.Name], n.Type, n.Name, tunnelText(n))
	}
	for _, g := range h.Guests {
		add(drawn["guest "+g.Name], "guest", g.Name, g.State+", "+nicsText(g))
	}
}

// nicsText says what NICs a guest has that lead to no bridge of this host.
func nicsText(g facts.Guest) string {
	all := g.NICs()
	nics := words.Each(all[:min(len(all), 3)], func(i facts.Interface) string {
		return strings.TrimSpace(fmt.Sprintf("%s NIC on %s %s", cmp.Or(i.Model, "a"), i.Type, i.Source))
	})
	passed := words.Each(g.Hostdevs, func(pci string) string { return "passed through " + pci })
	parts := slices.Concat(nics, []string{words.If(len(all) > 3, "%d more", len(all)-3)}, passed)
	none := words.Either(g.Managed && g.Definition == "", "its definition could not be seen", "no NIC")
	return cmp.Or(words.Join(", ", parts...), none)
}
