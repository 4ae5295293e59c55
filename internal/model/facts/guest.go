package facts

import (
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Guest is one libvirt domain, or a QEMU process that libvirt does not know.
type Guest struct {
	Name     string `json:"name"`
	UUID     string `json:"uuid,omitempty"`
	Managed  bool   `json:"managed"` // libvirt knows it
	State    string `json:"state"`   // running, shut off, paused, crashed, in shutdown …
	PID      int    `json:"pid,omitempty"`
	VCPUs    int    `json:"vcpus"`
	MaxVCPUs int    `json:"max_vcpus"`
	Memory   uint64 `json:"memory_bytes"`
	// that its QEMU has in memory now, without huge pages
	Resident   uint64      `json:"resident_bytes,omitempty"`
	Hugepages  bool        `json:"hugepages"`
	CPUMode    string      `json:"cpu_mode,omitempty"`
	Machine    string      `json:"machine,omitempty"`
	Interfaces []Interface `json:"interfaces"`
	// NICs that it runs with and that its definition does not have
	Plugged []Interface `json:"plugged,omitempty"`
	// PCI addresses passed through, by its definition or while it runs
	Hostdevs  []string `json:"hostdevs"`
	Functions []string `json:"functions,omitempty"` // PCI addresses of those that it runs with
	// by vCPU, from the persistent definition; empty = not pinned
	Pins        []setting.CPUSet `json:"vcpu_pins"`
	EmulatorPin setting.CPUSet   `json:"emulator_pin"`
	MemoryNodes setting.CPUSet   `json:"memory_nodes"` // numatune memory nodeset
	Agent       bool             `json:"agent_channel"`
	Definition  string           `json:"definition,omitempty"` // persistent XML as libvirt printed it
	// paths in which the definition differs from what runs: wait for a restart
	Pending []string `json:"pending"`
	Threads []Thread `json:"threads"`
	// what libvirt does with it as a whole: "migration out", "migration in", "save" …; empty: nothing
	Job string `json:"job,omitempty"`
	// what its agent tells; nil where it was not asked, has none or did not answer
	Inside *Inside `json:"inside,omitempty"`
}

// NICs are all that it has or runs with.
func (g *Guest) NICs() []Interface { return slices.Concat(g.Interfaces, g.Plugged) }

// Active reports whether a guest has its QEMU process, so its CPUs, memory and devices: it runs, or is paused,
// suspended or being shut down (libvirt's word for it; include/libvirt/libvirt-domain.h, virDomainState).
func (g *Guest) Active() bool {
	switch g.State {
	case "running", "idle", "paused", "in shutdown", "pmsuspended":
		return true
	}
	return false
}

// Inside is what a guest's agent tells of its system.
type Inside struct {
	Release string `json:"kernel_release"` // uname -r
	Version string `json:"kernel_version,omitempty"`
	OS      string `json:"os,omitempty"`
	Why     string `json:"why,omitempty"` // why more could not be seen, and what to do
	// the guest seen as a host, by its own files; without readings but for services
	Host *Host `json:"host,omitempty"`
}

// Migrates reports whether a guest is on its way to or from another host.
func (g *Guest) Migrates() bool { return strings.HasPrefix(g.Job, "migration") }

// Interface is one NIC of a guest, as its persistent definition has it.
type Interface struct {
	MAC         string `json:"mac"`
	Type        string `json:"type"`             // bridge, network, direct, hostdev, ethernet, vhostuser, user
	Source      string `json:"source,omitempty"` // bridge, network or PCI address
	Tap         string `json:"tap,omitempty"`    // host device while the guest runs
	Model       string `json:"model,omitempty"`
	Backend     string `json:"backend,omitempty"` // vhost, qemu, or empty: libvirt's choice (vhost where it can)
	Queues      int    `json:"queues"`            // 1 where not said
	RxQueueSize int    `json:"rx_queue_size"`     // 0: QEMU's default, 256
	TxQueueSize int    `json:"tx_queue_size"`
	Coalesce    int    `json:"coalesce_rx_frames"`
	VLAN        int    `json:"vlan,omitempty"`
	// PCI address: of type hostdev, and of a network that is a pool the one that it runs with
	Function string `json:"function,omitempty"`
	Teaming  string `json:"teaming,omitempty"` // which half of a failover pair: persistent or transient
	Alias    string `json:"alias,omitempty"`   // the name that its definition gives it, ua-…
}

// Key names it in the paths of its guest's definition: the MAC address, of a half of a failover pair with which one it
// is.
func (i *Interface) Key() string {
	if i.Teaming != "" {
		return i.MAC + "@" + i.Teaming
	}
	return i.MAC
}

// Thread is one thread of a guest.
type Thread struct {
	TID   int    `json:"tid"`
	Comm  string `json:"comm"`
	Role  string `json:"role"`           // vcpu, vhost, emulator, iothread, worker
	Index int    `json:"index"`          // vCPU number; vhost: number in order of creation
	NIC   string `json:"nic,omitempty"`  // vhost: MAC of the interface it serves
	Queue int    `json:"queue"`          // vhost: queue pair of that interface, −1 otherwise
	Sure  Sure   `json:"sure,omitempty"` // vhost: how its NIC and queue were found; empty: they were not
	// vhost: nanoseconds on a CPU since it was made; 0 where the kernel does not count
	RunNS    uint64         `json:"run_ns,omitempty"`
	Affinity setting.CPUSet `json:"affinity"`
	CPU      int            `json:"cpu"`              // ran there last
	Policy   string         `json:"policy,omitempty"` // SCHED_OTHER, SCHED_FIFO …
	Priority int            `json:"priority"`
}
