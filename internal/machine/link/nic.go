package link

import (
	"context"
	"path"
	"regexp"
	"strconv"
	"strings"

	"mpps/internal/machine/ethtool"
	"mpps/internal/machine/irq"
	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// nics reads every device that has a bus device behind it.
func nics(ctx context.Context, m *tree.Tree, h *facts.Host, devices []Device, names map[int]string) []facts.NIC {
	nics := []facts.NIC{}
	for _, d := range devices {
		if m.Exists(path.Join(tree.ClassNet, d.Name, "device")) {
			nics = append(nics, nic(m, d, names))
		}
	}
	irq.OfNICs(m, h, nics)
	if m.Live() {
		ethtool.Fill(ctx, m, h, nics)
	}
	return nics
}

// nic reads what sysfs tells of one NIC.
func nic(m *tree.Tree, d Device, names map[int]string) facts.NIC {
	dir := path.Join(tree.ClassNet, d.Name)
	behind := path.Join(dir, "device")
	n := facts.NIC{
		Name: d.Name, Index: d.Index, MAC: d.mac, Driver: m.Target(path.Join(behind, "driver")),
		Bus: m.Target(path.Join(behind, "subsystem")), Up: d.Up, Carrier: d.Carrier, MTU: d.mtu,
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
	n.SRIOV = sriov(m, d.Name, behind)
	if physfn := path.Join(behind, "physfn"); m.Exists(physfn) {
		n.PhysFn = m.Target(physfn)
		if pf := m.List(path.Join(physfn, "net")); len(pf) > 0 {
			n.PhysFn = pf[0]
		}
	}
	return n
}

// pciAddress is the function's address in the form 0000:41:00.0, empty for other buses.
func pciAddress(m *tree.Tree, dir, function string) string {
	if m.Target(function+"/subsystem") != "pci" {
		return ""
	}
	if function == path.Join(dir, "device") {
		return m.Target(function)
	}
	return tree.Variable(m.Line(function+"/uevent"), "PCI_SLOT_NAME")
}

// pciLink reads the PCIe link; nil where there is none (Conventional PCI, emulated devices that have no link status).
func pciLink(m *tree.Tree, function string) *facts.PCILink {
	l := facts.PCILink{
		Speed: m.Line(function + "/current_link_speed"), MaxSpeed: m.Line(function + "/max_link_speed"),
		Width: m.Number(function+"/current_link_width", 0), MaxWidth: m.Number(function+"/max_link_width", 0),
	}
	known := func(speed string) bool { return speed != "" && !strings.HasPrefix(speed, "Unknown") }
	if !known(l.Speed) || !known(l.MaxSpeed) || l.Width == 0 {
		return nil
	}
	return &l
}

// sriov reads a physical function's ability to have virtual ones; nil where it has none. The name is that of the
// interface: one that stands for a function of the card (a representor, in switchdev mode) has the same device behind
// it and is no physical function.
func sriov(m *tree.Tree, name, behind string) *facts.SRIOV {
	enabled := m.Number(path.Join(behind, "sriov_numvfs"), 0)
	total := m.Number(path.Join(behind, "sriov_totalvfs"), 0)
	// drivers/net/netdevsim/dev.c, nsim_dev_debugfs_init
	if total == 0 && m.Target(path.Join(behind, "subsystem")) == "netdevsim" {
		total = max(m.Number(path.Join("sys/kernel/debug/netdevsim", m.Target(behind), "max_vfs"), enabled), enabled)
	}
	if total == 0 || representor.MatchString(m.Line(path.Join(tree.ClassNet, name, "phys_port_name"))) {
		return nil
	}
	return &facts.SRIOV{
		Total: total, Enabled: enabled, AutoProbe: m.Line(path.Join(behind, "sriov_drivers_autoprobe")) == "1",
	}
}

// representor is the port name of an interface that stands for a function of the card (net/core/devlink.c,
// devlink_port_attrs: "pf0vf1", "c1pf0sf88").
var representor = regexp.MustCompile(`^(c\d+)?pf\d+(vf|sf)\d+$`)

// queueNumber is the number in the name of a queue's directory ("rx-12"), −1 where it is none of that direction.
func queueNumber(name, direction string) int {
	digits, found := strings.CutPrefix(name, direction)
	if !found {
		return -1
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 {
		return -1
	}
	return n
}
