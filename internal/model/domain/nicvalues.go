package domain

import (
	"slices"
	"strconv"
)

// HostdevInterface is a passed-through host function. libvirt sets its MAC address and VLAN when the guest starts.
type HostdevInterface struct {
	PCI     string // 0000:01:10.0
	Managed bool   // libvirt unbinds and rebinds the host driver
	VLAN    int    // 0: none
}

// Value returns the interface in the form that its path takes.
func (n HostdevInterface) Value() string {
	return nicValue("hostdev", "pci", n.PCI, "managed", yesOrNo(n.Managed), "vlan", number(n.VLAN))
}

// NetworkInterface is an interface of a libvirt network. If the network is a pool of VFs, libvirt takes a free one when
// the guest starts.
type NetworkInterface struct {
	Network string
	VLAN    int // 0: none
}

// Value returns the interface in the form that its path takes. The model is virtio; libvirt ignores it where the
// network is a pool.
func (n NetworkInterface) Value() string {
	return nicValue("network="+escapeWord(n.Network), "model", "virtio", "vlan", number(n.VLAN))
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

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
