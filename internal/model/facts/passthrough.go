package facts

import "slices"

// Passthrough is what giving devices to guests rests on, beside the firmware's tables and the command line.
type Passthrough struct {
	// on or off, by the chips' names in /proc/interrupts; empty: could not tell
	Remapping string `json:"interrupt_remapping,omitempty"`
	// vfio-pci, and the drivers that need it → loaded, available or missing
	Modules map[string]string `json:"modules"`
	Unsafe  bool              `json:"unsafe_interrupts,omitempty"` // vfio_iommu_type1.allow_unsafe_interrupts
	// that hold a function of a NIC and devices that are none of the same NIC
	Groups []IOMMUGroup `json:"shared_groups"`
	// PCI NICs that are no virtual functions, in the order of NICs
	Functions []PhysicalFunction `json:"functions"`
	Locked    []LockLimit        `json:"locked,omitempty"` // of running guests with passed-through devices
}

// IOMMUGroup is a set of devices that the IOMMU cannot tell apart: they go to one guest together, or to none.
type IOMMUGroup struct {
	Number  int           `json:"number"`
	Devices []GroupDevice `json:"devices"` // in the order of their addresses
}

// GroupDevice is one device of a group.
type GroupDevice struct {
	PCI string `json:"pci"`
	// six hexadecimal digits: 0604 at the beginning is a bridge, 0200 an Ethernet controller
	Class  string `json:"class"`
	Driver string `json:"driver,omitempty"`
}

// Bridge reports whether the device is a PCI bridge: it is passed to no guest, and does not keep others of its group
// from being.
func (d GroupDevice) Bridge() bool { return len(d.Class) >= 4 && d.Class[:4] == "0604" }

// PhysicalFunction is what the PCI bus tells of a NIC.
type PhysicalFunction struct {
	NIC           string `json:"nic"`
	PCI           string `json:"pci"`
	Vendor        string `json:"vendor"` // 0x8086
	Device        string `json:"device"`
	DriverVersion string `json:"driver_version,omitempty"` // only drivers from outside the kernel have one
	// Capability is how many functions the card's SR-IOV capability offers: −1 where there is no such capability, −2
	// where the configuration space could not be read (needs root).
	Capability int `json:"capability"`
	// Windows are the function's memory windows for virtual functions; Unplaced those of them that found no place.
	Windows  int         `json:"windows"`
	Unplaced int         `json:"windows_unplaced"`
	Bridges  []PCIBridge `json:"bridges"` // on the way to the root, the nearest first
}

// PCIBridge is a bridge above a device.
type PCIBridge struct {
	PCI string `json:"pci"`
	ACS string `json:"acs"` // on, off (it has ACS and does not use all that isolates), none, or empty: could not tell
}

// LockLimit is how much memory a guest's QEMU may lock: all of a guest with a passed-through device is.
type LockLimit struct {
	Guest string `json:"guest"`
	Limit int64  `json:"limit_bytes"` // −1: without limit
}

// stillPassthrough is without what changes when guests start and drivers are bound.
func stillPassthrough(p *Passthrough) *Passthrough {
	if p == nil {
		return nil
	}
	c := *p
	c.Locked, c.Modules = nil, nil
	c.Groups = slices.Clone(p.Groups)
	for i := range c.Groups {
		c.Groups[i].Devices = slices.Clone(c.Groups[i].Devices)
		for j := range c.Groups[i].Devices {
			c.Groups[i].Devices[j].Driver = ""
		}
	}
	return &c
}
