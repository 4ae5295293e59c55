// Package facts holds what is known of one host at one moment: an inventory, and readings at addresses. A Host is plain
// data, taken from a live machine by package machine or read from a snapshot file. Everything that judges or plans sees
// only this.
package facts

import (
	"time"

	"mpps/internal/model/setting"
)

// Schema is the version of the snapshot format.
const Schema = "mpps.snapshot/1"

// Host is one host. Slices have a stable order (the kernel's numbering, otherwise by name), so that two snapshots of an
// unchanged host differ only in counters.
type Host struct {
	Name     string    `json:"name"`
	Taken    time.Time `json:"taken"`
	Root     string    `json:"root"` // "/" for the live machine; the recorded tree's path otherwise
	AsRoot   bool      `json:"as_root"`
	Emulated bool      `json:"emulated"`          // runs under full emulation (TCG): times and rates prove nothing
	Virtual  string    `json:"virtual,omitempty"` // hypervisor under this host, empty on bare metal

	Kernel   Kernel   `json:"kernel"`
	System   System   `json:"system"`
	Boot     *Boot    `json:"boot,omitempty"` // nil if no boot loader files were found
	Firmware Firmware `json:"firmware"`
	Power    Power    `json:"power"`
	Topology Topology `json:"topology"`
	NICs     []NIC    `json:"nics"`
	Bridges  []Bridge `json:"bridges"`
	Tunnels  []Tunnel `json:"tunnels"`
	Taps     []Tap    `json:"taps"`
	Links    []Link   `json:"links,omitempty"`
	// other network namespaces that guests' packets pass
	Namespaces []Namespace `json:"namespaces,omitempty"`

	Pollers []Poller `json:"pollers,omitempty"`
	Routing *Routing `json:"routing,omitempty"` // nil in snapshots from versions that did not collect it
	// nil on hosts without Open vSwitch, and in snapshots from versions that did not collect it
	OpenVSwitch *OpenVSwitch `json:"open_vswitch,omitempty"`
	VFs         []VF         `json:"vfs"`
	VDPA        []VDPA       `json:"vdpa,omitempty"`

	Reservations []Reservation `json:"reservations,omitempty"` // of VFs, by mpps
	// of VFs being taken back from guests that use, or used, them
	Leaving []Reservation `json:"leaving,omitempty"`
	Pools   []Pool        `json:"vf_pools,omitempty"` // libvirt's VF pools

	Passthrough *Passthrough `json:"passthrough,omitempty"` // nil in snapshots from versions that did not collect it

	Netfilter Netfilter `json:"netfilter"`
	Softnet   []Softnet `json:"softnet"`
	// counters of the host's network layer since boot, and fill levels of its tables ("arp_cache.entries"): those that
	// the kinds of path which this host can have decide by
	Stack    map[string]uint64 `json:"stack,omitempty"`
	KVM      KVM               `json:"kvm"`
	Services []Service         `json:"services"`
	Lasting  *Lasting          `json:"lasting,omitempty"` // nil in snapshots from versions that did not collect it
	Guests   []Guest           `json:"guests"`
	// processes that call themselves a guest's QEMU and are not known to be one; at most 16
	Unverified []Unverified `json:"unverified,omitempty"`

	Storage []Storage `json:"storage,omitempty"` // storage daemons that share the host with the guests

	Attested map[string]Attestation `json:"attested,omitempty"` // by check ID, or guests.owner

	Housekeeping *Housekeeping `json:"housekeeping,omitempty"` // nil in snapshots from versions that did not collect it

	Isolation *Isolation `json:"isolation,omitempty"` // nil in snapshots from versions that did not collect it

	Interval *Interval    `json:"interval,omitempty"` // counter increases while mpps watched; nil if it did not
	Observed *Observation `json:"observed,omitempty"` // what ran meanwhile; nil if nothing was observed

	// activity of each stage of the packet path (mpps diagnose -o); nil if nothing was observed
	Load *Load `json:"load,omitempty"`

	Readings Readings `json:"readings"`
	Unseen   []Unseen `json:"unseen"` // what could not be read, and why
}

// Readings maps the addresses that the catalogue asked for to the values found there.
type Readings map[setting.Address]setting.Reading

// At returns the reading at an address; it is unknown if nobody read it.
func (r Readings) At(a setting.Address) setting.Reading {
	if reading, ok := r[a]; ok {
		return reading
	}
	return setting.CouldNotTell("not read when the snapshot was taken")
}

// Kernel is the running kernel.
type Kernel struct {
	Release         string            `json:"release"`        // uname -r
	Version         string            `json:"version"`        // uname -v
	Arch            string            `json:"arch,omitempty"` // uname -m; empty if unknown: see Architecture
	CommandLine     string            `json:"command_line"`
	Realtime        bool              `json:"realtime"`        // PREEMPT_RT
	Vulnerabilities map[string]string `json:"vulnerabilities"` // name → kernel's status
	Clocksource     string            `json:"clocksource,omitempty"`
	// control groups have realtime shares of their own (CONFIG_RT_GROUP_SCHED, in force)
	RTGroups Answer `json:"rt_groups,omitempty"`
	// null: not probed (only mpps path --steer does it), or not as root
	Lanes *LaneSupport `json:"lanes,omitempty"`
}

// Answer is yes, no, or empty for unknown.
type Answer string

// The known answers.
const (
	Yes Answer = "yes"
	No  Answer = "no"
)

// LaneSupport is the result of probing the kernel for queue-steering programs (setting.QueueLanes).
type LaneSupport struct {
	Why string `json:"why,omitempty"` // why the kernel refuses them; empty if it accepts them
	TCX bool   `json:"tcx"`           // attached by TCX, without the clsact qdisc
}

// Service is a daemon that owns settings which mpps would change too.
type Service struct {
	Name    string `json:"name"` // irqbalance, tuned, NetworkManager, numad, ksmtuned
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
}

// Storage describes the daemons of one kind that serve disks from a NUMA node of a host that also runs guests
// (hyperconverged).
type Storage struct {
	Name   string `json:"name"` // ceph-osd
	Count  int    `json:"count"`
	Node   int    `json:"node"`         // NUMA node they are bound to; the first daemon's if they are not bound
	Memory uint64 `json:"memory_bytes"` // in use
}

// KVM is what the hypervisor's modules report.
type KVM struct {
	Loaded     bool              `json:"loaded"`
	XenDom0    bool              `json:"xen_dom0,omitempty"` // Xen's control domain: its guests are not KVM's
	Vendor     string            `json:"vendor,omitempty"`   // kvm_intel or kvm_amd
	Vhost      bool              `json:"vhost_net"`
	Parameters map[string]string `json:"parameters"` // "kvm.halt_poll_ns" → "200000"
	QEMU       string            `json:"qemu_version,omitempty"`
	Libvirt    string            `json:"libvirt_version,omitempty"`
}

// Softnet is one CPU's row of /proc/net/softnet_stat: totals since boot.
type Softnet struct {
	CPU        int    `json:"cpu"`
	Processed  uint64 `json:"processed"`
	Dropped    uint64 `json:"dropped"`
	Squeezed   uint64 `json:"time_squeeze"`
	RPS        uint64 `json:"received_rps"` // wake-ups by other CPUs, each for any number of packets
	FlowLimit  uint64 `json:"flow_limit"`
	BacklogLen uint64 `json:"backlog_len"`
	// times that the CPU ran NET_RX (/proc/softirqs); 0: not read
	Rounds uint64 `json:"rounds,omitempty"`
}
