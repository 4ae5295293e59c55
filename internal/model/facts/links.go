package facts

import (
	"regexp"
	"slices"
	"strconv"

	"mpps/internal/model/setting"
)

// Link is a network device that guests' packets can pass besides NICs, bridges, taps and tunnels: a veth, a team, a
// port or the datapath of Open vSwitch, a macvlan, a VRF.
type Link struct {
	Name string `json:"name"`
	// IFLA_INFO_KIND: veth, team, openvswitch, macvlan, ipvlan, vrf, gre … or empty if it is not known
	Kind   string `json:"kind"`
	Master string `json:"master,omitempty"` // bridge, bond, team, VRF, or OVSDatapath
	Lower  string `json:"lower,omitempty"`  // device that it is bound to
	Peer   string `json:"peer,omitempty"`   // other end of a veth in this network namespace
	Up     bool   `json:"up"`
	// the other end of a veth, or the device under it, is in another network namespace: a container's, a router's
	Elsewhere bool `json:"elsewhere,omitempty"`
	// that namespace was read and leads no further: a container's
	DeadEnd bool `json:"dead_end,omitempty"`
	// of a link that leads to a namespace of guests: BPF programs at XDP and tc ("xdp", "tc") that choose where its
	// packets go
	Programs []string `json:"programs,omitempty"`
	// of a tunnel that is bound to no device: as Tunnel.Underlay and Tunnel.External
	Underlay []string `json:"underlay,omitempty"`
	External bool     `json:"external,omitempty"`
}

// OVSDatapath is the device that stands for the kernel's datapath of Open vSwitch: its ports have it as master,
// whichever of Open vSwitch's bridges they belong to (lib/dpif.c: "ovs-system" holds the ports of all bridges).
const OVSDatapath = "ovs-system"

// Routing is what this host's network layer does with packets that are not its own.
type Routing struct {
	Forward Answer `json:"forward,omitempty"` // of IPv4 or IPv6, on any device
	// devices with an address (except IPv6's link-local) or the route of a subnet: the host takes packets from there
	Addressed []string `json:"addressed,omitempty"`
	// devices that routes through a gateway leave by, in any table, and point-to-point devices with a route: where
	// forwarded packets can go
	Uplinks []string `json:"uplinks,omitempty"`
	// routes of any table that refuse packets, as ip route shows them ("blackhole 10.1.0.0/16"): the first eight
	Refusing []string `json:"refusing,omitempty"`
	// rules that rewrite the source of forwarded packets: masquerade, SNAT
	Masquerade Answer `json:"masquerade,omitempty"`
}

// Poller is a process other than QEMU that moves guests' packets by polling: ovs-vswitchd with DPDK, VPP, a DPDK or
// AF_XDP application. It is known by what it holds and does, not by its name.
type Poller struct {
	PID  int            `json:"pid"`
	Comm string         `json:"comm"` // for people
	CPUs setting.CPUSet `json:"cpus"` // of the threads that are bound and never sleep
	// PCI addresses of devices that it drives itself (VFIO, UIO)
	Functions []string `json:"functions,omitempty"`
	// NICs that it shares with the kernel: by AF_XDP, or through a driver that keeps the device (mlx5)
	NICs      []string `json:"nics,omitempty"`
	Sockets   bool     `json:"vhost_user_sockets"` // it shares vrings with guests
	Hugepages uint64   `json:"hugepages_bytes"`    // huge pages that it maps
}

// VDPA is a device that implements virtio's data path: a function of a NIC, or a simulator.
type VDPA struct {
	Name string `json:"name"` // vdpa0
	// file by which a program has it: /dev/vhost-vdpa-0; empty: the host's own virtio driver has it
	Node   string `json:"node,omitempty"`
	PCI    string `json:"pci,omitempty"` // function that implements it, or has the subfunction; empty: none
	Parent string `json:"parent"`        // bus device: 0000:41:00.2, mlx5_core.sf.4, vdpasim_net, vduse

	Queues     int `json:"queues,omitempty"`      // queue pairs that it was made with; 0: not known
	MostQueues int `json:"most_queues,omitempty"` // … that one of its parent can have; 0: not known
	MTU        int `json:"mtu,omitempty"`         // 0: not known, or the device has none
}

// Bus devices of vDPA that are no hardware: the kernel's simulator, which hands every packet back to who sent it
// (drivers/vdpa/vdpa_sim/vdpa_sim_net.c), and devices that a process implements (drivers/vdpa/vdpa_user).
const (
	VDPASimulator = "vdpasim_net"
	VDUSE         = "vduse"
)

// VDPATypes are types of a guest's NIC that is a vDPA device, in libvirt's and QEMU's words.
var VDPATypes = []string{"vdpa", "vhost-vdpa"}

// VDPA reports whether a guest's NIC is a vDPA device.
func (i Interface) VDPA() bool { return slices.Contains(VDPATypes, i.Type) }

// VDPAOf returns the vDPA device of a guest's NIC; nil if it has none, or if that is not known.
func (h *Host) VDPAOf(i Interface) *VDPA {
	return Find(h.VDPA, func(v *VDPA) bool { return v.Node != "" && v.Node == i.Source })
}

// representor matches phys_port_name: of another controller's function (c), of a port (p, drivers/net/ethernet/sfc),
// of a physical function, a virtual one (vfr: drivers/net/ethernet/intel/ice without devlink's name) or a subfunction.
var representor = regexp.MustCompile(`^(c\d+)?(?:p\d+)?pf(\d+)(?:vfr?(\d+)|sf\d+)?$`)

// Represents reports whether a NIC stands for a virtual function of a PF of this host. Both ports of a card may have
// one switch ID (VF LAG), and then the bus device tells them apart: a representor has that of its PF.
func (n *NIC) Represents(v *VF, pf *NIC) bool {
	is := representor.FindStringSubmatch(n.PortName)
	return n.SwitchID != "" && n.SwitchID == pf.SwitchID && n.Name != pf.Name && v.PF == pf.Name && is != nil &&
		is[1] == "" && is[3] == strconv.Itoa(v.Index) && (n.PCI == "" || pf.PCI == "" || n.PCI == pf.PCI)
}

// Representor reports whether a NIC stands for a function in an eSwitch (switchdev mode): a virtual function, a
// subfunction, or on a card with CPUs of its own (SmartNIC) the host's physical function. What it receives are packets
// of the function that no offloaded rule handled (net/core/devlink.c, __devlink_port_phys_port_name_get).
func (n *NIC) Representor() bool { return n.SwitchID != "" && representor.MatchString(n.PortName) }
