package facts

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Guest is a libvirt domain, or a QEMU process that libvirt does not know.
type Guest struct {
	Name    string `json:"name"`
	UUID    string `json:"uuid,omitempty"`
	Managed bool   `json:"managed"` // libvirt knows it
	// who makes its definition; nil in snapshots from versions that did not look
	Owner    *Owner `json:"owner,omitempty"`
	State    string `json:"state"` // running, shut off, paused, crashed, in shutdown …
	PID      int    `json:"pid,omitempty"`
	VCPUs    int    `json:"vcpus"`
	MaxVCPUs int    `json:"max_vcpus"`
	// threads of each core that it is shown (<topology>); 0: not told, 1 or unknown
	CoreThreads int    `json:"core_threads,omitempty"`
	Memory      uint64 `json:"memory_bytes"`
	// QEMU's resident memory, without huge pages
	Resident   uint64      `json:"resident_bytes,omitempty"`
	Hugepages  bool        `json:"hugepages"`
	CPUMode    string      `json:"cpu_mode,omitempty"`
	Machine    string      `json:"machine,omitempty"`
	Interfaces []Interface `json:"interfaces"`
	// NICs of the running guest that are not in its definition
	Plugged []Interface `json:"plugged,omitempty"`
	// PCI addresses of passed-through functions, from the definition or the running guest
	Hostdevs  []string `json:"hostdevs"`
	Functions []string `json:"functions,omitempty"` // PCI addresses of the running guest's functions
	// by vCPU, from the persistent definition; empty = not pinned
	Pins        []setting.CPUSet `json:"vcpu_pins"`
	EmulatorPin setting.CPUSet   `json:"emulator_pin"`
	MemoryNodes setting.CPUSet   `json:"memory_nodes"` // numatune memory nodeset
	Agent       bool             `json:"agent_channel"`
	Definition  string           `json:"definition,omitempty"` // persistent XML as libvirt printed it
	// paths that differ between the definition and the running guest: they wait for a restart
	Pending []string `json:"pending"`
	Threads []Thread `json:"threads"`
	// its taps are in another network namespace than mpps: a pod's
	Elsewhere bool `json:"elsewhere,omitempty"`
	// that namespace (Namespace.ID); 0: it was not read
	Namespace uint64 `json:"namespace,omitempty"`
	// libvirt's current job: "migration out", "migration in", "save" …; empty: none
	Job string `json:"job,omitempty"`
	// the guest agent's report; nil if there is no agent, or it was not asked or did not answer
	Inside *Inside `json:"inside,omitempty"`
}

// Unverified is a process that calls itself a guest's QEMU and is not known to be one: any user can start one. It is
// shown; nothing is judged by it, and mpps never writes to it.
type Unverified struct {
	PID   int    `json:"pid"`
	Comm  string `json:"comm"`
	Guest string `json:"guest"` // the name on its command line
	Why   string `json:"why"`   // for people
}

// String returns a sentence.
func (u Unverified) String() string {
	return fmt.Sprintf("process %d (%s) calls itself guest %s: %s", u.PID, u.Comm, u.Guest, u.Why)
}

// Unseen returns the process as a part of the host that could not be judged.
func (u Unverified) Unseen() Unseen {
	return Unseen{fmt.Sprintf("process %d (%s)", u.PID, u.Comm), u.Why, UnseenProcess, u.Guest}
}

// OneCore reports whether a guest is shown two vCPUs as threads of one core, so that its scheduler knows that they slow
// each other down. vCPU n is thread n modulo the number of threads (QEMU, include/hw/i386/topology.h,
// x86_topo_ids_from_idx).
func (g *Guest) OneCore(a, b int) bool {
	return g.CoreThreads > 1 && a/g.CoreThreads == b/g.CoreThreads
}

// VCPUPins returns the pin of each vCPU that the guest has now; its definition may pin pluggable ones too. Of a guest
// that libvirt does not know, these are the single CPUs that somebody bound its threads to.
func (g *Guest) VCPUPins() []setting.CPUSet {
	if g.Managed || len(g.Pins) > 0 {
		return g.Pins[:min(len(g.Pins), max(0, g.VCPUs))]
	}
	pins := make([]setting.CPUSet, max(0, g.VCPUs))
	for _, t := range g.Threads {
		if t.Role == "vcpu" && t.Index >= 0 && t.Index < len(pins) && len(t.Affinity) == 1 {
			pins[t.Index] = t.Affinity
		}
	}
	return pins
}

// NICs returns the NICs of the definition and of the running guest.
func (g *Guest) NICs() []Interface { return slices.Concat(g.Interfaces, g.Plugged) }

// Active reports whether a guest has a QEMU process, and so its CPUs, memory and devices: it is running, paused,
// suspended or shutting down (libvirt's terms; include/libvirt/libvirt-domain.h, virDomainState).
func (g *Guest) Active() bool {
	switch g.State {
	case "running", "idle", "paused", "in shutdown", "pmsuspended":
		return true
	}
	return false
}

// Inside is a guest agent's report on its system.
type Inside struct {
	Release string `json:"kernel_release"` // uname -r
	Version string `json:"kernel_version,omitempty"`
	OS      string `json:"os,omitempty"`
	Why     string `json:"why,omitempty"` // why the report is incomplete, and what to do
	// the guest as a host, from its own files; its only readings are those of services
	Host *Host `json:"host,omitempty"`
}

// Migrates reports whether a guest is migrating to or from another host.
func (g *Guest) Migrates() bool { return strings.HasPrefix(g.Job, "migration") }

// Interface is a guest's NIC, from its persistent definition.
type Interface struct {
	MAC string `json:"mac"`
	// libvirt's: bridge, network, direct, hostdev, ethernet, vhostuser, user, vdpa; QEMU's: tap, vhost-user,
	// vhost-vdpa, user, passt, stream, dgram, socket, l2tpv3, af-xdp …; with a guest of its own command line
	Type   string `json:"type"`
	Source string `json:"source,omitempty"` // bridge, network, PCI address, or vhost-user socket
	Mode   string `json:"mode,omitempty"`   // of type direct: bridge, vepa, private, passthrough
	Tap    string `json:"tap,omitempty"`    // host device while the guest runs
	// the tap is in another network namespace than the host's (yes) or in the host's (no); empty: where QEMU is
	TapElsewhere Answer `json:"tap_elsewhere,omitempty"`
	TapNamespace uint64 `json:"tap_namespace,omitempty"` // that other one (Namespace.ID); 0: it is not known
	Model        string `json:"model,omitempty"`
	// of the virtual switch that it is a port of: openvswitch, midonet, 802.1Qbg … (libvirt's <virtualport>)
	VirtualPort string `json:"virtual_port,omitempty"`
	// vhost, qemu, or empty for libvirt's choice (vhost if possible); of type user: passt, or empty for slirp
	Backend     string `json:"backend,omitempty"`
	Queues      int    `json:"queues"`        // 1 if not configured
	RxQueueSize int    `json:"rx_queue_size"` // 0: QEMU's default, 256
	TxQueueSize int    `json:"tx_queue_size"`
	Coalesce    int    `json:"coalesce_rx_frames"`
	VLAN        int    `json:"vlan,omitempty"`
	// PCI address: for type hostdev, and for a network that is a pool the function in use
	Function string `json:"function,omitempty"`
	Teaming  string `json:"teaming,omitempty"` // half of a failover pair: persistent or transient
	Alias    string `json:"alias,omitempty"`   // user alias, ua-…
}

// Names returns what the interface is known by on the host: its MAC address, tap, bridge or network.
func (i *Interface) Names() []string {
	return slices.DeleteFunc([]string{i.MAC, i.Tap, i.Source}, func(name string) bool { return name == "" })
}

// Key returns the interface's key in definition paths: its MAC address, with @persistent or @transient in a failover
// pair.
func (i *Interface) Key() string {
	if i.Teaming != "" {
		return i.MAC + "@" + i.Teaming
	}
	return i.MAC
}

// Virtio reports whether a NIC is a virtio device, by libvirt's name of its model or QEMU's name of the device
// (virtio-net-pci, its transitional forms, virtio-net-device, virtio-net-ccw).
func (i *Interface) Virtio() bool {
	return i.Model == "virtio" || strings.HasPrefix(i.Model, "virtio-")
}

type Thread struct {
	TID   int    `json:"tid"`
	Comm  string `json:"comm"`
	Role  string `json:"role"`           // vcpu, vhost, emulator, iothread, worker
	Index int    `json:"index"`          // vCPU number; vhost: number in creation order
	NIC   string `json:"nic,omitempty"`  // vhost: MAC of the interface it serves
	Queue int    `json:"queue"`          // vhost: queue pair of that interface, −1 otherwise
	Sure  Sure   `json:"sure,omitempty"` // vhost: how NIC and queue were identified; empty: they were not
	// vhost: CPU time in nanoseconds; 0 if the kernel does not count it
	RunNS    uint64         `json:"run_ns,omitempty"`
	Affinity setting.CPUSet `json:"affinity"`
	CPU      int            `json:"cpu"`              // CPU it last ran on
	Policy   string         `json:"policy,omitempty"` // SCHED_OTHER, SCHED_FIFO …
	Priority int            `json:"priority"`
}
