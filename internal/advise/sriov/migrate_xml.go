package sriov

import (
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"

	"mpps/internal/model/facts"
)

// quoted are words as a shell takes them.
func quoted(words ...string) string { return shellquote.Join(words...) }

// shellLine is a command line for people to paste.
func shellLine(words ...string) string { return quoted(words...) }

// pasted is a command that reads a text, as one paste. virsh takes a file; /dev/stdin is one.
func pasted(line, text string) string {
	return line + " <<'EOF'\n" + strings.TrimRight(text, "\n") + "\nEOF"
}

// xmlText is a value as it stands between quotes in XML.
func xmlText(value string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(value)); err != nil {
		return ""
	}
	return b.String()
}

// pciXML is an address as libvirt's XML has it.
func pciXML(pci string) string {
	domain, rest, _ := strings.Cut(pci, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	slot, function, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("<address type='pci' domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/>", domain, bus, slot,
		function)
}

// element is the device of a function for one host: with the function's address there, and where the guest sees it as
// before, so that its name in the guest stays.
func (f *MigrateVF) element(pci string, teaming string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	managed := f.device.Managed
	if managed == "" {
		managed = "yes"
	}
	switch f.Form {
	case facts.ByHostdev:
		line("<hostdev mode='subsystem' type='pci' managed='%s'>", xmlText(managed))
		line("  <source>%s</source>", pciXML(pci))
	case facts.ByNetwork:
		line("<interface type='network'>")
		line("  <mac address='%s'/>", xmlText(f.MAC))
		line("  <source network='%s'/>", xmlText(f.Network))
	default:
		line("<interface type='hostdev' managed='%s'>", xmlText(managed))
		line("  <mac address='%s'/>", xmlText(f.MAC))
		line("  <source>%s</source>", pciXML(pci))
	}
	if f.Form != facts.ByHostdev && f.VLAN > 0 {
		line("  <vlan><tag id='%d'/></vlan>", f.VLAN)
	}
	if teaming != "" {
		line("  <teaming type='transient' persistent='%s'/>", xmlText(teaming))
	}
	if seen := f.device.Address.pci(); seen != "" && teaming == "" { // the standby has it
		line("  %s", pciXML(seen))
	}
	if f.Form == facts.ByHostdev {
		b.WriteString("</hostdev>")
	} else {
		b.WriteString("</interface>")
	}
	return b.String()
}

// standby is the virtio half of a pair. It comes to where the guest saw the function, so that the failover interface,
// which is this device's, has the name that the function had.
func (f *MigrateVF) standby(bridge, alias string) string {
	lines := []string{
		"<interface type='bridge'>",
		"  <mac address='" + xmlText(f.MAC) + "'/>",
		"  <source bridge='" + xmlText(bridge) + "'/>",
		"  <model type='virtio'/>",
		"  <teaming type='persistent'/>",
		"  <alias name='" + xmlText(alias) + "'/>",
	}
	if seen := f.device.Address.pci(); seen != "" {
		lines = append(lines, "  "+pciXML(seen))
	}
	return strings.Join(append(lines, "</interface>"), "\n")
}
