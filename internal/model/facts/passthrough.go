package facts

// Passthrough describes the requirements of device passthrough other than ACPI tables and the command line.
type Passthrough struct {
	// on or off, from the chip names in /proc/interrupts; empty: unknown
	Remapping string `json:"interrupt_remapping,omitempty"`
	// whether the IOMMU can deliver a device's interrupt to a running vCPU (posted interrupts, guest virtual APIC)
	Posting Answer `json:"interrupt_posting,omitempty"`
	// vfio-pci and the drivers it depends on → loaded, available or missing
	Modules map[string]string `json:"modules"`
	Unsafe  bool              `json:"unsafe_interrupts,omitempty"` // vfio_iommu_type1.allow_unsafe_interrupts
	// groups that contain a NIC function and devices of something else
	Groups []IOMMUGroup `json:"shared_groups"`
	// PCI NICs that are not VFs, in the order of NICs
	Functions []PhysicalFunction `json:"functions"`
	Locked    []LockLimit        `json:"locked,omitempty"` // running guests with passed-through devices
}

// IOMMUGroup is a set of devices that the IOMMU cannot isolate from each other: they go to one guest together, or to
// none.
type IOMMUGroup struct {
	Number  int           `json:"number"`
	Devices []GroupDevice `json:"devices"` // in address order
}

// GroupDevice is a device of an IOMMU group.
type GroupDevice struct {
	PCI string `json:"pci"`
	// six hexadecimal digits: prefix 0604 is a bridge, 0200 an Ethernet controller
	Class  string `json:"class"`
	Driver string `json:"driver,omitempty"`
}

// Bridge reports whether the device is a PCI bridge. Bridges are never passed through, and do not keep others of the
// group from being passed through.
func (d GroupDevice) Bridge() bool { return len(d.Class) >= 4 && d.Class[:4] == "0604" }

// PhysicalFunction is the PCI side of a NIC.
type PhysicalFunction struct {
	NIC           string `json:"nic"`
	PCI           string `json:"pci"`
	Vendor        string `json:"vendor"` // 0x8086
	Device        string `json:"device"`
	DriverVersion string `json:"driver_version,omitempty"` // out-of-tree drivers only
	// Capability is the number of VFs in the SR-IOV capability: −1 without the capability, −2 if configuration space
	// could not be read (needs root).
	Capability int `json:"capability"`
	// Windows is the number of memory windows for VFs, Unplaced the number of those without an assigned address.
	Windows  int         `json:"windows"`
	Unplaced int         `json:"windows_unplaced"`
	Bridges  []PCIBridge `json:"bridges"` // on the path to the root, nearest first
}

type PCIBridge struct {
	PCI string `json:"pci"`
	ACS string `json:"acs"` // on, off (supports ACS, but does not enable all that isolation needs), none, or empty for unknown
}

// LockLimit is the memory that a guest's QEMU may lock. A guest with a passed-through device has all its memory locked.
type LockLimit struct {
	Guest string `json:"guest"`
	Limit int64  `json:"limit_bytes"` // −1: unlimited
}

// stablePassthrough omits what changes when guests start and drivers are bound.
func stablePassthrough(p *Passthrough) *Passthrough {
	if p == nil {
		return nil
	}
	c := *p
	c.Locked, c.Modules = nil, nil
	c.Groups = edited(p.Groups, func(g *IOMMUGroup) {
		g.Devices = edited(g.Devices, func(d *GroupDevice) { d.Driver = "" })
	})
	return &c
}
