package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/words"
)

// namespaceStation returns the station of a device of another network namespace, or of its network layer.
func namespaceStation(h *facts.Host, hop reach.Hop) Station {
	n := h.Namespace(hop.Namespace)
	s := Station{Kind: hop.Kind, Name: hop.Device}
	if n == nil {
		return s
	}
	if hop.Kind == "openvswitch" { // an internal port
		s.Kind = "OVS"
	}
	if hop.Kind == reach.Routing {
		s.Kind, s.Name = "route", "namespace"
		s.Text = "forwards by its routes" +
			words.If(n.Routing != nil && n.Routing.Masquerade == facts.Yes, ", with NAT")
	} else if d := facts.Find(n.Devices, func(d *facts.Device) bool { return d.Name == hop.Device }); d != nil {
		s.Text = namespaceDeviceText(h, d)
	}
	s.Text = words.Join(", ", s.Text, "in "+namespaceText(h, n))
	return s
}

// namespaceText names a namespace and the guests that run in it.
func namespaceText(h *facts.Host, n *facts.Namespace) string {
	guests := facts.Map(facts.Where(h.Guests, func(g facts.Guest) bool { return g.Namespace == n.ID }),
		func(g facts.Guest) string { return g.Name })
	return n.Title() + words.If(len(guests) > 0, " of guest %s", Few(guests, mostFolded))
}

func namespaceDeviceText(h *facts.Host, d *facts.Device) string {
	pair := d.Kind == "veth" || d.Kind == "netkit"
	beyond := ""
	if d.Elsewhere && d.Beyond == nil {
		beyond = words.Either(pair, "leads to a namespace that was not read",
			"what is below it is in another namespace")
	}
	if d.Beyond != nil {
		where := "the host"
		if n := h.Namespace(d.Beyond.Namespace); n != nil {
			where = n.Title()
		}
		beyond = words.Either(pair, "the other end is ", "over ") + d.Beyond.Device + " of " + where
	}
	function := ""
	if v := facts.Find(h.VFs, func(v *facts.VF) bool { return d.PCI != "" && v.PCI == d.PCI }); v != nil {
		function = fmt.Sprintf("VF %d of %s", v.Index, v.PF)
	}
	return words.Join(", ", words.If(d.Mode != "", "%s mode", d.Mode), beyond, function, d.PCI, words.If(d.XDP, "XDP"),
		words.If(d.TxQueues > 1, "%s", words.Count(d.TxQueues, "queue")))
}

// otherEnd names the other end of a pair, if it is in a namespace that was read.
func otherEnd(h *facts.Host, l facts.Link) string {
	for n := range facts.Each(h.Namespaces) {
		for d := range facts.Each(n.Devices) {
			if d.Beyond != nil && d.Beyond.Namespace == 0 && d.Beyond.Device == l.Name {
				return "the other end is " + d.Name + " of " + n.Title()
			}
		}
	}
	return ""
}

// programsText names the BPF programs that choose where the packets of a link go.
func programsText(l facts.Link) string {
	return words.If(len(l.Programs) > 0,
		"a BPF program (%s) chooses where its packets go", strings.Join(l.Programs, ", "))
}

// tapProgramText names the BPF programs that see what a guest sends.
func tapProgramText(xdp bool, classifiers []string) string {
	kinds := words.Join(", ", words.If(xdp, "xdp"), words.If(slices.Contains(classifiers, "bpf"), "tc"))
	return words.If(kinds != "", "a BPF program (%s) sees first what the guest sends", kinds)
}

// tapText returns what is known of the host's device of a guest's NIC.
func tapText(h *facts.Host, g *facts.Guest, i facts.Interface) string {
	if n := h.Namespace(g.SpaceOf(&i)); n != nil && g.Away(&i) {
		if d := facts.Find(n.Devices, func(d *facts.Device) bool { return d.Name == i.Tap }); d != nil {
			return words.Join(", ", words.Count(d.TxQueues, "queue"), tapProgramText(d.XDP, d.Classifiers),
				"in "+n.Title())
		}
	}
	here := g.TapHere(&i)
	if tap := facts.Find(h.Taps, func(tap *facts.Tap) bool { return tap.Name == here }); tap != nil {
		return words.Join(", ", words.Count(tap.RxQueues, "queue"), fmt.Sprintf("tx queue length %d", tap.TxQueueLen),
			tapProgramText(tap.XDP, tap.Classifiers))
	}
	return words.Either(g.Away(&i), "in another network namespace", "one queue")
}
