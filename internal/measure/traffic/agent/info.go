package agent

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/counters"
)

// Info describes the machine that an agent runs on.
type Info struct {
	MPPS     string   `json:"mpps"`
	Host     string   `json:"host"`
	Kernel   string   `json:"kernel"`
	CPUs     int      `json:"cpus"`
	Allowed  []int    `json:"allowed_cpus"` // that the agent may run on, ascending
	First    bool     `json:"first"`        // the agent is PID 1
	Live     string   `json:"live"`         // XDP live frames: yes, no, unknown
	LiveWhy  string   `json:"live_why,omitempty"`
	Pktgen   bool     `json:"pktgen"` // the kernel's packet generator is loaded
	Links    []Link   `json:"links"`  // of the agent's own network namespace
	Warnings []string `json:"warnings,omitempty"`
}

// Link is one network interface.
type Link struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
	MAC  string `json:"mac"`
	MTU  int    `json:"mtu"`
	Up   bool   `json:"up"`
	// Live is whether the driver sends XDP frames: yes, no, unknown.
	Live string `json:"live"`
	// TxQueues is the number of transmit queues in use; 0: not known.
	TxQueues int      `json:"tx_queues"`
	Addrs    []string `json:"addrs,omitempty"` // with prefix length
}

func info(ctx context.Context, version string) (Info, error) {
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
	i.Pktgen = traffic.PktgenLoaded(traffic.Endpoint{})
	var err error
	if i.Allowed, err = traffic.AllowedCPUs(); err != nil {
		return i, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return i, fmt.Errorf("list interfaces: %w", err)
	}
	// All at once: the kernel lists those of every interface for each (net/ipv4/devinet.c, inet_dump_ifaddr).
	addresses := map[int][]string{}
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		i.Warnings = append(i.Warnings, fmt.Sprintf("addresses: %v", err))
	}
	for _, addr := range addrs {
		addresses[addr.LinkIndex] = append(addresses[addr.LinkIndex], addr.IPNet.String())
	}
	for _, l := range links {
		if err := ctx.Err(); err != nil {
			return i, err
		}
		a := l.Attrs()
		k := Link{Name: a.Name, Kind: l.Type(), MAC: a.HardwareAddr.String(), MTU: a.MTU,
			Up: a.RawFlags&unix.IFF_UP != 0}
		d := traffic.Device{Endpoint: traffic.Endpoint{Iface: a.Name}, Index: a.Index}
		k.TxQueues, k.Live = d.TxQueues(), string(d.Transmits())
		k.Addrs = addresses[a.Index]
		i.Links = append(i.Links, k)
	}
	return i, nil
}

// stat returns /proc/stat without its long interrupt line, which is not needed here.
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

// Counters are those of package counters for one interface and its namespace.
type Counters = counters.Counters

func (p *session) counters(e traffic.Endpoint) (Counters, error) {
	if err := p.opt.Limits.device(e); err != nil {
		return nil, err
	}
	return counters.OfInterface(e)
}
