package domain

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// HostdevInterface is a passed-through host function. libvirt sets its MAC address and VLAN when the guest starts.
type HostdevInterface struct {
	MAC     string
	PCI     string // 0000:01:10.0
	Managed bool   // libvirt unbinds and rebinds the host driver
	VLAN    int    // 0: none
	// Persistent is the alias of the virtio interface with the same MAC address that takes over while this one is
	// unplugged; empty if there is none.
	Persistent string
	Alias      string // ua-…; empty: libvirt chooses one
}

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n HostdevInterface) Path() string { return nicPath(n.MAC, transient(n.Persistent)) }

// Value is the interface as a value of its path.
func (n HostdevInterface) Value() string {
	return nicValue("hostdev", "pci", n.PCI, "managed", yesOrNo(n.Managed), "vlan", number(n.VLAN), "teaming",
		transient(n.Persistent), "alias", n.Alias)
}

// NetworkInterface is an interface of a libvirt network. If the network is a pool of VFs, libvirt takes a free one when
// the guest starts.
type NetworkInterface struct {
	MAC, Network string
	Model        string // empty: virtio, which means nothing in a pool
	VLAN         int
	Persistent   string // as in HostdevInterface
	Alias        string
}

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n NetworkInterface) Path() string { return nicPath(n.MAC, transient(n.Persistent)) }

// Value is the interface as a value of its path.
func (n NetworkInterface) Value() string {
	return nicValue("network="+escapeWord(n.Network), "model", cmp.Or(n.Model, "virtio"), "vlan", number(n.VLAN),
		"teaming", transient(n.Persistent), "alias", n.Alias)
}

// BridgeInterface is an interface on a host bridge.
type BridgeInterface struct {
	MAC, Bridge string
	Model       string // empty: virtio
	Queues      int    // pairs; 0: libvirt's default of one
	VLAN        int
	// Standby makes it the half of a failover pair that stays. The other half refers to it by Alias.
	Standby bool
	Alias   string
}

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n BridgeInterface) Path() string { return nicPath(n.MAC, n.teaming()) }

// Value is the interface as a value of its path.
func (n BridgeInterface) Value() string {
	return nicValue("bridge="+escapeWord(n.Bridge), "model", cmp.Or(n.Model, "virtio"), "queues", number(n.Queues),
		"vlan", number(n.VLAN), "teaming", n.teaming(), "alias", n.Alias)
}

func (n BridgeInterface) teaming() string {
	if n.Standby {
		return "persistent"
	}
	return ""
}

func nicPath(mac, teaming string) string {
	if canon, ok := CanonMAC(mac); ok {
		mac = canon
	}
	half, _, _ := strings.Cut(teaming, ":")
	return "interface/" + strings.TrimSuffix(mac+"@"+half, "@")
}

// nicValue joins the words, without those that have no value.
func nicValue(first string, pairs ...string) string {
	value := inOrder(first, pairs...)
	if canon, ok := canonNIC(value); ok {
		return canon
	}
	return value
}

// inOrder appends KEY=VALUE for each pair with a value.
func inOrder(first string, pairs ...string) string {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			first += " " + pair[0] + "=" + pair[1]
		}
	}
	return first
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func transient(persistent string) string {
	if persistent == "" {
		return ""
	}
	return "transient:" + persistent
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
