package facts

import "fmt"

// Namespace is another network namespace that guests' packets pass: a pod's, a container's, a router's. Its settings
// belong to whoever made it: mpps reads them and changes none.
type Namespace struct {
	ID   uint64 `json:"id"`             // number of its file in /proc/PID/ns, as lsns(8) has it
	Name string `json:"name,omitempty"` // below /run/netns
	PID  int    `json:"pid,omitempty"`  // QEMU of a guest that runs in it; 0: none does
	// except loopback devices, sorted by index
	Devices []Device `json:"devices"`
	Routing *Routing `json:"routing,omitempty"` // nil: it could not be read
	Cut     bool     `json:"cut,omitempty"`     // it has further devices
}

// Device is a device of another network namespace.
type Device struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"`             // tap, NIC, or IFLA_INFO_KIND: bridge, veth, macvlan …
	Master string `json:"master,omitempty"` // as Link's, in this namespace
	Lower  string `json:"lower,omitempty"`
	Peer   string `json:"peer,omitempty"`
	Up     bool   `json:"up"`
	// the other end of a veth, or the device under it, is in another namespace: in Beyond, or in one that was not read
	Elsewhere bool   `json:"elsewhere,omitempty"`
	Beyond    *Place `json:"beyond,omitempty"`
	Mode      string `json:"mode,omitempty"` // of a macvlan, macvtap or ipvlan
	MTU       int    `json:"mtu"`
	TxQueues  int    `json:"tx_queues"`
	PCI       string `json:"pci,omitempty"` // of a NIC
	XDP       bool   `json:"xdp,omitempty"`
	// tc filters at ingress of a tap: "u32", "bpf"; the devices that they send its packets out by
	Classifiers []string `json:"classifiers,omitempty"`
	Redirects   []string `json:"redirects,omitempty"`
}

// Place is a device of a network namespace.
type Place struct {
	Namespace uint64 `json:"namespace,omitempty"` // 0: the host's
	Device    string `json:"device"`
}

// Title returns the name of a namespace, as ip-netns(8) or else /proc/PID/ns has it.
func (n *Namespace) Title() string {
	if n.Name != "" {
		return n.Name
	}
	return fmt.Sprintf("net:[%d]", n.ID)
}

// Namespace returns the network namespace of a number; nil if it was not read.
func (h *Host) Namespace(id uint64) *Namespace {
	return Find(h.Namespaces, func(n *Namespace) bool { return n.ID == id })
}

// TapHere returns the host's device of a guest's NIC; empty if it has none, or has it in another network namespace,
// where names count for themselves.
func (g *Guest) TapHere(i *Interface) string {
	if g.Away(i) {
		return ""
	}
	return i.Tap
}

// Away reports whether the tap of a guest's NIC is in another network namespace than the host's.
func (g *Guest) Away(i *Interface) bool {
	if i.TapElsewhere != "" {
		return i.TapElsewhere == Yes
	}
	return g.Elsewhere
}

// SpaceOf returns the network namespace of a guest's tap (Namespace.ID); 0 for the host's, and if it is not known.
func (g *Guest) SpaceOf(i *Interface) uint64 {
	if i.TapElsewhere != "" {
		return i.TapNamespace
	}
	return g.Namespace
}
