package libvirt

import (
	"context"
	"encoding/xml"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
)

// The folders of libvirt's network driver (src/network/bridge_driver.c, networkStateInitialize): definitions, autostart
// links, and the state of active networks. They are the same for libvirtd and virtnetworkd as root.
const (
	networkFolder       = "etc/libvirt/qemu/networks"
	networkAutostart    = networkFolder + "/autostart"
	activeNetworkFolder = "run/libvirt/network"
)

// networkXML is the used part of a network (formatnetwork.rst, "Using an SR-IOV VF pool").
type networkXML struct {
	Name    string `xml:"name"`
	Forward struct {
		Mode    string `xml:"mode,attr"`
		Managed string `xml:"managed,attr"`
		PF      []struct {
			Dev string `xml:"dev,attr"`
		} `xml:"pf"`
		Addresses []struct {
			Type     string `xml:"type,attr"`
			Domain   string `xml:"domain,attr"`
			Bus      string `xml:"bus,attr"`
			Slot     string `xml:"slot,attr"`
			Function string `xml:"function,attr"`
		} `xml:"address"`
	} `xml:"forward"`
}

// Pools reads libvirt's networks that are pools of VFs into h.Pools. It reads their files, which needs no daemon; a
// transient network has only a state file.
func Pools(_ context.Context, m *tree.Tree, h *facts.Host) {
	seen := map[string]bool{}
	for _, folder := range []string{networkFolder, activeNetworkFolder} {
		for _, file := range m.List(folder) {
			name, isXML := strings.CutSuffix(file, ".xml")
			if !isXML || seen[name] {
				continue
			}
			text, err := m.Read(folder + "/" + file)
			if err != nil {
				tree.AddUnseen(h, "network "+name+" of libvirt", err)
				continue
			}
			seen[name] = true
			pool, is, err := parsePool(text)
			switch {
			case err != nil:
				tree.AddUnseen(h, "network "+name+" of libvirt", err)
			case is:
				pool.Active = m.Exists(activeNetworkFolder + "/" + file)
				pool.Autostart = hasEntry(m, networkAutostart+"/"+file)
				h.Pools = append(h.Pools, pool)
			}
		}
	}
}

// hasEntry reports whether a directory has an entry, even a dangling link.
func hasEntry(m *tree.Tree, name string) bool {
	_, err := m.Lstat(name)
	return err == nil
}

// parsePool reads a network or its state; is reports whether it is a pool of functions.
func parsePool(text string) (pool facts.Pool, is bool, err error) {
	if at := strings.Index(text, "<network"); at >= 0 { // after a comment, or in <networkstatus>
		if inner := strings.Index(text, "<network>"); inner >= 0 {
			at = inner
		}
		text = text[at:]
	}
	var n networkXML
	if err := xml.NewDecoder(strings.NewReader(text)).Decode(&n); err != nil {
		return pool, false, err
	}
	pool = facts.Pool{Network: n.Name, Managed: n.Forward.Managed == "yes"}
	if len(n.Forward.PF) > 0 { // a state has addresses as well
		pool.PF = n.Forward.PF[0].Dev
		return pool, n.Forward.Mode == "hostdev", nil
	}
	for _, a := range n.Forward.Addresses {
		hex := func(s string) string { return strings.TrimPrefix(s, "0x") }
		address, ok := domain.CanonPCI(hex(a.Domain) + ":" + hex(a.Bus) + ":" + hex(a.Slot) + "." + hex(a.Function))
		if a.Type == "pci" && ok {
			pool.Functions = append(pool.Functions, address)
		}
	}
	return pool, n.Forward.Mode == "hostdev", nil
}
