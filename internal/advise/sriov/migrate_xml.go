package sriov

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"

	"mpps/internal/model/facts"
)

// quoted joins words into a command line, quoted for a shell.
func quoted(words ...string) string { return shellquote.Join(words...) }

// heredoc returns a command line with a text as its standard input. virsh reads it as the file /dev/stdin.
func heredoc(line, text string) string {
	return line + " <<'EOF'\n" + strings.TrimRight(text, "\n") + "\nEOF"
}

// xmlText escapes a value for an attribute in XML.
func xmlText(value string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(value)); err != nil {
		return ""
	}
	return b.String()
}

// pciXML returns a PCI address as an element of libvirt's XML.
func pciXML(pci string) string {
	domain, rest, _ := strings.Cut(pci, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	slot, function, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("<address type='pci' domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/>", domain, bus, slot,
		function)
}

// element returns the device of a function with a PCI address on one host. Its address in the guest stays the same, so
// that its interface keeps its name. teaming is the alias of its standby; empty: none.
func (f *MigrateVF) element(pci string, teaming string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	managed := cmp.Or(f.device.Managed, "yes")
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

// standby returns the virtio half of a pair. It gets the function's address in the guest, so that the failover
// interface, which belongs to this device, keeps the name that the function had.
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
