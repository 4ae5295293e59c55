package domain

import (
	"strconv"
	"strings"
)

// HostdevInterface is an interface that is a function of the host: libvirt sets its MAC address and VLAN when the guest
// starts.
type HostdevInterface struct {
	MAC     string
	PCI     string // 0000:01:10.0
	Managed bool   // libvirt takes the function from its host driver and gives it back
	VLAN    int    // 0: none
	// Persistent is the alias of the virtio interface with the same MAC address that takes over while this one is away;
	// empty: there is none.
	Persistent string
	Alias      string // ua-…; empty: libvirt names it
}

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n HostdevInterface) Path() string { return nicPath(n.MAC, transient(n.Persistent)) }

// Value is the interface as a value of its path.
func (n HostdevInterface) Value() string {
	managed := "no"
	if n.Managed {
		managed = "yes"
	}
	return nicValue("hostdev", "pci", n.PCI, "managed", managed, "vlan", number(n.VLAN), "teaming",
		transient(n.Persistent), "alias", n.Alias)
}

// NetworkInterface is an interface of a libvirt network. Where that is a pool of functions, libvirt takes a free one
// when the guest starts.
type NetworkInterface struct {
	MAC, Network string
	Model        string // empty: virtio, which says nothing where the network is a pool
	VLAN         int
	Persistent   string // as of HostdevInterface
	Alias        string
}

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n NetworkInterface) Path() string { return nicPath(n.MAC, transient(n.Persistent)) }

// Value is the interface as a value of its path.
func (n NetworkInterface) Value() string {
	return nicValue("network="+escapeWord(n.Network), "model", virtioUnless(n.Model), "vlan", number(n.VLAN), "teaming",
		transient(n.Persistent), "alias", n.Alias)
}

// BridgeInterface is an interface on a bridge of the host.
type BridgeInterface struct {
	MAC, Bridge string
	Model       string // empty: virtio
	Queues      int    // pairs; 0: libvirt's default, one
	VLAN        int
	// Standby makes it the half of a failover pair that stays; Alias is then what the other half names it by.
	Standby bool
	Alias   string
}

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n BridgeInterface) Path() string { return nicPath(n.MAC, n.teaming()) }

// Value is the interface as a value of its path.
func (n BridgeInterface) Value() string {
	return nicValue("bridge="+escapeWord(n.Bridge), "model", virtioUnless(n.Model), "queues", number(n.Queues), "vlan",
		number(n.VLAN), "teaming", n.teaming(), "alias", n.Alias)
}

func (n BridgeInterface) teaming() string {
	if n.Standby {
		return "persistent"
	}
	return ""
}

// HostdevPath is where a function that is passed through as a plain <hostdev> stands. Its value is managed or
// unmanaged.
func HostdevPath(pci string) string { return "hostdev/" + pci }

func nicPath(mac, teaming string) string {
	if canon, ok := CanonMAC(mac); ok {
		mac = canon
	}
	half, _, _ := strings.Cut(teaming, ":")
	return "interface/" + strings.TrimSuffix(mac+"@"+half, "@")
}

// nicValue puts words together; those without a value are left out.
func nicValue(first string, pairs ...string) string {
	words := []string{first}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			words = append(words, pairs[i]+"="+pairs[i+1])
		}
	}
	value := strings.Join(words, " ")
	if canon, ok := canonNIC(value); ok {
		return canon
	}
	return value
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

func virtioUnless(model string) string {
	if model == "" {
		return "virtio"
	}
	return model
}
