package reach

// OpenVSwitch: the kernel's datapath of Open vSwitch, OVN's too.
const OpenVSwitch Kind = "open-vswitch"

var openVSwitch = &Hops{
	Kind: OpenVSwitch, Words: "Open vSwitch", Kernel: true,
	What:    "the kernel's datapath of Open vSwitch, OVN's too",
	Devices: []string{"openvswitch"},
}
