// Package counters reads the kernel's counters of packets, above all of those that went no further: of interfaces, of
// their drivers, of queueing disciplines, of CPUs' backlogs and of UDP sockets. It reads one network namespace at a
// time, that of an endpoint.
package counters

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/measure/traffic"
)

// Counters are totals since boot by name.
type Counters map[string]uint64

// Interface is what the kernel counts at one interface. Names without a point are those of struct rtnl_link_stats64
// (Documentation/networking/statistics.rst), "qdisc." is of its queueing disciplines, "driver." and "vring." of its
// driver.
type Interface struct {
	Name     string
	Kind     string // as rtnetlink has it: "tuntap", "veth", "bridge"; "device" for hardware and the loopback
	Counters Counters
}

// OfNamespace reads all interfaces of a network namespace, and its UDP counters, whose names begin with "udp.".
func OfNamespace(netns string) (interfaces []Interface, udp Counters, err error) {
	err = traffic.Endpoint{Netns: netns}.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return fmt.Errorf("interfaces: %w", err)
		}
		if interfaces, err = read(links); err != nil {
			return err
		}
		udp, err = sockets()
		return err
	})
	return interfaces, udp, err
}

// OfInterface reads one interface, and with it the UDP counters of its namespace and the machine's softnet counters.
// One that is not there is traffic.ErrNoDevice.
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
		interfaces, err := read([]netlink.Link{l})
		if err != nil {
			return fmt.Errorf("%s: %w", e, err)
		}
		all = interfaces[0].Counters
		udp, err := sockets()
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

// read reads what is counted at interfaces of the calling thread's namespace.
func read(links []netlink.Link) ([]Interface, error) {
	drops, err := queueing()
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
		i := Interface{Name: a.Name, Kind: l.Type(), Counters: standard(a.Statistics)}
		if stacked(l) {
			delete(i.Counters, "tx_dropped")
			i.Counters["tx_refused_below"] = a.Statistics.TxDropped
		}
		maps.Copy(i.Counters, drops[a.Index])
		if i.Kind == "device" && a.RawFlags&unix.IFF_LOOPBACK == 0 {
			maps.Copy(i.Counters, driver(socket, a.Name))
		}
		all = append(all, i)
	}
	return all, nil
}

// stacked reports whether an interface drops nothing that it sends by itself, but counts what the one below it in the
// same namespace did not take, which counts it too (vlan_dev_hard_start_xmit in net/8021q/vlan_dev.c,
// macvlan_start_xmit in drivers/net/macvlan.c, ipvlan_start_xmit in drivers/net/ipvlan/ipvlan_main.c).
func stacked(l netlink.Link) bool {
	switch l.Type() {
	case "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap":
		return l.Attrs().NetNsID < 0
	}
	return false
}

func standard(s *netlink.LinkStatistics) Counters {
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

// queueing reads what the queueing disciplines dropped, by index of the interface. The one at the root counts what
// those below it dropped too: by itself (tbf_enqueue in net/sched/sch_tbf.c, htb_enqueue), through
// qdisc_tree_reduce_backlog (net/sched/sch_api.c) or by adding up (mq_dump). The one of ingress counts what its filters
// and policers dropped.
func queueing() (map[int]Counters, error) {
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

// driver reads those of the driver's own counters that are known to count drops which no standard counter has, or a
// place that none tells. The list is short on purpose: a driver's word for a drop may be another's for a retry
// (rx_no_buffer_count of igb counts frames that may still have been taken).
//
//   - igb: rx_queue_N_drops, frames that found no descriptor (register RQDPC; igb_update_stats in
//     drivers/net/ethernet/intel/igb/igb_main.c adds them to rx_fifo_errors only).
//   - ixgbe: rx_no_dma_resources, the same (QPRDC; ixgbe_update_stats in
//     drivers/net/ethernet/intel/ixgbe/ixgbe_main.c).
//   - virtio_net: rx_queue_N_drops (rxN_drops and rx_drops since 6.10), vring buffers that became no packet. They are
//     also in rx_dropped (virtnet_stats in drivers/net/virtio_net.c). Frames taken by an XDP program are not counted.
func driver(socket int, device string) Counters {
	d, err := nicctl.ReadDriver(socket, device)
	if err != nil {
		return nil
	}
	switch d.Name {
	case "igb", "ixgbe", "virtio_net":
		return ofDriver(d.Name, nicctl.Statistics(socket, device, d.Statistics))
	}
	return nil
}

// ofDriver picks the counters of driver out of all that a driver has.
func ofDriver(name string, statistics map[string]uint64) Counters {
	if len(statistics) == 0 {
		return nil
	}
	switch name {
	case "igb":
		return Counters{"driver.rx_queue_drops": queues(statistics, "drops")}
	case "ixgbe":
		return Counters{"driver.rx_no_dma_resources": statistics["rx_no_dma_resources"]}
	case "virtio_net":
		drops, xdp := queues(statistics, "drops"), queues(statistics, "xdp_drops")
		return Counters{"vring.rx_drops": drops - min(xdp, drops)}
	}
	return nil
}

// queues adds up a counter over the receive queues: rx_queue_0_NAME or rx0_NAME.
func queues(statistics map[string]uint64, name string) (sum uint64) {
	for key, n := range statistics {
		rest, ok := strings.CutPrefix(key, "rx")
		rest, ofQueue := strings.CutSuffix(strings.TrimPrefix(rest, "_queue_"), "_"+name)
		if _, err := strconv.ParseUint(rest, 10, 16); ok && ofQueue && err == nil {
			sum += n
		}
	}
	return sum
}

// sockets reads the UDP counters of the calling thread's namespace.
func sockets() (Counters, error) {
	all := Counters{}
	for file, prefix := range map[string]string{"/proc/thread-self/net/snmp": "udp.",
		"/proc/thread-self/net/snmp6": "udp6."} {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) { // without IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("UDP counters: %w", err)
		}
		text, err := io.ReadAll(f)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("UDP counters: %w", err)
		}
		for name, n := range ParseUDP(string(text)) {
			all[prefix+name] = n
		}
	}
	return all, nil
}

// udpNames are the UDP counters that are kept. RcvbufErrors, MemErrors and InCsumErrors are all in InErrors, and
// nothing is in two of them (__udp_queue_rcv_skb and udp_queue_rcv_one_skb in net/ipv4/udp.c).
var udpNames = map[string]string{
	"InErrors": "in_errors", "NoPorts": "no_ports", "RcvbufErrors": "rcvbuf_errors", "MemErrors": "mem_errors",
	"InCsumErrors": "csum_errors", "SndbufErrors": "sndbuf_errors",
}

// ParseUDP reads the UDP counters of /proc/net/snmp, where names stand above their numbers, or of /proc/net/snmp6,
// where each has a line. What is not there is left out.
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
				counters.keep(names[i], fields[i])
			}
		case len(fields) == 2 && strings.HasPrefix(fields[0], "Udp6"):
			counters.keep(strings.TrimPrefix(fields[0], "Udp6"), fields[1])
		}
	}
	return counters
}

func (c Counters) keep(name, number string) {
	n, err := strconv.ParseUint(number, 10, 64)
	if kept := udpNames[name]; kept != "" && err == nil {
		c[kept] = n
	}
}

// ParseSoftnet adds up /proc/net/softnet_stat over the CPUs (softnet_seq_show in net/core/net-procfs.c): packets that
// were processed, those that found a backlog full, and how often a CPU had not the time to process all. They are of the
// whole machine, whatever namespace the file is read in.
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

// OfMachine reports whether a counter belongs to a machine or namespace and to none of its interfaces.
func OfMachine(name string) bool {
	return strings.HasPrefix(name, "softnet.") || strings.HasPrefix(name, "udp.") || strings.HasPrefix(name, "udp6.")
}
