package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/setting"
)

// Inspect draws what a host is: one line of who it is, its nodes, and the path of a packet from each NIC to each guest.
func Inspect(t *Text, h *facts.Host) {
	t.Wrapped("", t.In(Bold, headline(h)))
	topologyLines(t, h)
	if h.Lasting != nil {
		tunedProfile(t, h.Lasting.Tuned)
	}
	t.Blank()
	drawn := map[string]bool{}
	for _, b := range h.Bridges {
		bridgePath(t, h, b, drawn)
		t.Blank()
	}
	passthrough(t, h, drawn)
	others(t, h, drawn)
	for _, s := range h.Topology.Suspect {
		t.Wrapped(t.In(Yellow, "suspect: "), s)
	}
}

func headline(h *facts.Host) string {
	words := []string{cmp.Or(h.Name, "host")}
	if h.Kernel.Release != "" {
		words = append(words, "Linux "+h.Kernel.Release)
	}
	if h.Topology.Model != "" {
		words = append(words, h.Topology.Model)
	}
	if h.Emulated {
		words = append(words, "EMULATED: its rates and times prove nothing")
	} else if h.Virtual != "" {
		words = append(words, "a guest of "+h.Virtual)
	}
	return strings.Join(words, " · ")
}

func topologyLines(t *Text, h *facts.Host) {
	c := h.Topology.Counts
	line := fmt.Sprintf("%s, %s, %s, %s", count(c.Packages, "package"), count(c.NUMANodes, "NUMA node"),
		count(c.Cores, "core"), count(c.CPUsOnline, "CPU"))
	if c.CPUsOffline > 0 {
		line += fmt.Sprintf(" and %d offline", c.CPUsOffline)
	}
	if c.L3Caches > 0 {
		line += ", " + count(c.L3Caches, "L3 cache")
	}
	t.Line("%s", line)
	var rows [][]string
	for _, n := range h.Topology.Nodes {
		row := []string{fmt.Sprintf("  node %d", n.ID), CPUs(n.CPUs),
			fmt.Sprintf("%s, %s free", Bytes(n.Memory), Bytes(n.Free)), hugepages(n.Hugepages)}
		rows = append(rows, row)
	}
	t.Table(rows)
}

func hugepages(pools []facts.Hugepages) string {
	var words []string
	for _, p := range pools {
		if p.Total > 0 {
			words = append(words, fmt.Sprintf("%d × %s pages (%d free)", p.Total, Bytes(p.Size), p.Free))
		}
	}
	if len(words) == 0 {
		return "no huge pages"
	}
	return strings.Join(words, ", ")
}

// station is one stop of a drawn path.
type station struct{ kind, name, text string }

func (s station) draw(t *Text, mark string) {
	t.Wrapped(fmt.Sprintf("  %s %-6s %s  ", mark, s.kind, t.In(Bold, fmt.Sprintf("%-12s", s.name))), s.text)
}

// bridgePath draws what is above a bridge once, the bridge, and a branch for each guest's NIC on it.
func bridgePath(t *Text, h *facts.Host, b facts.Bridge, drawn map[string]bool) {
	drawn[b.Name] = true
	for _, n := range h.NICs {
		if n.Master == b.Name || slices.Contains(b.Ports, n.Name) {
			drawn[n.Name] = true
			station{"NIC", n.Name, nicText(n)}.draw(t, "╷")
		}
	}
	for _, tunnel := range h.Tunnels {
		if tunnel.Master == b.Name {
			drawn[tunnel.Name] = true
			station{tunnel.Type, tunnel.Name, tunnelText(tunnel)}.draw(t, "╷")
		}
	}
	station{"bridge", b.Name, bridgeText(h, b)}.draw(t, "┿")
	found := false
	for _, g := range h.Guests {
		for _, i := range g.NICs() {
			if i.Source != b.Name && (i.Tap == "" || !slices.Contains(b.Ports, i.Tap)) {
				continue
			}
			found = true
			drawn[i.Tap], drawn["guest "+g.Name] = true, true
			for n, s := range guestStations(h, g, i) {
				s.draw(t, map[bool]string{true: "├", false: "│"}[n == 0])
			}
		}
	}
	if !found {
		station{"", "", "no guest on this bridge"}.draw(t, "╵")
	}
}

func guestStations(h *facts.Host, g facts.Guest, i facts.Interface) []station {
	var list []station
	if i.Tap != "" {
		text := "one queue"
		if at := slices.IndexFunc(h.Taps, func(tap facts.Tap) bool { return tap.Name == i.Tap }); at >= 0 {
			tap := h.Taps[at]
			text = fmt.Sprintf("%s, tx queue length %d", count(tap.RxQueues, "queue"), tap.TxQueueLen)
		}
		list = append(list, station{"tap", i.Tap, text})
	}
	list = append(list, vhostStation(g, i))
	vcpus := fmt.Sprintf("%s NIC %s, %s, %s", cmp.Or(i.Model, i.Type), i.MAC, count(max(i.Queues, 1), "queue"),
		count(g.VCPUs, "vCPU"))
	if pins := pinned(g); pins != "" {
		vcpus += " on CPUs " + pins
	} else {
		vcpus += " not pinned"
	}
	if len(g.Pending) > 0 {
		vcpus += fmt.Sprintf("; %s for a restart", count(len(g.Pending), "change waits", "changes wait"))
	}
	state := g.State
	if g.Job != "" {
		state += " (" + g.Job + ")"
	}
	list = append(list, station{"guest", g.Name, state + ": " + vcpus})
	if text := insideText(g, i.MAC); text != "" {
		list = append(list, station{"inside", "", text})
	}
	return list
}

// insideText is what a guest's agent tells, of its NIC with an address too; empty where nobody asked.
func insideText(g facts.Guest, mac string) string {
	if g.Inside == nil {
		return ""
	}
	var words []string
	for _, word := range []string{g.Inside.Release, g.Inside.OS} {
		if word != "" {
			words = append(words, word)
		}
	}
	if in := g.Inside.Host; in != nil {
		for _, n := range in.NICs {
			if n.MAC == mac && n.Channels != nil {
				words = append(words, fmt.Sprintf("%s uses %d of %s", n.Name, n.Channels.Combined, count(n.Channels.MaxCombined, "queue")))
			}
		}
		if in.Kernel.Clocksource != "" {
			words = append(words, "clock "+in.Kernel.Clocksource)
		}
	}
	if g.Inside.Why != "" {
		words = append(words, "not seen: "+g.Inside.Why)
	}
	return strings.Join(words, ", ")
}

func pinned(g facts.Guest) string {
	var all setting.CPUSet
	for _, p := range g.Pins {
		all = all.Or(p)
	}
	return all.String()
}

func vhostStation(g facts.Guest, i facts.Interface) station {
	if i.Model != "virtio" {
		return station{"QEMU", "device model", "QEMU emulates the NIC's registers: many exits a packet"}
	}
	var where []string
	sure := "of some NIC of the guest"
	for _, thread := range g.Threads {
		if thread.Role == "vhost" && (thread.NIC == "" || thread.NIC == i.MAC) {
			if thread.Sure != "" {
				sure = "found by " + string(thread.Sure)
				if thread.Sure == facts.OnlyOne {
					sure = "the only one"
				}
			}
			where = append(where, fmt.Sprintf("%d on CPU %d (allowed %s)", thread.TID, thread.CPU, thread.Affinity))
		}
	}
	switch {
	case len(where) > 0:
		return station{"vhost", count(len(where), "thread"), strings.Join(where, ", ") + ": " + sure}
	case i.Backend == "qemu":
		return station{"QEMU", "back end", "QEMU copies every packet in its own process"}
	case g.State == "running":
		return station{"vhost", "unknown", "no vhost thread seen"}
	}
	return station{"vhost", "", "not running"}
}

func nicText(n facts.NIC) string {
	words := []string{cmp.Or(n.Driver, "unknown driver")}
	if n.Node >= 0 {
		words = append(words, fmt.Sprintf("node %d", n.Node))
	} else {
		words = append(words, "node unknown")
	}
	words = append(words, fmt.Sprintf("%d rx and %d tx queues", n.RxQueues, n.TxQueues))
	if n.Rings != nil {
		words = append(words, fmt.Sprintf("rings %d/%d", n.Rings.Rx, n.Rings.Tx))
	}
	var irqs setting.CPUSet
	for _, irq := range n.IRQs {
		irqs = irqs.Or(irq.Affinity)
	}
	if len(irqs) > 0 {
		words = append(words, "interrupts on "+CPUs(irqs))
	}
	if n.SRIOV != nil {
		words = append(words, fmt.Sprintf("%d of %d VFs", n.SRIOV.Enabled, n.SRIOV.Total))
	}
	if n.Management != "" {
		words = append(words, "management path: "+n.Management)
	}
	return strings.Join(words, ", ")
}

func tunnelText(t facts.Tunnel) string {
	text := count(t.TxQueues, "tx queue")
	if t.Lockless {
		text += ", lockless"
	}
	if t.Lower != "" {
		text += ", over " + t.Lower
	}
	return text
}

// bridgeText says whether a bridge's frames run through iptables, which either its own switch or the host's decides
// (net/bridge/br_netfilter_hooks.c, br_nf_pre_routing), and how many rules wait there.
func bridgeText(h *facts.Host, b facts.Bridge) string {
	on, sure := false, true
	for name, own := range map[string]bool{"iptables": b.CallIPTables, "ip6tables": b.CallIP6Tables, "arptables": b.CallARPTables} {
		hosts := h.Readings.At(setting.Of(setting.Sysctl, "net.bridge.bridge-nf-call-"+name))
		on = on || own || hosts.Value == "1"
		sure = sure && hosts.State != setting.Unknown
	}
	rules := 0
	for _, set := range h.Netfilter.Rules {
		rules += set.Rules
	}
	var words []string
	switch {
	case on:
		words = append(words, "its frames run through iptables, "+count(rules, "rule")+" on the host")
	case h.Netfilter.BridgeModule && !sure:
		words = append(words, "br_netfilter is loaded: its frames may run through iptables")
	default:
		words = append(words, "its frames skip iptables")
	}
	if b.STP {
		words = append(words, "STP")
	}
	if b.VLANFiltering {
		words = append(words, "VLAN filtering")
	}
	return strings.Join(words, ", ")
}

func passthrough(t *Text, h *facts.Host, drawn map[string]bool) {
	for _, g := range h.Guests {
		for _, pci := range g.Hostdevs {
			at := slices.IndexFunc(h.VFs, func(v facts.VF) bool { return v.PCI == pci })
			if at < 0 {
				continue
			}
			v := h.VFs[at]
			drawn[v.NIC], drawn["guest "+g.Name] = true, true
			station{"NIC", v.PF, "physical function"}.draw(t, "╷")
			station{"VF", fmt.Sprintf("%s vf %d", v.PF, v.Index),
				fmt.Sprintf("%s, IOMMU group %d, driver %s", v.PCI, v.Group, v.Driver)}.draw(t, "│")
			station{"guest", g.Name, g.State + ": the VF is passed through, no copy on the host"}.draw(t, "╵")
			t.Blank()
		}
	}
}

func others(t *Text, h *facts.Host, drawn map[string]bool) {
	var rows [][]string
	for _, n := range h.NICs {
		if !drawn[n.Name] {
			rows = append(rows, []string{"  NIC", n.Name, nicText(n)})
		}
	}
	for _, n := range h.Tunnels {
		if !drawn[n.Name] {
			rows = append(rows, []string{"  " + n.Type, n.Name, tunnelText(n)})
		}
	}
	for _, g := range h.Guests {
		if !drawn["guest "+g.Name] {
			rows = append(rows, []string{"  guest", g.Name, g.State + ", " + nicsText(g)})
		}
	}
	if len(rows) == 0 {
		return
	}
	t.Heading("not on a path to a guest")
	for _, row := range rows {
		t.Wrapped(fmt.Sprintf("%-9s %-12s  ", row[0], row[1]), row[2])
	}
}

// nicsText says what NICs a guest has that lead to no bridge of this host.
func nicsText(g facts.Guest) string {
	var words []string
	all := g.NICs()
	for _, i := range all[:min(len(all), 3)] {
		words = append(words, strings.TrimSpace(fmt.Sprintf("%s NIC on %s %s", cmp.Or(i.Model, "a"), i.Type, i.Source)))
	}
	if rest := len(all) - 3; rest > 0 {
		words = append(words, fmt.Sprintf("%d more", rest))
	}
	for _, pci := range g.Hostdevs {
		words = append(words, "passed through "+pci)
	}
	switch {
	case len(words) == 0 && g.Managed && g.Definition == "":
		return "its definition could not be seen"
	case len(words) == 0:
		return "no NIC"
	}
	return strings.Join(words, ", ")
}

// count writes a number with its noun: "1 queue", "4 queues"; a second noun is the plural where an s is not enough.
func count(n int, noun string, plural ...string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case len(plural) > 0:
		return fmt.Sprintf("%d %s", n, plural[0])
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Bytes writes a size with a binary unit in at most four digits.
func Bytes(n uint64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	v, unit := float64(n), 0
	for v >= 1024 && unit < len(units)-1 {
		v /= 1024
		unit++
	}
	if v == float64(int64(v)) || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[unit])
	}
	return fmt.Sprintf("%.1f %s", v, units[unit])
}
