package link

import (
	"context"
	"path"
	"strings"

	"mpps/internal/machine/ethtool"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// nics reads every device that has a bus device.
func nics(ctx context.Context, m *tree.Tree, h *facts.Host, devices []Device, names map[int]string) []facts.NIC {
	nics := []facts.NIC{}
	for _, d := range devices {
		if m.Exists(path.Join(tree.ClassNet, d.Name, "device")) {
			nics = append(nics, nic(m, d, names))
		}
	}
	irq.OfNICs(m, h, nics)
	if m.Live() {
		ethtool.Fill(ctx, h, nics)
	}
	return nics
}

// nic reads one NIC from sysfs.
func nic(m *tree.Tree, d Device, names map[int]string) facts.NIC {
	dir := path.Join(tree.ClassNet, d.Name)
	device := path.Join(dir, "device")
	n := facts.NIC{
		Name: d.Name, Index: d.Index, MAC: d.mac, Driver: m.Target(path.Join(device, "driver")),
		Bus: m.Target(path.Join(device, "subsystem")), Up: d.Up, Carrier: d.Carrier, MTU: d.mtu,
		Speed: m.Number(path.Join(dir, "speed"), -1), Master: names[d.master], TxQueueLen: d.txQueueLen, XDP: d.xdp,
		Features: []facts.Feature{}, IRQs: []facts.IRQ{}, Qdisc: d.qdisc, Stats: d.Stats, Steered: steered(m, d),
		Coalesce: map[string]string{}, FlowHash: map[string]string{},
	}
	n.RxQueues, n.TxQueues, n.RPS, n.XPS = queues(m, dir)
	n.Classes = classes(m, dir, n.TxQueues)
	function := m.Function(dir)
	n.PCI = pciAddress(m, dir, function)
	n.Node = m.Number(path.Join(function, "numa_node"), -1)
	n.Link = pciLink(m, function)
	n.PortName, n.SwitchID = m.Line(path.Join(dir, "phys_port_name")), m.Line(path.Join(dir, "phys_switch_id"))
	if !n.Representor() { // it has the bus device of its PF
		n.SRIOV = sriov(m, device)
	}
	if physfn := path.Join(device, "physfn"); m.Exists(physfn) {
		n.PhysFn = m.Target(physfn)
		if pf := m.List(path.Join(physfn, "net")); len(pf) > 0 {
			n.PhysFn = pf[0]
		}
	}
	return n
}

// pciAddress returns the function's address (0000:41:00.0); empty on other buses.
func pciAddress(m *tree.Tree, dir, function string) string {
	if m.Target(function+"/subsystem") != "pci" {
		return ""
	}
	if function == path.Join(dir, "device") {
		return m.Target(function)
	}
	return tree.Variable(m.Line(function+"/uevent"), "PCI_SLOT_NAME")
}

// pciLink reads the PCIe link; nil if there is none (Conventional PCI, emulated devices without a link status).
func pciLink(m *tree.Tree, function string) *facts.PCILink {
	l := facts.PCILink{
		Speed: m.Line(function + "/current_link_speed"), MaxSpeed: m.Line(function + "/max_link_speed"),
		Width: m.Number(function+"/current_link_width", 0), MaxWidth: m.Number(function+"/max_link_width", 0),
	}
	known := func(speed string) bool { return speed != "" && !strings.HasPrefix(speed, "Unknown") }
	if !known(l.Speed) || !known(l.MaxSpeed) || l.Width == 0 {
		return nil
	}
	if config, err := m.Head(function+"/config", configBytes); err == nil {
		l.ReadRequest, l.Relaxed = deviceControl(config)
	}
	return &l
}

// sriov reads the number of VFs that a PF has and can have; nil if it can have none.
func sriov(m *tree.Tree, device string) *facts.SRIOV {
	enabled := m.Number(path.Join(device, "sriov_numvfs"), 0)
	total := m.Number(path.Join(device, "sriov_totalvfs"), 0)
	// drivers/net/netdevsim/dev.c, nsim_dev_debugfs_init
	if total == 0 && m.Target(path.Join(device, "subsystem")) == "netdevsim" {
		total = max(m.Number(path.Join("sys/kernel/debug/netdevsim", m.Target(device), "max_vfs"), enabled), enabled)
	}
	if total == 0 {
		return nil
	}
	return &facts.SRIOV{
		Total: total, Enabled: enabled, AutoProbe: m.Line(path.Join(device, "sriov_drivers_autoprobe")) == "1",
		Vectors: m.Number(path.Join(device, "sriov_vf_total_msix"), 0),
	}
}
