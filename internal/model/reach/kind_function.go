package reach

// Function: a function passed through. The host does not see the packets.
const Function Kind = "function"

var function = &Hops{
	Kind: Function, Words: "a function passed through", Judged: true,
	What:  "a function passed through: SR-IOV",
	Needs: []string{"nics", "vfs", "passthrough"},
	Knobs: []string{"sriov.numvfs", "sriov.ready", "sriov.persist", "sriov.attach", "sriov.vf.rate",
		"sriov.vf.spoofchk", "sriov.vf.mac", "sriov.vf.trust", "sriov.vf.vlan", "sriov.vf.link_state",
		"sriov.vf.vectors",
		"sriov.usage", "sriov.guest", "sriov.bridge", "sriov.migrate"},
	Bottlenecks: []string{"vf-rate"},
}
