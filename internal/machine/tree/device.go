package tree

import "path"

// Directories of the kernel.
const (
	Sys      = "sys"
	ProcSys  = "proc/sys"
	ClassNet = "sys/class/net" // network devices
)

// MaxQueues is the largest queue index that is read in one direction: a tap has at most 256 (MAX_TAP_QUEUES), NICs
// about 1024.
const MaxQueues = 4096

// Function returns the directory of the bus device that owns the interrupts and the NUMA node of the NIC in dir. For
// virtio that is the transport, the parent of the virtio device.
func (t *Tree) Function(dir string) string {
	device := path.Join(dir, "device")
	if t.Target(path.Join(device, "subsystem")) == "virtio" {
		return device + "/.." // not path.Join: the kernel and os.Root resolve the link before the dots
	}
	return device
}

// BusDevice returns the name of a NIC's bus device: "virtio2", "0000:41:00.0".
func (t *Tree) BusDevice(name string) string { return t.Target(path.Join(ClassNet, name, "device")) }

// OrEmpty returns items, or an empty slice for nil: JSON then has [] instead of null.
func OrEmpty[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
