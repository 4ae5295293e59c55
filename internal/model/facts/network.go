package facts

import (
	"encoding/json"
	"strconv"
	"strings"

	"mpps/internal/model/setting"
)

// NIC is a network device that has hardware (or a paravirtual or simulated bus device) behind it.
type NIC struct {
	Name       string `json:"name"`
	Index      int    `json:"ifindex"`
	MAC        string `json:"mac"`
	Driver     string `json:"driver"`
	Firmware   string `json:"firmware,omitempty"`
	Bus        string `json:"bus,omitempty"` // pci, virtio, netdevsim …
	PCI        string `json:"pci,omitempty"` // 0000:41:00.0
	Node       int    `json:"numa_node"`     // −1 is unknown, not node 0
	Up         bool   `json:"up"`            // administratively
	Carrier    string `json:"carrier"`       // up, down or unknown
	MTU        int    `json:"mtu"`
	Speed      int    `json:"speed_mbps"`       // −1 where the driver does not tell
	Master     string `json:"master,omitempty"` // bridge or bond it is a port of
	TxQueueLen int    `json:"tx_queue_len"`
	XDP        bool   `json:"xdp"` // an XDP program is attached

	RxQueues int               `json:"rx_queues"` // directories in queues/
	TxQueues int               `json:"tx_queues"`
	Channels *Channels         `json:"channels"` // null where the driver does not tell
	Rings    *Rings            `json:"rings"`
	Coalesce map[string]string `json:"coalesce"` // names of ethtool -c → value; only fields the driver supports
	Features []Feature         `json:"features"`
	FlowHash map[string]string `json:"flow_hash"` // udp4, udp6, tcp4, tcp6 → letters
	IRQs     []IRQ             `json:"irqs"`
	XPS      []setting.CPUSet  `json:"xps"`             // by transmit queue
	RPS      []setting.CPUSet  `json:"rps"`             // by receive queue
	Qdisc    string            `json:"qdisc,omitempty"` // root qdisc
	// that its transmit queues are divided into (mqprio, DCB); 0: not divided
	Classes int `json:"traffic_classes,omitempty"`
	// a lane program of mpps chooses its transmit queue (setting.QueueLanes)
	Steered bool     `json:"steered,omitempty"`
	Link    *PCILink `json:"pcie_link"`
	SRIOV   *SRIOV   `json:"sriov"`
	PhysFn  string   `json:"physfn,omitempty"` // this NIC is a VF of that PF
	// totals since boot: rx_packets, rx_dropped, rx_missed_errors …
	Stats map[string]uint64 `json:"stats"`
	// why this is the operator's way in: "default route", "route to 192.0.2.7 (SSH client)"
	Management string `json:"management,omitempty"`
}

// Channels is what ethtool -l shows.
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

// Rings is what ethtool -g shows: descriptors.
type Rings struct {
	Rx    int `json:"rx"`
	Tx    int `json:"tx"`
	MaxRx int `json:"max_rx"`
	MaxTx int `json:"max_tx"`
}

// Feature is one line of ethtool -k.
type Feature struct {
	Name  string `json:"name"` // the kernel's name: tx-checksum-ip-generic
	On    bool   `json:"on"`
	Fixed bool   `json:"fixed"`
}

// IRQ is one interrupt of a device. Managed interrupts refuse writes of their affinity with EIO, from Linux commit
// eb29369fa543 on with EPERM.
type IRQ struct {
	Number int    `json:"number"`
	Name   string `json:"name"` // the action's name in /proc/interrupts
	// the name without device and driver ("TxRx-0"): stays when the device is renamed
	On        string         `json:"on"`
	Affinity  setting.CPUSet `json:"affinity"`
	Effective setting.CPUSet `json:"effective"`
	Hint      setting.CPUSet `json:"hint"`
	Count     uint64         `json:"count"` // over all CPUs, since boot
	// known to refuse: newer kernels give its file no write permission (kernel/irq/proc.c, register_irq_proc)
	Managed bool `json:"managed"`
}

// Address is where the affinity of one of the NIC's interrupts is set. The interrupt is found again by device and name:
// its number changes when the driver sets its vectors up again and is kept only to tell two of the same name apart.
func (n NIC) Address(i IRQ) setting.Address {
	return setting.Of(setting.IRQAffinity, n.Name, i.On, strconv.Itoa(i.Number))
}

// PCILink is the negotiated and the possible PCIe link.
type PCILink struct {
	Speed    string `json:"speed"` // "8.0 GT/s PCIe"
	MaxSpeed string `json:"max_speed"`
	Width    int    `json:"width"` // lanes
	MaxWidth int    `json:"max_width"`
}

// SRIOV is a physical function's ability to have virtual ones.
type SRIOV struct {
	Total     int  `json:"total"`
	Enabled   int  `json:"enabled"`
	AutoProbe bool `json:"drivers_autoprobe"`
}

// VF is one virtual function of a physical one.
type VF struct {
	PF         string `json:"pf"`
	Index      int    `json:"index"`
	PCI        string `json:"pci"`   // empty where the function is on no PCI bus (netdevsim)
	Group      int    `json:"group"` // IOMMU group, −1 without an IOMMU
	Driver     string `json:"driver"`
	NIC        string `json:"nic,omitempty"`
	Guest      string `json:"guest,omitempty"` // that runs with it, else one whose definition names it
	MAC        string `json:"mac"`
	VLAN       int    `json:"vlan"`
	QoS        int    `json:"qos"`
	MaxTxRate  int    `json:"max_tx_rate"` // Mb/s, 0 = unlimited
	MinTxRate  int    `json:"min_tx_rate"`
	SpoofCheck bool   `json:"spoofchk"`
	Trust      bool   `json:"trust"`
	LinkState  string `json:"link_state"` // auto, enable or disable

	// of its interface on the host, the larger number of the two directions; 0 where it has none
	Queues int `json:"queues,omitempty"`
	// what the host itself does with its interface: "port of br0"; empty: nothing that can be seen
	HostUse string `json:"host_use,omitempty"`
	// a process that has it open and is no guest of libvirt: "dpdk-testpmd (process 4711)"; or OtherNamespace
	Holder string `json:"holder,omitempty"`
	// OnlyAddress is set where all that the host does with its interface is to have an address on it.
	OnlyAddress bool `json:"only_address,omitempty"`
	// Elsewhere is set where its interface is in another network namespace.
	Elsewhere bool `json:"elsewhere,omitempty"`

	// attributes that the driver, or a recorded tree, does not tell: their fields say nothing
	Untold  []string   `json:"untold,omitempty"`
	Traffic *VFTraffic `json:"traffic,omitempty"` // nil where the driver does not count
}

// OtherNamespace holds a function whose interface is not among those of the host: which process is there is not told.
const OtherNamespace = "a container (another network namespace)"

// UnmarshalJSON reads a function. Snapshots of earlier versions say in words only what the host does with it.
func (v *VF) UnmarshalJSON(text []byte) error {
	type plain VF
	if err := json.Unmarshal(text, (*plain)(v)); err != nil {
		return err
	}
	v.OnlyAddress = v.OnlyAddress || strings.HasPrefix(v.HostUse, "has address ")
	v.Elsewhere = v.Elsewhere || v.Holder == OtherNamespace
	return nil
}

// VFTraffic is what a function carried since it was made, as its physical function counts
// (include/uapi/linux/if_link.h, IFLA_VF_STATS): rx is to the guest, tx from it.
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

// TunnelTypes are the types of devices that stand between bridges and NICs, as the kernel names them (IFLA_INFO_KIND).
var TunnelTypes = []string{"vxlan", "gretap", "ip6gretap", "geneve", "vlan", "bond"}

// Tunnel is an overlay device.
type Tunnel struct {
	Name     string `json:"name"`
	Type     string `json:"type"` // vxlan, gretap, ip6gretap, geneve, vlan, bond
	Lower    string `json:"lower,omitempty"`
	Master   string `json:"master,omitempty"`
	TxQueues int    `json:"tx_queues"`
	RxQueues int    `json:"rx_queues"`
	Lockless bool   `json:"lockless"` // NETIF_F_LLTX: transmits without a queue lock
	// LocklessBy tells what Lockless rests on: "feature" (the device says so itself), "driver" (Linux 6.12 and later
	// hide the flag, but every device of this type has, or has not, got it), or empty: could not tell.
	LocklessBy  string   `json:"lockless_by,omitempty"`
	Up          bool     `json:"up"`
	Classifiers []string `json:"classifiers,omitempty"` // tc filters at its egress: "u32", "bpf"
}

// Tap is a tap or macvtap device.
type Tap struct {
	Name  string `json:"name"`
	Type  string `json:"type"`            // tap or macvtap
	Lower string `json:"lower,omitempty"` // the device under a macvtap
	// user who may open it without privilege, −1 where nobody is named
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

	// tc filters at its ingress, but for those of mpps: "u32", "bpf"
	Classifiers []string `json:"classifiers,omitempty"`
}

// Netfilter is which hooks and rules stand in a packet's way.
type Netfilter struct {
	BridgeModule bool `json:"br_netfilter"` // loaded: bridged frames may be handed to iptables
	Conntrack    bool `json:"nf_conntrack"` // loaded
	// iptables-legacy, iptables-nft, nft, ebtables-legacy, ebtables-nft: those with rules
	Backends []string  `json:"backends"`
	Rules    []RuleSet `json:"rule_sets"`
}

// RuleSet is one family's or tool's rules.
type RuleSet struct {
	Tool  string   `json:"tool"`  // nft, iptables-legacy, ip6tables-legacy, ebtables-legacy, arptables-legacy
	Rules int      `json:"rules"` // number of rules over all chains
	Lines []string `json:"lines"` // the rules in the tool's own save format, one each, without counters; at most 2000
	Cut   bool     `json:"cut,omitempty"`
}
