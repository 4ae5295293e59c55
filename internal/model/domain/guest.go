package domain

import (
	"fmt"
	"strings"
)

// Guest is the part of a domain that matters to packets and latency. Zero values mean that the domain does not say: ""
// for text, 0 for numbers, nil for lists. Unclear lists the values that could not be understood.
type Guest struct {
	Name     string `json:"name"`
	UUID     string `json:"uuid,omitempty"`
	Virt     string `json:"virt,omitempty"` // kvm, qemu, …
	ID       int    `json:"id,omitempty"`   // libvirt's number of a running guest
	Arch     string `json:"arch,omitempty"`
	Machine  string `json:"machine,omitempty"`
	Emulator string `json:"emulator,omitempty"` // path of the QEMU binary
	Agent    bool   `json:"agent"`              // has the channel of the QEMU guest agent

	VCPUs      VCPUs  `json:"vcpus"`
	IOThreads  int    `json:"iothreads,omitempty"`
	MemoryKiB  uint64 `json:"memory_kib"`
	CurrentKiB uint64 `json:"current_memory_kib,omitempty"` // after ballooning
	// <memtune><hard_limit>, for QEMU as a whole; 0 if there is none
	HardLimitKiB uint64  `json:"hard_limit_kib,omitempty"`
	Backing      Backing `json:"backing"`
	// type of <launchSecurity>: sev, sev-snp, tdx, s390-pv; empty if there is none
	LaunchSecurity string      `json:"launch_security,omitempty"`
	CPU            CPU         `json:"cpu"`
	Pins           []Pin       `json:"vcpu_pins,omitempty"`
	EmulatorPin    string      `json:"emulator_pin,omitempty"` // CPU set
	IOThreadPins   []Pin       `json:"iothread_pins,omitempty"`
	Sched          []Sched     `json:"vcpu_sched,omitempty"`
	EmulatorSched  Sched       `json:"emulator_sched,omitzero"`
	NUMA           NUMA        `json:"numa,omitzero"`
	Interfaces     []Interface `json:"interfaces,omitempty"`
	HostDevs       []HostDev   `json:"hostdevs,omitempty"` // <hostdev>; interfaces of type hostdev are in Interfaces
	Timers         []Timer     `json:"timers,omitempty"`
	// has qemu:commandline, whose arguments are not interpreted
	QEMUArgs bool           `json:"qemu_args,omitempty"`
	Marks    []Mark         `json:"-"` // of the programs that made it
	System   SystemInfo     `json:"-"`
	Unclear  []Misstatement `json:"unclear,omitempty"`
}

// Misstatement is a value that could not be understood.
type Misstatement struct {
	Where string `json:"where"`
	Found string `json:"found"`
}

type VCPUs struct {
	Current   int    `json:"current"` // at start; equal to Max unless the domain says otherwise
	Max       int    `json:"max"`
	Placement string `json:"placement,omitempty"` // static, auto
	Set       string `json:"set,omitempty"`       // default CPU set of all threads
}

// Backing is <memoryBacking>.
type Backing struct {
	HugePages    bool       `json:"huge_pages"`
	Pages        []HugePage `json:"pages,omitempty"` // empty with HugePages: the host's default size
	NoSharePages bool       `json:"nosharepages,omitempty"`
	Locked       bool       `json:"locked,omitempty"`
	Source       string     `json:"source,omitempty"` // anonymous, file, memfd
	Access       string     `json:"access,omitempty"` // private, shared
	Allocation   string     `json:"allocation,omitempty"`
}

// HugePage is one page size and the guest NUMA cells that use it.
type HugePage struct {
	KiB   uint64 `json:"kib"`
	Cells string `json:"cells,omitempty"` // set of guest NUMA cells, "" for all
}

// CPU is the guest's CPU.
type CPU struct {
	Mode     string   `json:"mode,omitempty"` // host-passthrough, host-model, custom, maximum
	Model    string   `json:"model,omitempty"`
	Cache    string   `json:"cache,omitempty"` // passthrough, emulate, disable
	Topology Topology `json:"topology,omitzero"`
	Cells    []Cell   `json:"cells,omitempty"`
}

// Topology is the guest's CPU topology.
type Topology struct {
	Sockets  int `json:"sockets"`
	Dies     int `json:"dies,omitempty"`
	Clusters int `json:"clusters,omitempty"`
	Cores    int `json:"cores"`
	Threads  int `json:"threads"`
}

// Cell is one NUMA node of the guest.
type Cell struct {
	ID     int    `json:"id"`
	CPUs   string `json:"cpus,omitempty"` // set of vCPUs
	KiB    uint64 `json:"kib"`
	Access string `json:"access,omitempty"` // private, shared
}

// Pin binds a vCPU or I/O thread to host CPUs.
type Pin struct {
	ID   int    `json:"id"`
	CPUs string `json:"cpus"`
}

// Sched is a scheduling policy of vCPUs or of the emulator.
type Sched struct {
	VCPUs    string `json:"vcpus,omitempty"` // set
	Policy   string `json:"policy"`
	Priority int    `json:"priority,omitempty"`
}

// NUMA is <numatune>: the host nodes of the guest's memory.
type NUMA struct {
	Mode      string    `json:"mode,omitempty"` // strict, preferred, interleave, restrictive
	Nodes     string    `json:"nodes,omitempty"`
	Placement string    `json:"placement,omitempty"` // static, auto
	Cells     []MemNode `json:"cells,omitempty"`
}

// MemNode is the host memory of one guest cell.
type MemNode struct {
	Cell  int    `json:"cell"`
	Mode  string `json:"mode,omitempty"`
	Nodes string `json:"nodes,omitempty"`
}

// Interface is one network interface.
type Interface struct {
	Index int    `json:"index"`           // position among the interfaces, from 0
	Path  string `json:"path"`            // its name in paths: interface/MAC, or interface/INDEX
	Alias string `json:"alias,omitempty"` // such as net0; running guests only
	MAC   string `json:"mac,omitempty"`
	// bridge, network, direct, hostdev, vhostuser, vdpa, ethernet, user …
	Type   string `json:"type"`
	Source string `json:"source,omitempty"` // bridge, network, device or socket, depending on the type
	// direct: bridge, vepa, private, passthrough; vhostuser: client, server
	SourceMode string `json:"source_mode,omitempty"`
	Bridge     string `json:"bridge,omitempty"` // of type network too, if the XML is of a running guest
	// PCI address of the host function, such as 0000:01:10.0: for type hostdev, or taken from a network that is a pool
	PCI        string `json:"pci,omitempty"`
	Teaming    string `json:"teaming,omitempty"`    // half of a failover pair: persistent or transient
	Persistent string `json:"persistent,omitempty"` // transient: the alias of the other half
	Target     string `json:"target,omitempty"`     // tap or macvtap on the host
	Model      string `json:"model,omitempty"`
	Driver     Driver `json:"driver,omitzero"`
	// <backend type>: of type user or vhostuser passt, or empty for slirp or another process
	Backend     string `json:"backend,omitempty"`
	VirtualPort string `json:"virtual_port,omitempty"` // <virtualport type>: openvswitch, midonet …
	// RxFrames is the largest batch of frames that the tap accepts (<coalesce>).
	RxFrames  int    `json:"rx_frames,omitempty"`
	VLANs     []int  `json:"vlans,omitempty"`
	Trunk     bool   `json:"trunk,omitempty"`
	MTU       int    `json:"mtu,omitempty"`
	LinkState string `json:"link_state,omitempty"`
}

// Driver is <driver> of an interface.
type Driver struct {
	Name        string `json:"name,omitempty"` // vhost, qemu; vfio
	Queues      int    `json:"queues,omitempty"`
	RxQueueSize int    `json:"rx_queue_size,omitempty"` // descriptors
	TxQueueSize int    `json:"tx_queue_size,omitempty"`
	Packed      bool   `json:"packed,omitempty"` // rings of virtio 1.1
	// offloads and buffers that are switched off, as host.tso4 or guest.csum
	Off []string `json:"off,omitempty"`
}

// HostDev is a passed-through host device.
type HostDev struct {
	Type    string `json:"type"` // pci, usb, scsi, mdev
	Managed bool   `json:"managed"`
	PCI     string `json:"pci,omitempty"` // 0000:01:10.0
	Alias   string `json:"alias,omitempty"`
}

// Timer is one <timer> of <clock>.
type Timer struct {
	Name    string `json:"name"`
	Present string `json:"present,omitempty"` // yes, no
}

// CellsOf returns the vCPUs of each NUMA cell that a definition shows its guest (<cpu><numa>).
func CellsOf(definition string) ([][]int, error) {
	if !strings.Contains(definition, "<cell") { // most have none: saves parsing the document
		return nil, nil
	}
	doc, err := Parse([]byte(definition))
	if err != nil {
		return nil, fmt.Errorf("definition: %w", err)
	}
	var cells [][]int
	for _, c := range doc.Guest().CPU.Cells {
		cpus, err := ParseSet(c.CPUs)
		if err != nil {
			return nil, fmt.Errorf("cell %d: %w", c.ID, err)
		}
		cells = append(cells, cpus)
	}
	return cells, nil
}
