package facts

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// NIC is a network device on a hardware, paravirtual or simulated bus.
type NIC struct {
	Name       string `json:"name"`
	Index      int    `json:"ifindex"`
	MAC        string `json:"mac"`
	Driver     string `json:"driver"`
	Firmware   string `json:"firmware,omitempty"`
	Bus        string `json:"bus,omitempty"` // pci, virtio, netdevsim …
	PCI        string `json:"pci,omitempty"` // 0000:41:00.0
	Node       int    `json:"numa_node"`     // −1: unknown, not node 0
	Up         bool   `json:"up"`            // administratively
	Carrier    string `json:"carrier"`       // up, down or unknown
	MTU        int    `json:"mtu"`
	Speed      int    `json:"speed_mbps"`       // −1 if the driver does not report it
	Master     string `json:"master,omitempty"` // bridge or bond that it is a port of
	TxQueueLen int    `json:"tx_queue_len"`
	XDP        bool   `json:"xdp"` // has an XDP program attached

	RxQueues int               `json:"rx_queues"` // directories in queues/
	TxQueues int               `json:"tx_queues"`
	Channels *Channels         `json:"channels"` // null if the driver does not report them
	Rings    *Rings            `json:"rings"`
	Coalesce map[string]string `json:"coalesce"` // ethtool -c names → values; only fields that the driver supports
	Features []Feature         `json:"features"`
	FlowHash map[string]string `json:"flow_hash"` // udp4, udp6, tcp4, tcp6 → letters
	// null: the driver does not report it, or the snapshot is from a version that did not collect it
	RSS   *RSS             `json:"rss,omitempty"`
	IRQs  []IRQ            `json:"irqs"`
	XPS   []setting.CPUSet `json:"xps"`             // by transmit queue
	RPS   []setting.CPUSet `json:"rps"`             // by receive queue
	Qdisc string           `json:"qdisc,omitempty"` // root qdisc
	// number of traffic classes of its transmit queues (mqprio, DCB); 0: none
	Classes int `json:"traffic_classes,omitempty"`
	// an mpps lane program chooses its transmit queue (setting.QueueLanes)
	Steered bool     `json:"steered,omitempty"`
	Link    *PCILink `json:"pcie_link"`
	SRIOV   *SRIOV   `json:"sriov"`
	PhysFn  string   `json:"physfn,omitempty"` // this NIC is a VF of that PF
	// phys_port_name and phys_switch_id: of devices that belong to an embedded switch
	PortName string `json:"port_name,omitempty"`
	SwitchID string `json:"switch_id,omitempty"`
	// totals since boot: rx_packets, rx_dropped, rx_missed_errors …
	Stats map[string]uint64 `json:"stats"`
	// why this is the management interface: "default route", "route to 192.0.2.7 (SSH client)"
	Management string `json:"management,omitempty"`
}

// InfiniBand reports whether a NIC is a port of InfiniBand: its address has 20 bytes (RFC 4391, section 9.1.1).
func (n *NIC) InfiniBand() bool { return strings.Count(n.MAC, ":") == 19 }

// Channels is the output of ethtool -l.
type Channels struct {
	Rx          int `json:"rx"`
	Tx          int `json:"tx"`
	Other       int `json:"other"`
	Combined    int `json:"combined"`
	MaxRx       int `json:"max_rx"`
	MaxTx       int `json:"max_tx"`
	MaxOther    int `json:"max_other"`
	MaxCombined int `json:"max_combined"`
}

// Rings is the output of ethtool -g, in descriptors.
type Rings struct {
	Rx    int `json:"rx"`
	Tx    int `json:"tx"`
	MaxRx int `json:"max_rx"`
	MaxTx int `json:"max_tx"`
}

// RSS is the table by which a NIC chooses the receive queue of a packet from its flow hash (ethtool -x).
type RSS struct {
	Entries   int   `json:"entries"`
	Queues    []int `json:"queues"`              // that the table names, in ascending order
	Symmetric bool  `json:"symmetric,omitempty"` // both directions of a flow have one hash
}

// Feature is one line of ethtool -k.
type Feature struct {
	Name  string `json:"name"` // the kernel's name: tx-checksum-ip-generic
	On    bool   `json:"on"`
	Fixed bool   `json:"fixed"`
}

// IRQ is a device interrupt. Managed interrupts refuse affinity changes with EIO, since Linux commit eb29369fa543 with
// EPERM.
type IRQ struct {
	Number int    `json:"number"`
	Name   string `json:"name"` // the action's name in /proc/interrupts
	// name without device and driver ("TxRx-0"): survives renaming the device
	On        string         `json:"on"`
	Affinity  setting.CPUSet `json:"affinity"`
	Effective setting.CPUSet `json:"effective"`
	Hint      setting.CPUSet `json:"hint"`
	Count     uint64         `json:"count"` // total over all CPUs since boot
	// refuses affinity changes: newer kernels make its file read-only (kernel/irq/proc.c, register_irq_proc)
	Managed bool `json:"managed"`
}

// Address returns the address of an interrupt's affinity. The interrupt is found again by device and name. Its number
// changes when the driver reallocates its vectors, and only distinguishes interrupts of the same name.
func (n NIC) Address(i IRQ) setting.Address {
	return setting.Of(setting.IRQAffinity, n.Name, i.On, strconv.Itoa(i.Number))
}

// PCILink is the negotiated and the maximum PCIe link.
type PCILink struct {
	Speed    string `json:"speed"` // "8.0 GT/s PCIe"
	MaxSpeed string `json:"max_speed"`
	Width    int    `json:"width"` // lanes
	MaxWidth int    `json:"max_width"`
	// most bytes that the function asks for at once (Device Control, Max_Read_Request_Size); 0: not read, needs root
	ReadRequest int `json:"read_request_bytes,omitempty"`
	// it may let its writes pass each other (Device Control, Enable Relaxed Ordering)
	Relaxed Answer `json:"relaxed_ordering,omitempty"`
}

// SRIOV is a PF's SR-IOV state.
type SRIOV struct {
	Total     int  `json:"total"`
	Enabled   int  `json:"enabled"`
	AutoProbe bool `json:"drivers_autoprobe"`
	// MSI-X vectors that the driver can give out to its VFs, one by one (sriov_vf_total_msix); 0: it cannot
	Vectors int `json:"vf_vectors,omitempty"`
}

// VF is a virtual function.
type VF struct {
	PF         string `json:"pf"`
	Index      int    `json:"index"`
	PCI        string `json:"pci"`   // empty if the function is not on a PCI bus (netdevsim)
	Group      int    `json:"group"` // IOMMU group, −1 without an IOMMU
	Driver     string `json:"driver"`
	NIC        string `json:"nic,omitempty"`
	Guest      string `json:"guest,omitempty"` // guest that uses it, else one whose definition names it
	MAC        string `json:"mac"`
	VLAN       int    `json:"vlan"`
	QoS        int    `json:"qos"`
	MaxTxRate  int    `json:"max_tx_rate"` // Mb/s, 0 = unlimited
	MinTxRate  int    `json:"min_tx_rate"`
	SpoofCheck bool   `json:"spoofchk"`
	Trust      bool   `json:"trust"`
	LinkState  string `json:"link_state"` // auto, enable or disable

	// size of its MSI-X table; 0: unknown
	Vectors int `json:"vectors,omitempty"`
	// larger of its interface's receive and transmit queue counts on the host; 0 if it has no interface
	Queues int `json:"queues,omitempty"`
	// the host's own use of its interface: "port of br0"; empty: none visible
	HostUse string `json:"host_use,omitempty"`
	// process other than a libvirt guest that has it open: "dpdk-testpmd (process 4711)"; or OtherNamespace
	Holder string `json:"holder,omitempty"`
	// OnlyAddress is set if the host's only use of its interface is an IP address.
	OnlyAddress bool `json:"only_address,omitempty"`
	// Elsewhere is set if its interface is in another network namespace.
	Elsewhere bool `json:"elsewhere,omitempty"`

	// attributes that the driver or recorded tree does not report: ignore their fields
	Untold  []string   `json:"untold,omitempty"`
	Traffic *VFTraffic `json:"traffic,omitempty"` // nil if the driver does not count
}

// OtherNamespace is the holder of a VF whose interface is in another network namespace; the process is unknown.
const OtherNamespace = "a container (another network namespace)"

// UnmarshalJSON also reads snapshots of earlier versions, which describe the host's use only in words.
func (v *VF) UnmarshalJSON(text []byte) error {
	type plain VF
	if err := json.Unmarshal(text, (*plain)(v)); err != nil {
		return err
	}
	v.OnlyAddress = v.OnlyAddress || strings.HasPrefix(v.HostUse, "has address ")
	v.Elsewhere = v.Elsewhere || v.Holder == OtherNamespace
	return nil
}

// VFTraffic is the traffic of a VF since its creation, as counted by the PF (include/uapi/linux/if_link.h,
// IFLA_VF_STATS). rx is to the guest, tx from it.
type VFTraffic struct {
	RxPackets uint64 `json:"rx_packets"`
	TxPackets uint64 `json:"tx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxBytes   uint64 `json:"tx_bytes"`
	Broadcast uint64 `json:"broadcast"`
	Multicast uint64 `json:"multicast"`
	RxDropped uint64 `json:"rx_dropped"`
	TxDropped uint64 `json:"tx_dropped"`
}

// Bridge is a Linux bridge.
type Bridge struct {
	Name          string   `json:"name"`
	MAC           string   `json:"mac"`
	MTU           int      `json:"mtu"`
	Up            bool     `json:"up"`
	Ports         []string `json:"ports"`
	STP           bool     `json:"stp"`
	VLANFiltering bool     `json:"vlan_filtering"`
	Snooping      bool     `json:"multicast_snooping"`
	CallIPTables  bool     `json:"nf_call_iptables"`
	CallIP6Tables bool     `json:"nf_call_ip6tables"`
	CallARPTables bool     `json:"nf_call_arptables"`
}

// TunnelTypes are the device types between bridges and NICs, in the kernel's terms (IFLA_INFO_KIND).
var TunnelTypes = []string{"vxlan", "gretap", "ip6gretap", "geneve", "vlan", "bond"}

// GRETaps are those with Ethernet in GRE: they may take a lock, and outside of UDP they have no ports.
var GRETaps = []string{"gretap", "ip6gretap"}

// Tunnel is an overlay device.
type Tunnel struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // vxlan, gretap, ip6gretap, geneve, vlan, bond
	Lower    string `json:"lower,omitempty"`
	Master   string `json:"master,omitempty"`
	TxQueues int    `json:"tx_queues"`
	RxQueues int    `json:"rx_queues"`
	Lockless bool   `json:"lockless"` // NETIF_F_LLTX: transmits without a queue lock
	// LocklessBy is the source of Lockless: "feature" (reported by the device), "driver" (Linux 6.12 and later hide the
	// flag, but it is the same for every device of this type), or empty for unknown.
	LocklessBy string `json:"lockless_by,omitempty"`
	// LockedBy is the option of ip-link(8) for which a GRE device takes a lock: "oseq", "ocsum". Made has the words
	// that make such a device again, after its name; none if they are not all known.
	LockedBy    string   `json:"locked_by,omitempty"`
	Made        []string `json:"made,omitempty"`
	InUDP       bool     `json:"in_udp,omitempty"` // GRE that is in UDP (FoU, GUE)
	Up          bool     `json:"up"`
	MTU         int      `json:"mtu,omitempty"`         // 0 in snapshots from versions that did not collect it
	Classifiers []string `json:"classifiers,omitempty"` // tc filters on egress: "u32", "bpf"

	// devices that the routes to its remote ends leave by, where it is bound to none: VXLAN without dev, GENEVE, and
	// the tunnels of Open vSwitch; of an external one whose ends are not known the only way out of the host
	Underlay []string `json:"underlay,omitempty"`
	// whoever sends through it chooses the remote end for each packet (collect metadata): Open vSwitch, or tc
	External bool `json:"external,omitempty"`
	// the device under it, or for one that is bound to none its underlay, is in another network namespace
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Tap is a tap or macvtap device.
type Tap struct {
	Name  string `json:"name"`
	Type  string `json:"type"`            // tap or macvtap
	Lower string `json:"lower,omitempty"` // device below a macvtap
	Mode  string `json:"mode,omitempty"`  // of a macvtap: private, vepa, bridge, passthru, source
	// the device under a macvtap is in another network namespace
	Elsewhere bool `json:"elsewhere,omitempty"`
	// user that may open it without privilege, −1 for none
	Owner      int               `json:"owner"`
	Master     string            `json:"master,omitempty"`
	MultiQueue bool              `json:"multi_queue"`
	TxQueues   int               `json:"tx_queues"`
	RxQueues   int               `json:"rx_queues"`
	XPS        []setting.CPUSet  `json:"xps"`
	RPS        []setting.CPUSet  `json:"rps"`
	TxQueueLen int               `json:"tx_queue_len"`
	Up         bool              `json:"up"`
	Guest      string            `json:"guest,omitempty"`
	Stats      map[string]uint64 `json:"stats"`

	// tc filters on ingress except mpps's own: "u32", "bpf"
	Classifiers []string `json:"classifiers,omitempty"`
	// devices that these send the tap's packets out by, as Kata does, or whose ports they let them arrive at
	Redirects []string `json:"redirects,omitempty"`
	XDP       bool     `json:"xdp,omitempty"` // a program sees what the guest sends first
}

// Netfilter lists the hooks and rules that packets pass.
type Netfilter struct {
	BridgeModule bool `json:"br_netfilter"` // loaded: bridged frames may be passed to iptables
	Conntrack    bool `json:"nf_conntrack"` // loaded
	// tools with rules: iptables-legacy, iptables-nft, nft, ebtables-legacy, ebtables-nft
	Backends []string  `json:"backends"`
	Rules    []RuleSet `json:"rule_sets"`
}

// RuleSet is the rules of one family or tool.
type RuleSet struct {
	Tool  string   `json:"tool"`  // nft, iptables-legacy, ip6tables-legacy, ebtables-legacy, arptables-legacy
	Rules int      `json:"rules"` // number of rules in all chains
	Lines []string `json:"lines"` // one rule each in the tool's save format, without counters; at most 2000
	Cut   bool     `json:"cut,omitempty"`
}

// FunctionsOf returns the virtual functions that are passed through to a guest.
func (h *Host) FunctionsOf(g *Guest) []VF {
	return Where(h.VFs, func(v VF) bool { return slices.Contains(g.Hostdevs, v.PCI) })
}
