// Package facts is what is known of one host at one moment: an inventory (what there is) and readings (what values
// stand at which addresses). A Host is plain data: it is taken from a live machine by package host, or read from a
// snapshot file, and everything that judges or plans sees only this.
package facts

import (
	"time"

	"mpps/internal/model/setting"
)

// Schema is the version of the snapshot format.
const Schema = "mpps.snapshot/1"

// Host is one host. Slices are in a stable order (path order of the kernel's own numbering, names otherwise) so that
// two snapshots of an unchanged host differ only in counters.
type Host struct {
	Name     string    `json:"name"`
	Taken    time.Time `json:"taken"`
	Root     string    `json:"root"` // "/" for the live machine; the recorded tree's path otherwise
	AsRoot   bool      `json:"as_root"`
	Emulated bool      `json:"emulated"`          // runs under full emulation (TCG): times and rates prove nothing
	Virtual  string    `json:"virtual,omitempty"` // hypervisor that this host itself runs on, empty on bare metal

	Kernel   Kernel   `json:"kernel"`
	System   System   `json:"system"`
	Boot     *Boot    `json:"boot,omitempty"` // nil where no boot loader's files were found
	Firmware Firmware `json:"firmware"`
	Power    Power    `json:"power"`
	Topology Topology `json:"topology"`
	NICs     []NIC    `json:"nics"`
	Bridges  []Bridge `json:"bridges"`
	Tunnels  []Tunnel `json:"tunnels"`
	Taps     []Tap    `json:"taps"`
	VFs      []VF     `json:"vfs"`

	Reservations []Reservation `json:"reservations,omitempty"` // of virtual functions, by mpps
	// of those that are taken back from guests that run, or ran, with them
	Leaving []Reservation `json:"leaving,omitempty"`
	Pools   []Pool        `json:"vf_pools,omitempty"` // of virtual functions, by libvirt

	Passthrough *Passthrough `json:"passthrough,omitempty"` // nil in snapshots of versions that did not look

	Netfilter Netfilter `json:"netfilter"`
	Softnet   []Softnet `json:"softnet"`
	KVM       KVM       `json:"kvm"`
	Services  []Service `json:"services"`
	Lasting   *Lasting  `json:"lasting,omitempty"` // nil in snapshots of versions that did not look
	Guests    []Guest   `json:"guests"`

	Storage []Storage `json:"storage,omitempty"` // what serves disks to other hosts here, beside the guests

	Attested map[string]Attestation `json:"attested,omitempty"` // by the ID of the check, or guests.owner

	Housekeeping *Housekeeping `json:"housekeeping,omitempty"` // nil in snapshots of versions that did not look

	Isolation *Isolation `json:"isolation,omitempty"` // nil in snapshots of versions that did not look

	Interval *Interval    `json:"interval,omitempty"` // what was counted while mpps watched; nil where it did not
	Observed *Observation `json:"observed,omitempty"` // what ran meanwhile; nil where nobody watched

	// what the stages of the packet path did (mpps diagnose -o); nil where nobody watched
	Load *Load `json:"load,omitempty"`

	Readings Readings `json:"readings"`
	Unseen   []Unseen `json:"unseen"` // what could not be seen, and why
}

// Readings are the values found at the addresses that the catalogue asked for.
type Readings map[setting.Address]setting.Reading

// At is the reading at an address; an address that nobody read is unknown.
func (r Readings) At(a setting.Address) setting.Reading {
	if reading, ok := r[a]; ok {
		return reading
	}
	return setting.CouldNotTell("not read when the snapshot was taken")
}

// Kernel is the running kernel.
type Kernel struct {
	Release         string            `json:"release"` // uname -r
	Version         string            `json:"version"` // uname -v
	CommandLine     string            `json:"command_line"`
	Realtime        bool              `json:"realtime"`        // PREEMPT_RT
	Vulnerabilities map[string]string `json:"vulnerabilities"` // name → what the kernel says of it
	Clocksource     string            `json:"clocksource,omitempty"`
	// control groups have shares of realtime of their own (CONFIG_RT_GROUP_SCHED, in force)
	RTGroups Answer `json:"rt_groups,omitempty"`
	// null: it was not asked (only mpps path --steer does), or not by root
	Lanes *LaneSupport `json:"lanes,omitempty"`
}

// Answer is yes, no, or empty: it could not be told.
type Answer string

// The answers that say something.
const (
	Yes Answer = "yes"
	No  Answer = "no"
)

// LaneSupport is what a kernel said when it was asked about programs that carry queues (setting.QueueLanes).
type LaneSupport struct {
	Why string `json:"why,omitempty"` // it does not take them; empty where it does
	TCX bool   `json:"tcx"`           // they are attached without the queue discipline clsact
}

// Service is a daemon that owns settings which mpps would change too.
type Service struct {
	Name    string `json:"name"` // irqbalance, tuned, NetworkManager, numad, ksmtuned
	Running bool   `json:"running"`
	PID     int    `json:"pid,omitempty"`
}

// Storage are the daemons of one kind that serve disks from one node of a host that also has guests (hyperconverged).
type Storage struct {
	Name   string `json:"name"` // ceph-osd
	Count  int    `json:"count"`
	Node   int    `json:"node"`         // to which they are bound; the first one's where they are not
	Memory uint64 `json:"memory_bytes"` // that they have in use
}

// KVM is the hypervisor as far as its modules tell.
type KVM struct {
	Loaded     bool              `json:"loaded"`
	Vendor     string            `json:"vendor,omitempty"` // kvm_intel or kvm_amd
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
	RPS        uint64 `json:"received_rps"`
	FlowLimit  uint64 `json:"flow_limit"`
	BacklogLen uint64 `json:"backlog_len"`
}
