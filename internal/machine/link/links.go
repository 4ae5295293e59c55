package link

import (
	"fmt"
	"path"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// mostLinks bounds the list of other devices: a node of a cluster has a veth for each pod, at most some thousands.
const mostLinks = 16384

// links reads the devices that are listed nowhere else, except loopback devices.
func links(h *facts.Host, devices []Device, names map[int]string, u *underlays) []facts.Link {
	listed := map[string]bool{}
	for _, n := range h.NICs {
		listed[n.Name] = true
	}
	for _, b := range h.Bridges {
		listed[b.Name] = true
	}
	for _, t := range h.Tunnels {
		listed[t.Name] = true
	}
	for _, t := range h.Taps {
		listed[t.Name] = true
	}
	var all []facts.Link
	left := 0
	for _, d := range devices {
		switch {
		case listed[d.Name] || d.flags&unix.IFF_LOOPBACK != 0:
		case len(all) == mostLinks:
			left++
		default:
			all = append(all, facts.Link{
				Name: d.Name, Kind: d.Kind, Master: names[d.master], Lower: names[d.lower], Peer: names[d.peer],
				Up: d.Up, Elsewhere: d.elsewhere, Underlay: u.of(d), External: d.tunnel.external,
			})
		}
	}
	if left > 0 {
		tree.Note(h, facts.Unseen{What: fmt.Sprintf("%d network devices", left),
			Why: fmt.Sprintf("only %d are listed besides NICs, bridges, taps and tunnels", mostLinks)})
	}
	return all
}

// bridge reads a Linux bridge. The per-bridge nf_call switches exist since 2.6.3x even if br_netfilter is not loaded.
// Either the switch or the sysctl of the same name passes frames to the tables (net/bridge/br_netfilter_hooks.c,
// br_nf_pre_routing).
func bridge(m *tree.Tree, d Device) facts.Bridge {
	dir := path.Join(tree.ClassNet, d.Name)
	set := func(name string) bool { return m.Number(path.Join(dir, "bridge", name), 0) != 0 }
	return facts.Bridge{
		Name: d.Name, MAC: d.mac, MTU: d.mtu, Up: d.Up,
		Ports: tree.OrEmpty(m.List(path.Join(dir, "brif"))), STP: set("stp_state"),
		VLANFiltering: set("vlan_filtering"), Snooping: set("multicast_snooping"),
		CallIPTables:  set("nf_call_iptables"),
		CallIP6Tables: set("nf_call_ip6tables"), CallARPTables: set("nf_call_arptables"),
	}
}
