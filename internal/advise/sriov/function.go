package sriov

import (
	"cmp"
	"slices"

	"mpps/internal/model/facts"
)

// Holding is who has a virtual function, and how firmly.
type Holding string

// The holdings, the firmest first.
const (
	Running  Holding = "running"  // a guest runs with it
	Defined  Holding = "defined"  // a guest's definition names it, and it does not run with it
	Reserved Holding = "reserved" // mpps gave it to a guest whose definition does not name it
	Opened   Holding = "process"  // a process has it open that is no guest of libvirt: DPDK, a container
	Host     Holding = "host"     // the host itself uses its interface
	Bound    Holding = "bound"    // its driver passes it on, and nobody is known to have it: what a guest left behind
	Pooled   Holding = "pool"     // a network of libvirt may give it to a guest that starts
	Free     Holding = "free"
)

// Function is one virtual function with whoever has it. What the driver, or a recorded tree, does not tell is null or
// empty.
type Function struct {
	PF        string   `json:"pf"`
	Index     int      `json:"index"`
	PCI       string   `json:"pci"`   // empty where it is on no PCI bus
	Group     int      `json:"group"` // IOMMU group, −1 without one
	Driver    string   `json:"driver"`
	NIC       string   `json:"nic"`   // its interface on the host; empty where it has none
	Guest     string   `json:"guest"` // that has it; empty where none has
	Holding   Holding  `json:"holding"`
	Guests    []string `json:"guests"`   // whose definitions name it: more than one cannot run at a time
	Process   string   `json:"process"`  // that has it open and is no guest
	Pool      string   `json:"pool"`     // the network of libvirt that may give it to guests
	Uses      string   `json:"host_use"` // what the host does with its interface
	MAC       string   `json:"mac"`
	VLAN      *int     `json:"vlan"`
	QoS       *int     `json:"qos"`
	MaxTxRate *int     `json:"max_tx_rate"` // Mb/s, 0 is no limit
	MinTxRate *int     `json:"min_tx_rate"` // Mb/s
	SpoofChk  *bool    `json:"spoofchk"`
	Trust     *bool    `json:"trust"`
	LinkState string   `json:"link_state"` // auto, enable or disable
	// pairs: of its interface on the host, else what its driver gives each function; 0 where neither is known
	Queues int `json:"queues"`

	Reservation *facts.Reservation `json:"reservation"` // by mpps; null where there is none
	Traffic     *facts.VFTraffic   `json:"traffic"`     // null where the driver does not count
}

// Shared reports whether more than one definition names the function.
func (f *Function) Shared() bool { return len(f.Guests) > 1 }

// Functions are the virtual functions of a host with whoever has them, in the order of the facts.
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
	for i := range h.VFs {
		v := &h.VFs[i]
		f := Function{
			PF: v.PF, Index: v.Index, PCI: v.PCI, Group: v.Group, Driver: v.Driver, NIC: v.NIC, Process: v.Holder,
			Uses: v.HostUse, Traffic: v.Traffic,
			Queues: cmp.Or(v.Queues, facts.VFQueues(drivers[v.PF])),
		}
		f.settings(v)
		if pool := h.PoolOf(v); pool != nil {
			f.Pool = pool.Network
		}
		if v.PCI != "" {
			f.Reservation = reserved[v.PCI]
			f.held(named[v.PCI])
		} else {
			f.held(nil)
		}
		all = append(all, f)
	}
	return all
}

// settings takes over what was told.
func (f *Function) settings(v *facts.VF) {
	told := func(attribute string) bool { return !slices.Contains(v.Untold, attribute) }
	number := func(attribute string, n int) *int {
		if !told(attribute) {
			return nil
		}
		return &n
	}
	truth := func(attribute string, b bool) *bool {
		if !told(attribute) {
			return nil
		}
		return &b
	}
	f.MAC, f.LinkState = v.MAC, v.LinkState
	f.VLAN, f.QoS = number("vlan", v.VLAN), number("qos", v.QoS)
	f.MaxTxRate, f.MinTxRate = number("max_tx_rate", v.MaxTxRate), number("min_tx_rate", v.MinTxRate)
	f.SpoofChk, f.Trust = truth("spoofchk", v.SpoofCheck), truth("trust", v.Trust)
}

// held finds who has the function among the guests that it belongs to by definition or now. A guest that runs and names
// it may wait for its next start with it: it has the function only once its driver passes it on.
func (f *Function) held(guests []*facts.Guest) {
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
