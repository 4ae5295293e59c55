package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/words"
)

// Inspect draws what a host is: one line of who it is, its nodes, and the path of a packet from each NIC to each guest.
// On a host with many guests it draws what is alike once, unless verbose.
func Inspect(t *Text, h *facts.Host, verbose bool) {
	t.Wrap("", t.In(Bold, headline(h)))
	drawTopology(t, h)
	if h.Lasting != nil {
		drawTunedProfile(t, h.Lasting.Tuned)
	}
	t.Blank()
	drawOVN(t, h)
	ways, on := Ways(h, verbose)
	for _, w := range ways {
		w.draw(t)
	}
	drawOthers(t, h, on, verbose)
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

// other is a device or guest on no path that is drawn.
type other struct{ kind, name, text string }

// drawOthers lists what is on no path.
func drawOthers(t *Text, h *facts.Host, on map[string]bool, verbose bool) {
	var all, gateways []other
	add := func(seen bool, kind, name, text string) {
		if !seen {
			all = append(all, other{kind, name, text})
		}
	}
	for _, n := range h.NICs {
		add(on[n.Name], "NIC", n.Name, nicText(n))
	}
	for _, n := range h.Tunnels {
		if n.Type == "vlan" && on[n.Lower] && !on[n.Name] && facts.Find(h.Bridges,
			func(b *facts.Bridge) bool { return b.Name == n.Lower }) != nil {
			gateways = append(gateways, other{n.Type, n.Name, tunnelText(n)})
			continue
		}
		add(on[n.Name], n.Type, n.Name, tunnelText(n))
	}
	for _, g := range h.Guests {
		add(on["guest "+g.Name], "guest", g.Name, g.State+ofOwner(g)+", "+nicsText(g))
	}
	for _, u := range h.Unverified {
		add(false, "process", fmt.Sprint(u.PID), "unverified: calls itself guest "+u.Guest+", but "+u.Why)
	}
	drawList(t, "on a bridge of guests: the host's own way there, or their gateway", gateways, verbose)
	drawList(t, othersHeading(h), all, verbose)
}

// othersHeading returns what is known of all that is on no path that is drawn.
func othersHeading(h *facts.Host) string {
	role := h.Role()
	if role.Declined() || role == facts.RoleUnseen || reach.Of(h).Unsure() != "" {
		return "on no path that is drawn; whether guests' packets pass is not known"
	}
	return "not on a path to a guest"
}

func drawList(t *Text, heading string, all []other, verbose bool) {
	if len(all) == 0 {
		return
	}
	t.Heading(heading)
	for _, alike := range Group(all, func(o other) other { return other{kind: o.kind, text: o.text} }) {
		shown := alike[:fold(len(alike), mostAlike, verbose)]
		for _, o := range shown {
			t.Wrap(fmt.Sprintf("  %-7s %-12s  ", o.kind, o.name), o.text)
		}
		drawFolded(t, "  ", alike[0].kind, words.Each(alike[len(shown):], func(o other) string { return o.name }))
	}
}

// mostFolded is how many names are listed of things that are alike and not drawn.
const mostFolded = 6

// drawFolded names what is like the things above it and not drawn.
func drawFolded(t *Text, indent, what string, names []string) {
	if len(names) == 0 {
		return
	}
	t.Wrap(indent+"+ "+words.Count(len(names), what)+" alike: ",
		Few(names, mostFolded)+words.If(len(names) > mostFolded+1, " (-v shows all)"))
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
