// Package counters reads the kernel's packet counters, above all drop counters: of interfaces, their drivers, qdiscs,
// the CPUs' backlogs and UDP sockets. It reads one network namespace at a time, that of an endpoint.
package counters

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/measure/traffic"
)

// Counters are totals since boot, by name.
type Counters map[string]uint64

// Interface holds the counters of one interface. Names without a dot are those of struct rtnl_link_stats64
// (Documentation/networking/statistics.rst); "qdisc." counters belong to its qdiscs, "driver." and "vring." counters to
// its driver.
type Interface struct {
	Name     string
	Kind     string // as rtnetlink has it: "tuntap", "veth", "bridge"; "device" for hardware and the loopback
	Counters Counters
}

// OfNamespace reads all interfaces of a network namespace, and its UDP counters, which are prefixed "udp." or "udp6.".
func OfNamespace(netns string) (interfaces []Interface, udp Counters, err error) {
	err = traffic.Endpoint{Netns: netns}.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("interfaces: %w", err)
		}
		if interfaces, err = readLinks(links); err != nil {
			return err
		}
		udp, err = udpCounters()
		return err
	})
	return interfaces, udp, err
}

// OfInterface reads one interface, the UDP counters of its namespace and the machine's softnet counters. It returns
// traffic.ErrNoDevice if the interface does not exist.
func OfInterface(e traffic.Endpoint) (Counters, error) {
	var all Counters
	err := e.Do(func() error {
		l, err := netlink.LinkByName(e.Iface)
		if err != nil {
			var missing netlink.LinkNotFoundError
			if errors.As(err, &missing) {
				return fmt.Errorf("%s: %w", e, traffic.ErrNoDevice)
			}
			return fmt.Errorf("%s: %w", e, err)
		}
		if l.Attrs().Statistics == nil {
			return fmt.Errorf("%s: the kernel gave no statistics", e)
		}
		interfaces, err := readLinks([]netlink.Link{l})
		if err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		all = interfaces[0].Counters
		udp, err := udpCounters()
		if err != nil {
			return err
		}
		text, err := os.ReadFile("/proc/thread-self/net/softnet_stat")
		if err != nil {
			return err
		}
		softnet, err := ParseSoftnet(string(text))
		maps.Copy(all, udp)
		maps.Copy(all, softnet)
		return err
	})
	return all, err
}

// readLinks reads the counters of interfaces in the calling thread's namespace.
func readLinks(links []netlink.Link) ([]Interface, error) {
	drops, err := qdiscDrops()
	if err != nil {
		return nil, err
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket for the drivers' counters: %w", err)
	}
	defer unix.Close(socket)
	var all []Interface
	for _, l := range links {
		a := l.Attrs()
		if a.Statistics == nil {
			continue
		}
		i := Interface{Name: a.Name, Kind: l.Type(), Counters: linkCounters(a.Statistics)}
		if stacked(l) {
			delete(i.Counters, "tx_dropped")
			i.Counters["tx_refused_below"] = a.Statistics.TxDropped
		}
		maps.Copy(i.Counters, drops[a.Index])
		if i.Kind == "device" && a.RawFlags&unix.IFF_LOOPBACK == 0 {
			maps.Copy(i.Counters, driverDrops(socket, a.Name))
		}
		all = append(all, i)
	}
	return all, nil
}

// stacked reports whether tx_dropped of an interface only counts frames that the interface below, in the same
// namespace, refused and counted as well (vlan_dev_hard_start_xmit in net/8021q/vlan_dev.c, macvlan_start_xmit in
// drivers/net/macvlan.c, ipvlan_start_xmit in drivers/net/ipvlan/ipvlan_main.c).
func stacked(l netlink.Link) bool {
	switch l.Type() {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap":
		return l.Attrs().NetNsID < 0
	}
	return false
}

func linkCounters(s *netlink.LinkStatistics) Counters {
	return Counters{
		"rx_packets": s.RxPackets, "tx_packets": s.TxPackets, "rx_bytes": s.RxBytes, "tx_bytes": s.TxBytes,
		"rx_errors": s.RxErrors, "tx_errors": s.TxErrors, "rx_dropped": s.RxDropped, "tx_dropped": s.TxDropped,
		"multicast": s.Multicast, "collisions": s.Collisions,
		"rx_length_errors": s.RxLengthErrors, "rx_over_errors": s.RxOverErrors, "rx_crc_errors": s.RxCrcErrors,
		"rx_frame_errors": s.RxFrameErrors, "rx_fifo_errors": s.RxFifoErrors, "rx_missed_errors": s.RxMissedErrors,
		"tx_aborted_errors": s.TxAbortedErrors, "tx_carrier_errors": s.TxCarrierErrors,
		"tx_fifo_errors": s.TxFifoErrors, "tx_heartbeat_errors": s.TxHeartbeatErrors,
		"tx_window_errors": s.TxWindowErrors,
	}
}

// qdiscDrops returns the drops of the root and ingress qdiscs, by interface index. The root includes the drops of the
// qdiscs below it: directly (tbf_enqueue in net/sched/sch_tbf.c, htb_enqueue), through qdisc_tree_reduce_backlog
// (net/sched/sch_api.c) or as a sum (mq_dump). The ingress qdisc counts the drops of its filters and policers.
func qdiscDrops() (map[int]Counters, error) {
	list, err := netlink.QdiscList(nil)
	if err != nil {
		return nil, fmt.Errorf("queueing disciplines: %w", err)
	}
	drops := map[int]Counters{}
	for _, q := range list {
		a := q.Attrs()
		name := map[uint32]string{netlink.HANDLE_ROOT: "qdisc.drops",
			netlink.HANDLE_INGRESS: "qdisc.ingress_drops"}[a.Parent]
		if name == "" || a.Statistics == nil || a.Statistics.Queue == nil {
			continue
		}
		if drops[a.LinkIndex] == nil {
			drops[a.LinkIndex] = Counters{}
		}
		drops[a.LinkIndex][name] = uint64(a.Statistics.Queue.Drops)
	}
	return drops, nil
}

// driverCounters are the driver counters, by driver, that are known to count drops which no standard counter has or
// locates. The list is short on purpose: what one driver calls a drop may be a retry in another (rx_no_buffer_count of
// igb includes frames that may have been taken later).
//
//   - igb: rx_queue_N_drops, frames that found no descriptor (register RQDPC; igb_update_stats in
//     drivers/net/ethernet/intel/igb/igb_main.c adds them to rx_fifo_errors only).
//   - ixgbe: rx_no_dma_resources, the same (QPRDC; ixgbe_update_stats in
//     drivers/net/ethernet/intel/ixgbe/ixgbe_main.c).
//   - virtio_net: rx_queue_N_drops (rxN_drops and rx_drops since 6.10), vring buffers without a valid packet. They are
//     also in rx_dropped (virtnet_stats in drivers/net/virtio_net.c). Frames dropped by an XDP program are subtracted.
var driverCounters = map[string]func(statistics map[string]uint64) Counters{
	"igb": func(s map[string]uint64) Counters { return Counters{"driver.rx_queue_drops": sumQueues(s, "drops")} },
	"ixgbe": func(s map[string]uint64) Counters {
		return Counters{"driver.rx_no_dma_resources": s["rx_no_dma_resources"]}
	},
	"virtio_net": func(s map[string]uint64) Counters {
		drops, xdp := sumQueues(s, "drops"), sumQueues(s, "xdp_drops")
		return Counters{"vring.rx_drops": drops - min(xdp, drops)}
	},
}

func driverDrops(socket int, device string) Counters {
	d, err := nicctl.ReadDriver(socket, device)
	if err != nil {
		return nil
	}
	if _, known := driverCounters[d.Name]; !known {
		return nil
	}
	return pickDrops(d.Name, nicctl.Statistics(socket, device, d.Statistics))
}

// pickDrops returns the known drop counters out of all statistics of a driver.
func pickDrops(driver string, statistics map[string]uint64) Counters {
	pick := driverCounters[driver]
	if len(statistics) == 0 || pick == nil {
		return nil
	}
	return pick(statistics)
}

// sumQueues sums a counter over the receive queues: rx_queue_0_NAME or rx0_NAME.
func sumQueues(statistics map[string]uint64, name string) (sum uint64) {
	for key, n := range statistics {
		rest, ok := strings.CutPrefix(key, "rx")
		rest, ofQueue := strings.CutSuffix(strings.TrimPrefix(rest, "_queue_"), "_"+name)
		if _, err := strconv.ParseUint(rest, 10, 16); ok && ofQueue && err == nil {
			sum += n
		}
	}
	return sum
}

// udpCounters reads the UDP counters of the calling thread's namespace.
func udpCounters() (Counters, error) {
	all := Counters{}
	for file, prefix := range map[string]string{"/proc/thread-self/net/snmp": "udp.",
		"/proc/thread-self/net/snmp6": "udp6."} {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) { // no IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("UDP counters: %w", err)
		}
		for name, n := range ParseUDP(string(text)) {
			all[prefix+name] = n
		}
	}
	return all, nil
}

// udpNames are the UDP counters to keep. RcvbufErrors, MemErrors and InCsumErrors are all included in InErrors and
// exclude each other (__udp_queue_rcv_skb and udp_queue_rcv_one_skb in net/ipv4/udp.c).
var udpNames = map[string]string{
	"InErrors": "in_errors", "NoPorts": "no_ports", "RcvbufErrors": "rcvbuf_errors", "MemErrors": "mem_errors",
	"InCsumErrors": "csum_errors", "SndbufErrors": "sndbuf_errors",
}

// ParseUDP reads the UDP counters of /proc/net/snmp, with a line of names above a line of numbers, or of
// /proc/net/snmp6, with one counter per line. Missing counters are left out.
func ParseUDP(text string) Counters {
	counters := Counters{}
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 1 && fields[0] == "Udp:" && names == nil:
			names = fields
		case len(fields) > 1 && fields[0] == "Udp:":
			for i := 1; i < min(len(fields), len(names)); i++ {
				counters.set(names[i], fields[i])
			}
		case len(fields) == 2 && strings.HasPrefix(fields[0], "Udp6"):
			counters.set(strings.TrimPrefix(fields[0], "Udp6"), fields[1])
		}
	}
	return counters
}

func (c Counters) set(name, number string) {
	n, err := strconv.ParseUint(number, 10, 64)
	if kept := udpNames[name]; kept != "" && err == nil {
		c[kept] = n
	}
}

// ParseSoftnet sums /proc/net/softnet_stat over the CPUs (softnet_seq_show in net/core/net-procfs.c): packets
// processed, packets dropped at a full backlog, and how often a CPU ran out of time or budget. The file covers the
// whole machine in every namespace.
func ParseSoftnet(text string) (Counters, error) {
	counters := Counters{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for column, name := range []string{"softnet.processed", "softnet.dropped", "softnet.squeezed"} {
			if column < len(fields) {
				n, err := strconv.ParseUint(fields[column], 16, 64)
				if err != nil {
					return nil, fmt.Errorf("softnet_stat: found %q, expected a hexadecimal number", fields[column])
				}
				counters[name] += n
			}
		}
	}
	return counters, nil
}

// OfMachine reports whether a counter belongs to a machine or a namespace rather than to an interface.
func OfMachine(name string) bool {
	return strings.HasPrefix(name, "softnet.") || strings.HasPrefix(name, "udp.") || strings.HasPrefix(name, "udp6.")
}
