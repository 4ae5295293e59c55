package agent

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/traffic"
)

// Info says what machine an agent runs on.
type Info struct {
	MPPS     string   `json:"mpps"`
	Host     string   `json:"host"`
	Kernel   string   `json:"kernel"`
	CPUs     int      `json:"cpus"`
	First    bool     `json:"first"` // the agent is the machine's first process
	Live     string   `json:"live"`  // XDP live frames: yes, no, unknown
	LiveWhy  string   `json:"live_why,omitempty"`
	Links    []Link   `json:"links"` // of the agent's own network namespace
	Warnings []string `json:"warnings,omitempty"`
}

// Link is one network interface.
type Link struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	MAC   string   `json:"mac"`
	MTU   int      `json:"mtu"`
	Up    bool     `json:"up"`
	Addrs []string `json:"addrs,omitempty"` // with prefix length
}

func info(version string) (Info, error) {
	i := Info{MPPS: version, CPUs: runtime.NumCPU(), First: os.Getpid() == 1}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return i, fmt.Errorf("uname: %w", err)
	}
	i.Host, i.Kernel = unix.ByteSliceToString(u.Nodename[:]), unix.ByteSliceToString(u.Release[:])
	s := traffic.Probe()
	i.Live = string(s.Answer)
	if s.Err != nil {
		i.LiveWhy = s.Err.Error()
	}
	links, err := netlink.LinkList()
	if err != nil {
		return i, fmt.Errorf("list interfaces: %w", err)
	}
	for _, l := range links {
		a := l.Attrs()
		k := Link{Name: a.Name, Kind: l.Type(), MAC: a.HardwareAddr.String(), MTU: a.MTU, Up: a.RawFlags&unix.IFF_UP != 0}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			i.Warnings = append(i.Warnings, fmt.Sprintf("addresses of %s: %v", a.Name, err))
		}
		for _, addr := range addrs {
			k.Addrs = append(k.Addrs, addr.IPNet.String())
		}
		i.Links = append(i.Links, k)
	}
	return i, nil
}

// stat is /proc/stat without its line of interrupts, which is long and of no
// use here.
func stat() (string, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "cpu") {
			out.WriteString(line)
		}
	}
	return out.String(), nil
}

// Counters are the statistics of an interface (struct rtnl_link_stats64), by
// their names under /sys/class/net/IFACE/statistics.
type Counters map[string]uint64

func counters(e traffic.Endpoint) (Counters, error) {
	var c Counters
	if err := checked(e); err != nil {
		return c, err
	}
	err := e.Do(func() error {
		l, err := netlink.LinkByName(e.Iface)
		if err != nil {
			var missing netlink.LinkNotFoundError
			if errors.As(err, &missing) {
				return fmt.Errorf("%s: %w", e, traffic.ErrNoDevice)
			}
			return fmt.Errorf("%s: %w", e, err)
		}
		s := l.Attrs().Statistics
		if s == nil {
			return fmt.Errorf("%s: the kernel gave no statistics", e)
		}
		c = Counters{
			"rx_packets": s.RxPackets, "tx_packets": s.TxPackets, "rx_bytes": s.RxBytes, "tx_bytes": s.TxBytes,
			"rx_errors": s.RxErrors, "tx_errors": s.TxErrors, "rx_dropped": s.RxDropped, "tx_dropped": s.TxDropped,
			"multicast": s.Multicast, "collisions": s.Collisions,
			"rx_length_errors": s.RxLengthErrors, "rx_over_errors": s.RxOverErrors, "rx_crc_errors": s.RxCrcErrors,
			"rx_frame_errors": s.RxFrameErrors, "rx_fifo_errors": s.RxFifoErrors, "rx_missed_errors": s.RxMissedErrors,
			"tx_aborted_errors": s.TxAbortedErrors, "tx_carrier_errors": s.TxCarrierErrors,
			"tx_fifo_errors": s.TxFifoErrors, "tx_heartbeat_errors": s.TxHeartbeatErrors, "tx_window_errors": s.TxWindowErrors,
		}
		return nil
	})
	return c, err
}
