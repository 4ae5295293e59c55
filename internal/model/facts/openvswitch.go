package facts

import "mpps/internal/model/setting"

// OpenVSwitch is what Open vSwitch's database and the kernel's datapath hold. Flows are in neither part: there can be
// hundreds of thousands.
type OpenVSwitch struct {
	Version string `json:"version"` // empty: the database was not read, or does not tell
	// other_config of the table Open_vSwitch: n-handler-threads, max-idle, hw-offload …
	Config map[string]string `json:"other_config"`
	OVN    *OVN              `json:"ovn,omitempty"` // nil: no chassis of OVN
	// OpenStack's os-vif has named the instance of a port (external_ids:vm-uuid)
	OpenStack bool             `json:"openstack,omitempty"`
	Bridges   []OVSBridge      `json:"bridges"`
	Datapaths []KernelDatapath `json:"datapaths"`
	// ovs-vswitchd's process, 0 if it does not run or is not known to be the system's
	PID     int         `json:"pid,omitempty"`
	Threads []OVSThread `json:"threads"` // of that process, by TID
	// what ovs-vswitchd tells of its own datapath; nil: it has none, or tells nothing
	Polled *PolledSwitch `json:"polled,omitempty"`
}

// OVN is the chassis that a host is of OVN (ovn-controller(8), external_ids of the table Open_vSwitch).
type OVN struct {
	Chassis   string `json:"chassis,omitempty"` // system-id; empty: not set here
	Remote    string `json:"remote"`
	Bridge    string `json:"bridge"`     // of the integration: br-int if ovn-bridge is not set
	EncapType string `json:"encap_type"` // one, or several with commas
	EncapIP   string `json:"encap_ip"`   // as EncapType
	// bridges of physical networks by the networks' names (ovn-bridge-mappings)
	Mappings map[string]string `json:"bridge_mappings,omitempty"`
	// zones of connection tracking that ovn-controller gave out, to ports and routers (external_ids:ct-zone-* of the
	// integration bridge). It gives one to each port whether or not an ACL is stateful.
	Zones int `json:"conntrack_zones,omitempty"`
}

// OVSBridge is a bridge of Open vSwitch.
type OVSBridge struct {
	Name     string    `json:"name"`
	Datapath string    `json:"datapath_type"` // system: the kernel's; netdev: polling threads of ovs-vswitchd
	FailMode string    `json:"fail_mode,omitempty"`
	Ports    []OVSPort `json:"ports"`
}

// UserDatapath is the datapath type that ovs-vswitchd implements by itself, with DPDK or AF_XDP (lib/dpif-netdev.c).
const UserDatapath = "netdev"

// OVSTunnels are Open vSwitch's types of tunnels with the kinds of the devices that serve them in the kernel's datapath
// (lib/dpif-netlink-rtnl.c, vport_type_to_kind).
var OVSTunnels = map[string][]string{
	"geneve": {"geneve"}, "vxlan": {"vxlan"}, "gre": {"gretap", "gre"}, "ip6gre": {"ip6gre"},
	"erspan": {"erspan", "ip6erspan"},
}

// OVSPort is a port of a bridge: one interface, or those of a bond.
type OVSPort struct {
	Name     string `json:"name"`
	BondMode string `json:"bond_mode,omitempty"`
	Tag      int    `json:"tag,omitempty"`
	Trunks   int    `json:"trunks,omitempty"` // number of VLANs that it carries; 0: all, or none but its tag's
	QoS      bool   `json:"qos,omitempty"`    // has a row of QoS: a shaper on what leaves by it
	// it stands for a bridge of one VLAN, its tag, of the bridge that it is a port of
	Fake bool `json:"fake_bridge,omitempty"`
	// OVN's patch port between the integration bridge and that of a physical network (external_ids:ovn-localnet-port)
	Localnet   bool           `json:"localnet,omitempty"`
	Interfaces []OVSInterface `json:"interfaces"`
}

// OVSInterface is an interface of a port.
type OVSInterface struct {
	Name   string `json:"name"`
	Type   string `json:"type"` // empty or system: a device of the kernel; internal, patch, vxlan, geneve, gre, dpdk …
	OFPort int    `json:"ofport"`
	// policer of what arrives by it, in kbit/s and kbit; rate 0: none
	PolicingRate  int `json:"ingress_policing_rate,omitempty"`
	PolicingBurst int `json:"ingress_policing_burst,omitempty"`
	// the same by packets, in 1000 packets/s and 1000 packets, since Open vSwitch 2.16
	PacketRate  int    `json:"ingress_policing_kpkts_rate,omitempty"`
	PacketBurst int    `json:"ingress_policing_kpkts_burst,omitempty"`
	MTU         int    `json:"mtu,omitempty"`
	LinkState   string `json:"link_state,omitempty"`
	Error       string `json:"error,omitempty"`
	// it is a port of a logical switch (external_ids:iface-id), and OVN's flows of it are in place
	// (external_ids:ovn-installed)
	IfaceID   bool `json:"iface_id,omitempty"`
	Installed bool `json:"ovn_installed,omitempty"`
	// options of patch ports and tunnels: peer, remote_ip, local_ip, dst_port, key, in_key, out_key, seq, df_default,
	// csum; of ports that are polled: dpdk-devargs, vhost-server-path, n_rxq, n_rxq_desc, n_txq_desc, tx-retries-max
	Options map[string]string `json:"options,omitempty"`
	// of ports that are polled: pmd-rxq-affinity
	Config map[string]string `json:"other_config,omitempty"`
	// of ports that are polled, as ovs-vswitchd reports: status, socket, mode, numa, numa_id, driver_name, bus_info …
	Status map[string]string `json:"status,omitempty"`
	// of ports that are polled: totals that are not 0, a few seconds old (statistics of the table Interface)
	Statistics map[string]uint64 `json:"statistics,omitempty"`
}

// KernelDatapath is a datapath of the kernel (include/uapi/linux/openvswitch.h, struct ovs_dp_stats and
// ovs_dp_megaflow_stats). Counters are totals since it was made.
type KernelDatapath struct {
	Name     string `json:"name"`
	Index    int    `json:"ifindex"`
	Hit      uint64 `json:"hit"`       // packets for which it had a flow
	Missed   uint64 `json:"missed"`    // packets that ovs-vswitchd was asked about (upcalls)
	Lost     uint64 `json:"lost"`      // those of them that did not reach it
	Flows    uint64 `json:"flows"`     // now
	MaskHit  uint64 `json:"mask_hit"`  // masks tried
	CacheHit uint64 `json:"cache_hit"` // packets whose mask was remembered
	Masks    uint64 `json:"masks"`     // now
	// each CPU has a handler for its upcalls (OVS_DP_F_DISPATCH_UPCALL_PER_CPU): n-handler-threads is not used
	PerCPU bool `json:"per_cpu_upcalls"`
	Ports  int  `json:"ports"`
	// ports with upcalls that failed, the most first, at most 64; the kernel counts them since Linux 6.3
	Upcalls []OVSUpcalls `json:"upcalls,omitempty"`
}

// OVSUpcalls is the upcalls of one port of a datapath (OVS_VPORT_ATTR_UPCALL_STATS).
type OVSUpcalls struct {
	Port string `json:"port"`
	Done uint64 `json:"done"`
	Lost uint64 `json:"lost"`
}

// OVSThread is a thread of ovs-vswitchd that carries packets or flows.
type OVSThread struct {
	TID      int            `json:"tid"`
	Role     string         `json:"role"` // handler, revalidator or pmd
	CPU      int            `json:"cpu"`  // where it ran last
	Affinity setting.CPUSet `json:"affinity"`
}

// Known reports whether the database was read.
func (o *OpenVSwitch) Known() bool { return o != nil && len(o.Bridges) > 0 }

// interfaces returns the interfaces that are wanted, by bridge and name.
func (o *OpenVSwitch) interfaces(wanted func(*OVSBridge, *OVSInterface) bool) (all []*OVSInterface) {
	if o == nil {
		return nil
	}
	for b := range Each(o.Bridges) {
		for p := range Each(b.Ports) {
			for i := range Each(p.Interfaces) {
				if wanted(b, i) {
					all = append(all, i)
				}
			}
		}
	}
	return all
}

// Policed returns the interfaces that police what arrives by them, by bridge and name.
func (o *OpenVSwitch) Policed() []*OVSInterface {
	return o.interfaces(func(_ *OVSBridge, i *OVSInterface) bool { return i.PolicingRate > 0 || i.PacketRate > 0 })
}

// stableOpenVSwitch returns a copy without counters, threads, states of links, and ports of guests, which come and go
// with them.
func stableOpenVSwitch(o *OpenVSwitch, taps map[string]string) *OpenVSwitch {
	if o == nil {
		return nil
	}
	c := *o
	c.PID, c.Threads, c.OpenStack, c.Polled = 0, nil, false, nil
	if o.OVN != nil {
		chassis := *o.OVN
		chassis.Zones = 0
		c.OVN = &chassis
	}
	c.Datapaths = edited(o.Datapaths, func(d *KernelDatapath) {
		*d = KernelDatapath{Name: d.Name, PerCPU: d.PerCPU}
	})
	c.Bridges = edited(o.Bridges, func(b *OVSBridge) {
		b.Ports = Where(b.Ports, func(p OVSPort) bool { return taps[p.Name] == "" })
		b.Ports = edited(b.Ports, func(p *OVSPort) {
			p.Interfaces = edited(p.Interfaces, func(i *OVSInterface) {
				i.OFPort, i.LinkState, i.Error, i.Installed = 0, "", "", false
				i.Status, i.Statistics = nil, nil
			})
		})
	})
	return &c
}
