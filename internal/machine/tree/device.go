package tree

import "path"

// Directories of the kernel.
const (
	Sys      = "sys"
	ProcSys  = "proc/sys"
	ClassNet = "sys/class/net" // network devices
)

// MaxQueues bounds the queues of one direction that are read: a tap has at most 256 (MAX_TAP_QUEUES), NICs 1024 or so.
const MaxQueues = 4096

// Function is the directory of the bus device that owns the NIC's interrupts and has its place in the machine: the
// device itself, or for virtio the device above it, since a virtio device is the child of its transport.
func (t *Tree) Function(dir string) string {
	behind := path.Join(dir, "device")
	if t.Target(path.Join(behind, "subsystem")) == "virtio" {
		return behind + "/.." // not joined: the kernel and os.Root resolve the link before the dots
	}
	return behind
}

// BusDevice returns the name of the bus device of a NIC: "virtio2", "0000:41:00.0".
func (t *Tree) BusDevice(name string) string { return t.Target(path.Join(ClassNet, name, "device")) }

// OrEmpty returns items, not nil: JSON has [] rather than null.
func OrEmpty[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}
