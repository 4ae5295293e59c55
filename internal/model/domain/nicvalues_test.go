package domain

import (
	"cmp"
	"strings"
)

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n HostdevInterface) Path() string { return nicPath(n.MAC, transient(n.Persistent)) }

// Path is where the interface stands in a definition, or in what a guest runs with.
func (n NetworkInterface) Path() string { return nicPath(n.MAC, transient(n.Persistent)) }

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
