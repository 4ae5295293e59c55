package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// GuestSide is the state of VFs inside a guest: driver, queues and interrupts, as far as its agent reports them.
type GuestSide struct {
	Guest      string          `json:"guest"`
	State      string          `json:"state"`
	VCPUs      int             `json:"vcpus"`
	System     string          `json:"system,omitempty"` // kernel and distribution
	Seen       bool            `json:"seen"`             // the agent answered
	Why        string          `json:"why,omitempty"`    // why not
	IRQBalance string          `json:"irqbalance"`       // running, stopped or unknown
	Functions  []GuestFunction `json:"functions"`
	Notes      []string        `json:"notes"`
}

// GuestFunction is one of its functions.
type GuestFunction struct {
	PF    string `json:"pf"`
	Index int    `json:"index"`
	PCI   string `json:"pci"`
	MAC   string `json:"mac"` // on the host
	// Offers is the number of queue pairs that the PF's driver gives a function. 0: unknown.
	Offers     int              `json:"queues_offered"`
	Wants      string           `json:"driver_needed"`  // Linux driver for it; empty: unknown
	Name       string           `json:"name,omitempty"` // in the guest
	Driver     string           `json:"driver,omitempty"`
	MACInside  string           `json:"mac_inside,omitempty"`
	Interrupts []GuestInterrupt `json:"interrupts"`
	State      string           `json:"state"` // ok, off or unknown, as the knob sriov.guest has it
	Because    string           `json:"because"`
	Advice     []string         `json:"advice"`
}

// GuestInterrupt is an interrupt of a queue and the vCPUs that handle it.
type GuestInterrupt struct {
	Name  string         `json:"name"`
	VCPUs setting.CPUSet `json:"vcpus"`
}

// Guest returns the state of a guest's functions inside the guest. The verdict is that of the knob sriov.guest, applied
// to the inside.
func Guest(h *facts.Host, name string) (*GuestSide, error) {
	g := guestNamed(h, name)
	if g == nil {
		return nil, refuse(guestsOf(h), "no guest %q on %s", name, cmp.Or(h.Name, "this host"))
	}
	side := &GuestSide{Guest: g.Name, State: g.State, VCPUs: g.VCPUs, IRQBalance: "unknown",
		Functions: []GuestFunction{}, Notes: []string{}}
	var inside *facts.Host
	if g.Inside != nil {
		side.System = strings.TrimSpace(g.Inside.Release + " " + g.Inside.OS)
		inside, side.Why = g.Inside.Host, g.Inside.Why
	}
	if side.Seen = inside != nil; side.Seen {
		running := func(s facts.Service) bool { return s.Name == "irqbalance" && s.Running }
		side.IRQBalance = words.Either(slices.ContainsFunc(inside.Services, running), "running", "stopped")
	} else if side.Why == "" {
		side.Why = whyUnseen(g)
	}
	for _, v := range h.VFs {
		if slices.Contains(g.Hostdevs, v.PCI) && v.PCI != "" {
			side.Functions = append(side.Functions, guestFunction(h, inside, v))
		}
	}
	if len(side.Functions) == 0 {
		return nil, &Refused{g.Name + " has no virtual function", "'mpps sriov assign' gives it one; 'mpps audit " +
			"--guest " + quoted(g.Name) + "' looks at its other NICs"}
	}
	side.Notes = append(side.Notes, windows)
	return side, nil
}

// windows is what a Windows guest needs; its agent reports none of this.
const windows = "Windows needs Intel's or the maker's driver for functions (Intel: the package of the card's own " +
	"driver; Mellanox: WinOF-2), installed before the function is its only NIC. " +
	"Server 2012 brings one for the functions of 82599 (X520) only. Queues are Receive Side Scaling there: " +
	"Get-NetAdapterRss, Set-NetAdapterRss -BaseProcessorNumber"

func whyUnseen(g *facts.Guest) string {
	switch {
	case !g.Active():
		return "it is " + g.State
	case !g.Agent:
		return "its definition has no channel for the QEMU guest agent (org.qemu.guest_agent.0): run 'mpps audit' there"
	}
	return "its agent was not asked, or did not answer: it is asked as root"
}

// guestFunction returns one function and what the guest has of it.
func guestFunction(h, inside *facts.Host, v facts.VF) GuestFunction {
	f := GuestFunction{PF: v.PF, Index: v.Index, PCI: v.PCI, MAC: v.MAC, Interrupts: []GuestInterrupt{},
		Advice: []string{}, State: "unknown"}
	module := ""
	if n := nicOf(h, v.PF); n != nil {
		f.Offers, f.Wants, module = facts.VFQueues(n.Driver), facts.VFDriver(n.Driver), facts.VFModule(n.Driver)
	}
	if inside == nil {
		f.Because = "its inside was not seen"
		f.Advice = append(f.Advice, "in the guest: ethtool -i DEV; ethtool -l DEV; grep DEV /proc/interrupts; 'mpps "+
			"audit' there judges it")
		return f
	}
	n := nicInside(inside, v, f.Wants)
	if n == nil {
		f.State, f.Because = "off", "no NIC with its address and driver is seen inside"
		f.Advice = append(f.Advice, "in the guest: modprobe "+cmp.Or(module, "DRIVER")+", and dmesg says why where "+
			"the driver does not take the function")
		return f
	}
	f.Name, f.Driver, f.MACInside = n.Name, n.Driver, n.MAC
	if f.Wants != "" && !drives(n.Driver, f.Wants) {
		f.Advice = append(f.Advice, fmt.Sprintf("its driver is %s, expected %s", n.Driver, f.Wants))
	}
	if n.MAC != v.MAC && !facts.NoAddress(v.MAC) {
		f.Advice = append(f.Advice, fmt.Sprintf("it uses %s inside, and the host gave it %s: the card drops what it "+
			"sends where spoofchk is on", n.MAC, v.MAC))
	}
	for _, irq := range n.IRQs {
		cpus := words.Either(len(irq.Effective) > 0, irq.Effective, irq.Affinity)
		f.Interrupts = append(f.Interrupts, GuestInterrupt{Name: irq.On, VCPUs: cpus})
	}
	f.judge(inside, n)
	return f
}

// nicInside finds a function among the NICs of its guest: the one with its MAC address, otherwise the only one with a
// driver for it; nil: none.
func nicInside(inside *facts.Host, v facts.VF, driver string) *facts.NIC {
	var drivers []*facts.NIC
	for n := range facts.Each(inside.NICs) {
		if n.MAC == v.MAC && n.Driver != "virtio_net" {
			return n
		}
		if drives(n.Driver, driver) && driver != "" {
			drivers = append(drivers, n)
		}
	}
	if len(drivers) == 1 {
		return drivers[0]
	}
	return nil
}

// drives reports whether a driver is the one wanted: iavf was i40evf before Linux 4.20.
func drives(driver, wanted string) bool {
	return driver == wanted || driver == "i40evf" && wanted == "iavf"
}

// judge applies the knob sriov.guest and adds how to fix what it finds.
func (f *GuestFunction) judge(inside *facts.Host, n *facts.NIC) {
	a := knob.Find("sriov.guest").Want(knob.NewView(inside, goal.Unlimited()),
		setting.Of(setting.Fact, n.Name, "vf-interrupts"))
	switch {
	case a.Skip != "":
		f.State, f.Because = "ok", a.Skip
	case a.Unsure != "":
		f.Because = a.Unsure
	case a.Found != nil && a.Want != nil && !a.Want.Met(*a.Found):
		f.State, f.Because = "off", a.Because
		f.Advice = append(f.Advice, "in the guest: systemctl enable --now irqbalance, or one vCPU each in "+
			"/proc/irq/N/smp_affinity_list",
			"queues are the function's own: more vCPUs than queues do not help receiving, except by RPS (rps_cpus) "+
				"in the guest")
	default:
		f.State, f.Because = "ok", a.Because
	}
}
