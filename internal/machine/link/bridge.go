package link

import (
	"path"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

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
