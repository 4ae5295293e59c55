package acceptance

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Machine is what was measured, as far as figures depend on it. It identifies nobody: no serials, addresses or host
// names.
type Machine struct {
	CPU         string   `json:"cpu_model"`
	Packages    int      `json:"packages"`
	Cores       int      `json:"cores"`
	CPUs        int      `json:"cpus"` // online
	Nodes       int      `json:"numa_nodes"`
	Memory      uint64   `json:"memory_bytes"`
	Kernel      string   `json:"kernel"`
	Realtime    bool     `json:"realtime_kernel"`
	CommandLine string   `json:"command_line"`
	QEMU        string   `json:"qemu,omitempty"`
	Libvirt     string   `json:"libvirt,omitempty"`
	Virtual     string   `json:"virtual,omitempty"`
	Emulated    bool     `json:"emulated"`
	NICs        []NIC    `json:"nics"`
	Tunnels     []string `json:"tunnels"` // "vxlan, 1 queue"
	Guest       *Guest   `json:"guest"`   // null if none was named or seen
	Attested    []string `json:"attested"`
}

// NIC is a physical NIC.
type NIC struct {
	Name     string `json:"name"`
	Driver   string `json:"driver"`
	Firmware string `json:"firmware,omitempty"`
	Mbps     int    `json:"speed_mbps"` // −1: the driver does not report it
	Node     int    `json:"numa_node"`  // −1: unknown
	Queues   int    `json:"queues"`
	PCIe     string `json:"pcie,omitempty"` // negotiated: "8.0 GT/s PCIe x8"
	VFs      int    `json:"functions"`      // maximum number of virtual functions
	Path     bool   `json:"on_path"`        // packets of the experiment pass it, as far as known
}

// Guest is the measured guest.
type Guest struct {
	VCPUs   int    `json:"vcpus"`
	Queues  int    `json:"queues"` // of its NIC with the most queues
	Model   string `json:"nic_model,omitempty"`
	Backend string `json:"nic_backend,omitempty"`
	Memory  uint64 `json:"memory_bytes"`
	Huge    bool   `json:"hugepages"`
	Pinned  bool   `json:"pinned"`
}

// MachineOf describes a host that runs an experiment.
func MachineOf(h *facts.Host, in Inputs) *Machine {
	c := h.Topology.Counts
	m := &Machine{
		CPU: h.Topology.Model, Packages: c.Packages, Cores: c.Cores, CPUs: c.CPUsOnline, Nodes: c.NUMANodes,
		Kernel: h.Kernel.Release, Realtime: h.Kernel.Realtime, CommandLine: facts.Scrub(h).Kernel.CommandLine,
		QEMU: h.KVM.QEMU, Libvirt: h.KVM.Libvirt, Virtual: h.Virtual, Emulated: h.Emulated,
		NICs: []NIC{}, Tunnels: []string{}, Attested: []string{},
	}
	for _, n := range h.Topology.Nodes {
		m.Memory += n.Memory
	}
	masters := []string{in.Via, in.Out}
	if g := guestOf(h, in.Guest); g != nil {
		m.Guest = &Guest{VCPUs: g.VCPUs, Memory: g.Memory, Huge: g.Hugepages}
		m.Guest.Pinned = slices.ContainsFunc(g.Pins, func(s setting.CPUSet) bool { return len(s) > 0 })
		for _, i := range g.NICs() {
			masters = append(masters, i.Source)
			if i.Queues >= m.Guest.Queues {
				m.Guest.Queues, m.Guest.Model, m.Guest.Backend = i.Queues, i.Model, i.Backend
			}
		}
	}
	for _, n := range h.NICs {
		if n.PhysFn != "" {
			continue
		}
		nic := NIC{Name: n.Name, Driver: n.Driver, Firmware: n.Firmware, Mbps: n.Speed, Node: n.Node,
			Queues: n.RxQueues}
		if n.Link != nil {
			nic.PCIe = strings.TrimSpace(n.Link.Speed + " " + lanes(n.Link.Width))
		}
		if n.SRIOV != nil {
			nic.VFs = n.SRIOV.Total
		}
		nic.Path = n.Name == in.PF || n.Name == bare(in.From) || n.Name == bare(in.To) || n.Master != "" &&
			slices.Contains(masters, n.Master)
		m.NICs = append(m.NICs, nic)
	}
	for _, t := range h.Tunnels {
		switch t.Type {
		case "vlan", "bond":
		default:
			m.Tunnels = append(m.Tunnels, t.Type)
		}
	}
	m.Attested = append(m.Attested, slices.Sorted(maps.Keys(h.Attested))...)
	return m
}

func lanes(n int) string {
	if n <= 0 {
		return ""
	}
	return "x" + strconv.Itoa(n)
}

// bare returns the interface's name without its namespace.
func bare(end string) string { return end[strings.LastIndexByte(end, '/')+1:] }

// guestOf returns a guest by its name, nil if there is none or name is empty.
func guestOf(h *facts.Host, name string) *facts.Guest {
	return facts.Find(h.Guests, func(g *facts.Guest) bool { return name != "" && g.Name == name })
}

// OnPath returns the NICs that packets pass, or all if that is unknown.
func (m *Machine) OnPath() []NIC {
	some := slices.DeleteFunc(slices.Clone(m.NICs), func(n NIC) bool { return !n.Path })
	if len(some) == 0 {
		return m.NICs
	}
	return some
}

// Same reports whether both are the same machine. Kernels, firmware and guests may differ, because an experiment
// changes them.
func (m *Machine) Same(o *Machine) bool {
	if m.CPU != o.CPU || m.Packages != o.Packages || m.Nodes != o.Nodes || m.Emulated != o.Emulated {
		return false
	}
	drivers := func(m *Machine) []string {
		var all []string
		for _, n := range m.NICs {
			if n.PCIe != "" || n.VFs > 0 { // only those on a bus: others come and go
				all = append(all, n.Driver)
			}
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(drivers(m), drivers(o))
}
