package sriov

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
)

// Holding is how a function is in use.
type Holding string

// The holdings, strongest first.
const (
	Running  Holding = "running"  // a guest runs with it
	Defined  Holding = "defined"  // a guest is defined with it and does not run with it
	Reserved Holding = "reserved" // mpps assigned it to a guest whose definition does not have it
	Opened   Holding = "process"  // a process other than a libvirt guest has it open: DPDK, a container
	Host     Holding = "host"     // the host uses its interface
	Bound    Holding = "bound"    // bound to vfio-pci or the like with no known user: left over by a guest
	Pooled   Holding = "pool"     // a libvirt network may assign it to a guest
	Free     Holding = "free"
)

// Function is one VF and who has it. Values that the driver, or a recorded tree, does not have are null or empty.
type Function struct {
	PF        string   `json:"pf"`
	Index     int      `json:"index"`
	PCI       string   `json:"pci"`   // empty: not on a PCI bus
	Group     int      `json:"group"` // IOMMU group; −1: none
	Driver    string   `json:"driver"`
	NIC       string   `json:"nic"`   // interface on the host; empty: none
	Guest     string   `json:"guest"` // that has it; empty: none
	Holding   Holding  `json:"holding"`
	Guests    []string `json:"guests"`   // defined with it; only one of them can run at a time
	Process   string   `json:"process"`  // other than a guest that has it open
	Pool      string   `json:"pool"`     // libvirt network that may assign it to guests
	Uses      string   `json:"host_use"` // what the host uses its interface for
	MAC       string   `json:"mac"`
	VLAN      *int     `json:"vlan"`
	QoS       *int     `json:"qos"`
	MaxTxRate *int     `json:"max_tx_rate"` // Mb/s, 0 is no limit
	MinTxRate *int     `json:"min_tx_rate"` // Mb/s
	SpoofChk  *bool    `json:"spoofchk"`
	Trust     *bool    `json:"trust"`
	LinkState string   `json:"link_state"` // auto, enable or disable
	// Queues is the number of queue pairs of its interface on the host, otherwise of each function of that driver. 0:
	// unknown.
	Queues int `json:"queues"`

	Reservation *facts.Reservation `json:"reservation"` // by mpps; null: none
	Traffic     *facts.VFTraffic   `json:"traffic"`     // null: the driver does not count
}

// Shared reports whether more than one guest is defined with the function.
func (f *Function) Shared() bool { return len(f.Guests) > 1 }

// Functions returns all functions of a host, in the order of the facts.
func Functions(h *facts.Host) []Function {
	named := map[string][]*facts.Guest{} // by PCI address
	for i := range h.Guests {
		for _, pci := range h.Guests[i].Hostdevs {
			named[pci] = append(named[pci], &h.Guests[i])
		}
	}
	reserved := map[string]*facts.Reservation{}
	for i := range h.Reservations {
		if r := &h.Reservations[i]; r.PCI != "" {
			reserved[r.PCI] = r
		}
	}
	drivers := map[string]string{}
	for _, n := range h.NICs {
		drivers[n.Name] = n.Driver
	}
	all := make([]Function, 0, len(h.VFs))
	for v := range facts.Each(h.VFs) {
		f := Function{
			PF: v.PF, Index: v.Index, PCI: v.PCI, Group: v.Group, Driver: v.Driver, NIC: v.NIC, Process: v.Holder,
			Uses: v.HostUse, Traffic: v.Traffic, Queues: cmp.Or(v.Queues, facts.VFQueues(drivers[v.PF])),
		}
		f.copySettings(v)
		if pool := h.PoolOf(v); pool != nil {
			f.Pool = pool.Network
		}
		if v.PCI != "" {
			f.Reservation = reserved[v.PCI]
			f.setHolding(named[v.PCI])
		} else {
			f.setHolding(nil)
		}
		all = append(all, f)
	}
	return all
}

// copySettings copies the attributes that the driver reports.
func (f *Function) copySettings(v *facts.VF) {
	f.MAC, f.LinkState = v.MAC, v.LinkState
	f.VLAN, f.QoS = reported(v, "vlan", v.VLAN), reported(v, "qos", v.QoS)
	f.MaxTxRate, f.MinTxRate = reported(v, "max_tx_rate", v.MaxTxRate), reported(v, "min_tx_rate", v.MinTxRate)
	f.SpoofChk, f.Trust = reported(v, "spoofchk", v.SpoofCheck), reported(v, "trust", v.Trust)
}

// reported returns the value of an attribute, or nil if the driver does not report it.
func reported[T any](v *facts.VF, attribute string, value T) *T {
	if slices.Contains(v.Untold, attribute) {
		return nil
	}
	return &value
}

// setHolding determines who has the function. guests are those that are defined or run with it. A running guest whose
// definition has it may get it only at its next start: it has the function once that is bound to a driver for guests.
func (f *Function) setHolding(guests []*facts.Guest) {
	f.Guests = []string{}
	for _, g := range guests {
		f.Guests = append(f.Guests, g.Name)
		if g.Active() && (facts.PassesThrough(f.Driver) || f.Driver == "") && f.Holding != Running {
			f.Guest, f.Holding = g.Name, Running
		}
	}
	switch {
	case f.Holding == Running:
	case len(guests) > 0:
		f.Guest, f.Holding = guests[0].Name, Defined
	case f.Reservation != nil:
		f.Guest, f.Holding = f.Reservation.Guest, Reserved
	case f.Process != "":
		f.Holding = Opened
	case f.Uses != "":
		f.Holding = Host
	case f.Pool != "":
		f.Holding = Pooled
	case facts.PassesThrough(f.Driver):
		f.Holding = Bound
	default:
		f.Holding = Free
	}
}
