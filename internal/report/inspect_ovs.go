package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// ovsText describes a bridge of Open vSwitch, and the counters of the datapath that all bridges share; empty if the
// database has no such bridge.
func ovsText(o *facts.OpenVSwitch, bridge string) string {
	if o == nil {
		return ""
	}
	b := facts.Find(o.Bridges, func(b *facts.OVSBridge) bool { return b.Name == bridge })
	if b == nil {
		return ""
	}
	var bonds, policed, installed, waiting int
	var patches []string
	for p := range facts.Each(b.Ports) {
		if len(p.Interfaces) > 1 {
			bonds++
		}
		for _, i := range p.Interfaces {
			if i.PolicingRate > 0 || i.PacketRate > 0 {
				policed++
			}
			switch {
			case i.Installed:
				installed++
			case i.IfaceID:
				waiting++
			}
			if i.Type == "patch" {
				patches = append(patches, i.Name)
			}
		}
	}
	parts := []string{words.Count(len(b.Ports), "port"),
		words.If(len(patches) > 0, "patched by %s", strings.Join(patches, ", ")),
		words.If(bonds > 0, "%s", words.Count(bonds, "bond")),
		words.If(policed > 0, "%s with a policer", words.Count(policed, "port")),
		// an OVN of before 20.06 marks none
		words.If(waiting > 0 && installed > 0, "%s without OVN's flows yet", words.Count(waiting, "port"))}
	return words.Join(", ", append(parts, datapathText(o))...)
}

// datapathText names the counters of the kernel's datapaths: totals since they were made.
func datapathText(o *facts.OpenVSwitch) string {
	var all []string
	for _, d := range o.Datapaths {
		all = append(all, fmt.Sprintf("datapath %s: %s, %s, %d of %s lost", d.Name, words.Count(int(d.Flows), "flow"),
			words.Count(int(d.Masks), "mask"), d.Lost, words.Count(int(d.Missed), "upcall")))
	}
	return strings.Join(all, "; ")
}

// drawOVN says which chassis of OVN a host is, how it encapsulates, and what tracking connections costs it.
func drawOVN(t *Text, h *facts.Host) {
	if h.OpenVSwitch == nil || h.OpenVSwitch.OVN == nil {
		return
	}
	o := h.OpenVSwitch.OVN
	var underlay []string
	tunnels := 0
	for _, l := range h.Tunnels {
		if ports := ovsTunnels(h.OpenVSwitch, l.Name, l.Type, l.Master, o.Bridge); len(ports) > 0 {
			tunnels, underlay = tunnels+len(ports), append(underlay, l.Underlay...)
		}
	}
	slices.Sort(underlay)
	by := cmp.Or(strings.Join(slices.Compact(underlay), ", "), "a device that is not known")
	var networks []string
	for _, network := range slices.Sorted(maps.Keys(o.Mappings)) {
		networks = append(networks, network+" by "+o.Mappings[network])
	}
	tracked := int(h.Stack["nf_conntrack.entries"])
	who := fmt.Sprintf("%s, %s from %s", cmp.Or(o.Chassis, "without a name"), cmp.Or(o.EncapType,
		"unknown encapsulation"), cmp.Or(o.EncapIP, "an unknown address"))
	t.Wrap("  OVN    chassis       ", words.Join("; ", who,
		words.Either(tunnels > 0, words.Count(tunnels, "tunnel")+" over "+by, "no tunnel"),
		strings.Join(networks, ", "), words.If(o.Zones > 0, "%s", words.Count(o.Zones, "conntrack zone")),
		words.If(tracked > 0, "%s tracked: their packets pass conntrack and the flow table again "+
			"(stateful ACLs, NAT)", words.Count(tracked, "connection"))))
	t.Blank()
}

// ovsTunnels returns the ports of Open vSwitch's tunnels that a device of the datapath serves, on one bridge or,
// without its name, on all.
func ovsTunnels(o *facts.OpenVSwitch, device, kind, master, bridge string) (all []facts.OVSInterface) {
	if o == nil || master != facts.OVSDatapath {
		return nil
	}
	for _, b := range o.Bridges {
		if bridge != "" && b.Name != bridge {
			continue
		}
		for _, p := range b.Ports {
			all = append(all, facts.Where(p.Interfaces, func(i facts.OVSInterface) bool {
				return i.Name != device && slices.Contains(facts.OVSTunnels[i.Type], kind)
			})...)
		}
	}
	return all
}

// ovsTunnelStation names a device that serves tunnels of Open vSwitch by their ports and remote ends; false if it
// serves none that is known.
func ovsTunnelStation(h *facts.Host, l *facts.Tunnel) (Station, bool) {
	ports := ovsTunnels(h.OpenVSwitch, l.Name, l.Type, l.Master, "")
	if len(ports) == 0 {
		return Station{}, false
	}
	to := words.Each(ports[:min(len(ports), mostFolded)], func(i facts.OVSInterface) string {
		remote := cmp.Or(i.Options["remote_ip"], "an end that is not known")
		if remote == "flow" {
			remote = "where flows say"
		}
		return words.If(len(ports) > 1, "%s ", i.Name) + "to " + remote +
			words.If(i.Options["csum"] == "true", " with checksum") + words.If(i.Error != "", " (%s)", i.Error)
	})
	name := words.Either(len(ports) > 1, words.Count(len(ports), "tunnel"), ports[0].Name)
	text := words.Join(", ", strings.Join(to, ", "), words.If(len(ports) > len(to), "%d others", len(ports)-len(to)),
		words.If(len(l.Underlay) > 0, "over %s", strings.Join(l.Underlay, ", ")), "by "+l.Name+" with "+tunnelText(*l))
	return Station{Kind: l.Type, Name: name, Text: text}, true
}

// emptySwitches returns bridges of Open vSwitch for guests that are yet to come, those of guests before those of NICs.
func emptySwitches(o *facts.OpenVSwitch, nics []facts.NIC) (names []string) {
	if o == nil {
		return nil
	}
	type bridge struct {
		name          string
		nics, patches int
	}
	all := facts.Map(o.Bridges, func(b facts.OVSBridge) bridge {
		found := bridge{name: b.Name}
		for _, p := range b.Ports {
			for _, i := range p.Interfaces {
				if i.Type == "patch" {
					found.patches++
				}
				if slices.ContainsFunc(nics, func(n facts.NIC) bool { return n.Name == i.Name }) {
					found.nics++
				}
			}
		}
		return found
	})
	slices.SortStableFunc(all, func(a, b bridge) int {
		return cmp.Or(cmp.Compare(a.nics, b.nics), cmp.Compare(b.patches, a.patches))
	})
	return facts.Map(all, func(b bridge) string { return b.name })
}
