package gallery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// definition returns the XML of a guest as its owner writes it.
func (g *guest) definition(h *facts.Host) (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("<domain type='kvm'>\n  <name>%s</name>\n  <uuid>%s</uuid>", g.name, g.uuid())
	metadata := owners[g.By]
	if g.Windows {
		metadata += `<libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0">` +
			`<libosinfo:os id="http://microsoft.com/win/2k22"/></libosinfo:libosinfo>`
	}
	if metadata != "" {
		line("  <metadata>%s</metadata>", metadata)
	}
	if names := makers[g.By]; names[0] != "" {
		line("  <sysinfo type='smbios'><system><entry name='manufacturer'>%s</entry><entry name='product'>%s</entry>"+
			"</system></sysinfo>", names[0], names[1])
	}
	line("  <memory unit='GiB'>%d</memory>", g.gib())
	shared := !g.Private && slices.ContainsFunc(g.NICs, func(v VNIC) bool { return v.Type == "vhostuser" })
	if g.Pages || g.Locked || shared {
		line("  <memoryBacking>")
		if g.Pages {
			line("    <hugepages/>")
		}
		if g.Locked {
			line("    <nosharepages/>\n    <locked/>")
		}
		if shared && !g.Pages {
			line("    <source type='memfd'/>")
		}
		if shared {
			line("    <access mode='shared'/>")
		}
		line("  </memoryBacking>")
	}
	line("  <vcpu placement='static'>%d</vcpu>", g.VCPUs)
	if g.IOThreads > 0 {
		line("  <iothreads>%d</iothreads>", g.IOThreads)
	}
	g.tuning(line)
	if g.Nodes != "" {
		line("  <numatune>\n    <memory mode='strict' nodeset='%s'/>\n  </numatune>", g.Nodes)
	}
	machine, emulator := "pc-q35-9.0", "/usr/bin/qemu-system-"+g.arch
	if g.arch == "aarch64" {
		machine = "virt-9.0"
	}
	line("  <os>\n    <type arch='%s' machine='%s'>hvm</type>\n  </os>", g.arch, cmp.Or(g.Machine, machine))
	if !strings.Contains(g.Extra, "<cpu ") {
		line("  <cpu mode='%s'/>", cmp.Or(g.Mode, "host-passthrough"))
	}
	if g.Extra != "" {
		line("  %s", strings.TrimSpace(g.Extra))
	}
	line("  <devices>\n    <emulator>%s</emulator>", emulator)
	for i, v := range g.NICs {
		g.interfaceXML(line, i, v)
	}
	for i, vf := range g.VFs {
		address, err := g.functionOf(h, vf)
		if err != nil {
			return "", err
		}
		line("    <interface type='hostdev' managed='yes'>\n      <mac address='%s'/>\n      <source>\n        %s\n"+
			"      </source>\n    </interface>", g.mac(100+i), address)
	}
	for _, pci := range g.Hostdevs {
		address, err := pciAddress(pci)
		if err != nil {
			return "", err
		}
		line("    <hostdev mode='subsystem' type='pci' managed='yes'>\n      <source>\n        %s\n      </source>\n"+
			"    </hostdev>", address)
	}
	line("  </devices>\n</domain>")
	return b.String(), nil
}

// tuning writes the pins.
func (g *guest) tuning(line func(format string, args ...any)) {
	if len(g.pins) == 0 && g.Emulator == "" && g.FIFO == "" {
		return
	}
	line("  <cputune>")
	for v := range g.VCPUs {
		switch {
		case len(g.pins) == 0:
		case g.Floating:
			line("    <vcpupin vcpu='%d' cpuset='%s'/>", v, g.pins)
		case v < len(g.pins):
			line("    <vcpupin vcpu='%d' cpuset='%d'/>", v, g.pins[v])
		}
	}
	if g.Emulator != "" {
		line("    <emulatorpin cpuset='%s'/>", g.Emulator)
	}
	if g.FIFO != "" {
		line("    <vcpusched vcpus='%s' scheduler='fifo' priority='1'/>", g.FIFO)
	}
	line("  </cputune>")
}

// interfaceXML writes one interface.
func (g *guest) interfaceXML(line func(format string, args ...any), index int, v VNIC) {
	line("    <interface type='%s'>\n      <mac address='%s'/>", v.Type, g.mac(index))
	switch v.Type {
	case "bridge":
		line("      <source bridge='%s'/>", v.Source)
	case "network":
		line("      <source network='%s'/>", v.Source)
	case "direct":
		line("      <source dev='%s' mode='%s'/>", v.Source, cmp.Or(v.Mode, "vepa"))
	case "vhostuser":
		line("      <source type='unix' path='/run/vhost/%s-%d' mode='server'/>", g.name, index)
	case "vdpa":
		line("      <source dev='/dev/vhost-vdpa-%d'/>", g.index)
	case "user":
		if v.Source != "" {
			line("      <backend type='%s'/>", v.Source)
		}
	}
	line("      <model type='%s'/>", cmp.Or(v.Model, "virtio"))
	var driver strings.Builder
	if v.Backend != "-" && v.Backend != "" {
		fmt.Fprintf(&driver, " name='%s'", v.Backend)
	}
	for _, size := range []struct {
		name string
		n    int
	}{{"queues", v.Queues}, {"rx_queue_size", v.Rx}, {"tx_queue_size", v.Tx}} {
		if size.n > 1 {
			fmt.Fprintf(&driver, " %s='%d'", size.name, size.n)
		}
	}
	if driver.Len() > 0 {
		line("      <driver%s/>", &driver)
	}
	if v.Batch > 0 {
		line("      <coalesce>\n        <rx>\n          <frames max='%d'/>\n        </rx>\n      </coalesce>", v.Batch)
	}
	line("    </interface>")
}

// functionOf returns the element of a virtual function's address: of the guest's number behind eth0/0.
func (g *guest) functionOf(h *facts.Host, name string) (string, error) {
	pf, text, _ := strings.Cut(name, "/")
	var first int
	if _, err := fmt.Sscan(text, &first); err != nil {
		return "", fmt.Errorf("virtual function %q: expected one such as eth0/0", name)
	}
	vf := facts.Find(h.VFs, func(f *facts.VF) bool { return f.PF == pf && f.Index == first+g.index })
	if vf == nil {
		return "", fmt.Errorf("%s has no virtual function %d", pf, first+g.index)
	}
	vf.Guest = g.name
	return pciAddress(vf.PCI)
}

// pciAddress returns the element of 0000:41:00.0.
func pciAddress(text string) (string, error) {
	var d, b, s, f int
	if _, err := fmt.Sscanf(text, "%x:%x:%x.%x", &d, &b, &s, &f); err != nil {
		return "", err
	}
	return fmt.Sprintf("<address type='pci' domain='0x%04x' bus='0x%02x' slot='0x%02x' function='0x%x'/>", d, b, s, f),
		nil
}
