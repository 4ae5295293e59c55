package reach

// Macvtap: a macvtap on a NIC, VLAN or bond.
const Macvtap Kind = "macvtap"

var macvtap = &Hops{
	Kind: Macvtap, Words: "macvtap", Judged: true, Kernel: true,
	What:  "a macvtap on a NIC, VLAN or bond",
	Needs: []string{"nics", "taps", "tunnels"},
}
