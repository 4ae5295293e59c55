package facts

import (
	"path"
	"slices"

	"mpps/internal/model/setting"
)

// PolledSwitch is what ovs-vswitchd tells of the datapath that it implements by itself, over its control socket.
// Counters are totals since they were cleared.
type PolledSwitch struct {
	PMDs []PMD `json:"pmds"` // its polling threads, by core
	// pools of packet buffers; empty: ovs-vswitchd is without DPDK, or does not tell
	Pools []MbufPool   `json:"mbuf_pools,omitempty"`
	Ports []PolledPort `json:"ports"` // by name
}

// PolledPort is what a port of the datapath counted. What it drops towards a guest are packets for which the guest's
// ring had no room after the retries (lib/netdev-dpdk.c, netdev_dpdk_vhost_send).
type PolledPort struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Queues    int    `json:"rx_queues,omitempty"` // 0: no thread polls it
	RxPackets uint64 `json:"rx_packets"`
	RxDropped uint64 `json:"rx_dropped"` // of dpdk: no descriptor was filled in time, or there was no buffer
	TxPackets uint64 `json:"tx_packets"`
	TxDropped uint64 `json:"tx_dropped"`
}

// PolledBetween returns what was counted between two readings of the same switch; nil if there are not two. Pools and
// usage are those of the second.
func PolledBetween(before, after *PolledSwitch) *PolledSwitch {
	if before == nil || after == nil {
		return nil
	}
	s := &PolledSwitch{PMDs: slices.Clone(after.PMDs), Pools: after.Pools, Ports: slices.Clone(after.Ports)}
	for p := range Each(s.PMDs) {
		if was := before.PMD(p.CPU); was != nil {
			*p = p.since(was)
		}
	}
	ports := make(map[string]PolledPort, len(before.Ports))
	for _, p := range before.Ports {
		ports[p.Name] = p
	}
	for p := range Each(s.Ports) {
		was := ports[p.Name]
		p.RxPackets, p.RxDropped = Increase(was.RxPackets, p.RxPackets), Increase(was.RxDropped, p.RxDropped)
		p.TxPackets, p.TxDropped = Increase(was.TxPackets, p.TxPackets), Increase(was.TxDropped, p.TxDropped)
	}
	return s
}

// PMD is a thread of ovs-vswitchd that polls ports (poll-mode driver).
type PMD struct {
	CPU  int `json:"cpu"`       // it is bound to it
	Node int `json:"numa_node"` // −1: ovs-vswitchd does not know
	// it has only the receive queues that other_config:pmd-rxq-affinity gives it
	Isolated bool       `json:"isolated,omitempty"`
	Queues   []PMDQueue `json:"queues"`

	Packets   uint64 `json:"packets"`
	EMC       uint64 `json:"emc_hits"` // found in the exact match cache
	SMC       uint64 `json:"smc_hits"` // in the signature match cache
	Megaflow  uint64 `json:"megaflow_hits"`
	Simple    uint64 `json:"simple_hits,omitempty"`  // by port and Ethernet type alone (since 2.17)
	Offloaded uint64 `json:"offload_hits,omitempty"` // marked by the NIC
	// subtables that a megaflow hit took on average, in hundredths
	Lookups  uint64 `json:"lookups_hundredths"`
	Upcalls  uint64 `json:"upcalls"`      // packets without a flow
	Lost     uint64 `json:"lost_upcalls"` // those of them that were dropped
	IdleTSC  uint64 `json:"idle_cycles"`  // spent on polls that found nothing
	BusyTSC  uint64 `json:"busy_cycles"`  // spent on packets
	Overhead int    `json:"overhead"`     // per cent of its time; −1: not told
}

// PMDQueue is a receive queue that a PMD polls.
type PMDQueue struct {
	Port    string `json:"port"`
	Queue   int    `json:"queue"`
	Enabled bool   `json:"enabled"` // of vhost-user: the guest has enabled it
	Usage   int    `json:"usage"`   // per cent of the PMD's time in the last minute; −1: not told
}

// MbufPool is a pool of packet buffers (rte_mempool).
type MbufPool struct {
	Name string `json:"name"`
	Node int    `json:"numa_node"`
	Size uint64 `json:"size"`
	Free uint64 `json:"free"` // in the pool and in the caches of its threads
}

// Busy returns the share of a PMD's time that it spent on packets; −1 if it counted no time.
func (p *PMD) Busy() float64 {
	if p.IdleTSC+p.BusyTSC == 0 {
		return -1
	}
	return float64(p.BusyTSC) / float64(p.IdleTSC+p.BusyTSC)
}

// LastMinute returns the share of its time that a PMD had work, in per cent, as ovs-vswitchd told for each of its
// queues; −1 if it told none.
func (p *PMD) LastMinute() int {
	used, told := max(p.Overhead, 0), false
	for _, q := range p.Queues {
		used, told = used+max(q.Usage, 0), told || q.Usage >= 0
	}
	if !told && len(p.Queues) > 0 {
		return -1
	}
	return used
}

// since returns the PMD with what it counted since an earlier reading.
func (p PMD) since(was *PMD) PMD {
	for _, c := range []struct {
		now *uint64
		was uint64
	}{{&p.Packets, was.Packets}, {&p.EMC, was.EMC}, {&p.SMC, was.SMC}, {&p.Megaflow, was.Megaflow},
		{&p.Simple, was.Simple}, {&p.Offloaded, was.Offloaded}, {&p.Upcalls, was.Upcalls}, {&p.Lost, was.Lost},
		{&p.IdleTSC, was.IdleTSC}, {&p.BusyTSC, was.BusyTSC}} {
		*c.now = Increase(c.was, *c.now)
	}
	return p
}

// PMD returns the polling thread of a CPU; nil if there is none.
func (s *PolledSwitch) PMD(cpu int) *PMD {
	if s == nil {
		return nil
	}
	return Find(s.PMDs, func(p *PMD) bool { return p.CPU == cpu })
}

// PMDCPUs returns the CPUs of its polling threads.
func (s *PolledSwitch) PMDCPUs() (cpus setting.CPUSet) {
	if s != nil {
		for _, p := range s.PMDs {
			cpus = cpus.Or(setting.CPUs(p.CPU))
		}
	}
	return cpus
}

// PolledPorts are Open vSwitch's types of ports that PMDs poll (lib/netdev-dpdk.c).
var PolledPorts = []string{"dpdk", "dpdkvhostuser", "dpdkvhostuserclient"}

// VhostUserPort reports whether an interface of Open vSwitch shares vrings with a guest (lib/netdev-dpdk.c).
func (i *OVSInterface) VhostUserPort() bool {
	return i.Type == "dpdkvhostuser" || i.Type == "dpdkvhostuserclient"
}

// Socket returns the path of a vhost-user port's socket; empty if it is not known. What ovs-vswitchd reports counts:
// the folder of dpdkvhostuser's sockets can be set (other_config:vhost-sock-dir).
func (i *OVSInterface) Socket() string {
	switch reported := i.Status["socket"]; {
	case !i.VhostUserPort():
		return ""
	case reported != "":
		return path.Clean(reported)
	case i.Options["vhost-server-path"] != "":
		return path.Clean(i.Options["vhost-server-path"])
	}
	return ""
}

// VhostUserPort returns the port that shares a guest's vrings over a socket, with its bridge; nil if none is known.
func (o *OpenVSwitch) VhostUserPort(socket string) (string, *OVSInterface) {
	if o == nil || !path.IsAbs(socket) {
		return "", nil
	}
	for b := range Each(o.Bridges) {
		for p := range Each(b.Ports) {
			at := slices.IndexFunc(p.Interfaces, func(i OVSInterface) bool {
				return i.VhostUserPort() && i.Socket() == path.Clean(socket)
			})
			if at >= 0 && b.Datapath == UserDatapath {
				return b.Name, &p.Interfaces[at]
			}
		}
	}
	return "", nil
}

// PolledInterfaces returns the interfaces of bridges whose packets polling threads carry, by bridge and name.
func (o *OpenVSwitch) PolledInterfaces() []*OVSInterface {
	return o.interfaces(func(b *OVSBridge, i *OVSInterface) bool {
		return b.Datapath == UserDatapath && slices.Contains(PolledPorts, i.Type)
	})
}
