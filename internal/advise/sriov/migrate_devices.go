package sriov

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// definition is what a migration needs from a guest's XML in addition to what package domain reads.
type definition struct {
	NVRAM   *struct{} `xml:"os>nvram"`
	Devices struct {
		Disks      []disk     `xml:"disk"`
		Interfaces []device   `xml:"interface"`
		Hostdevs   []device   `xml:"hostdev"`
		Folders    []struct{} `xml:"filesystem"`
	} `xml:"devices"`
}

// disk is a disk of a guest.
type disk struct {
	Type   string `xml:"type,attr"`
	Device string `xml:"device,attr"`
	Source struct {
		File string `xml:"file,attr"`
	} `xml:"source"`
	ReadOnly *struct{} `xml:"readonly"`
}

// device is an <interface> or a <hostdev>.
type device struct {
	Type    string `xml:"type,attr"`
	Managed string `xml:"managed,attr"`
	MAC     struct {
		Address string `xml:"address,attr"`
	} `xml:"mac"`
	Source struct {
		Network string   `xml:"network,attr"`
		Address *pciAddr `xml:"address"`
	} `xml:"source"`
	Tags []struct {
		ID int `xml:"id,attr"`
	} `xml:"vlan>tag"`
	Teaming *struct {
		Type       string `xml:"type,attr"`
		Persistent string `xml:"persistent,attr"`
	} `xml:"teaming"`
	Address *pciAddr `xml:"address"` // in the guest
}

// pciAddr is a PCI address in libvirt's XML, as written there.
type pciAddr struct {
	Type     string `xml:"type,attr"`
	Domain   string `xml:"domain,attr"`
	Bus      string `xml:"bus,attr"`
	Slot     string `xml:"slot,attr"`
	Function string `xml:"function,attr"`
}

// pci returns the address in the kernel's notation; empty: it is not a PCI address.
func (a *pciAddr) pci() string {
	if a == nil || a.Type != "" && a.Type != "pci" {
		return ""
	}
	part := func(text string) string { return strings.TrimPrefix(strings.TrimSpace(text), "0x") }
	found, ok := domain.CanonPCI(fmt.Sprintf("%s:%s:%s.%s", cmp.Or(part(a.Domain), "0"), cmp.Or(part(a.Bus), "0"),
		cmp.Or(part(a.Slot), "0"), cmp.Or(part(a.Function), "0")))
	return words.Either(ok, found, "")
}

func (d *device) teaming() string {
	if d.Teaming == nil {
		return ""
	}
	return d.Teaming.Type
}

// devicesOf parses a definition. Package domain checks it first: no entities, no other encodings, bounded size.
func devicesOf(text string) (*definition, error) {
	if _, err := domain.Parse([]byte(text)); err != nil {
		return nil, err
	}
	d := &definition{}
	if err := xml.Unmarshal([]byte(text), d); err != nil {
		return nil, err
	}
	return d, nil
}

// findFunctions fills in the functions of the guest, in the order of its definition, and its other passed-through
// devices.
func (p *migration) findFunctions() {
	taken := map[string]bool{}
	add := func(form string, d device, pci string) {
		f := MigrateVF{MAC: strings.ToLower(d.MAC.Address), PCI: pci, Form: form, Network: d.Source.Network, Number: -1,
			device: d}
		if len(d.Tags) == 1 {
			f.VLAN = d.Tags[0].ID
		}
		taken[pci] = true
		at := slices.IndexFunc(p.from.VFs, func(v facts.VF) bool { return v.PCI == pci })
		if at < 0 && pci != "" {
			p.other = append(p.other, pci)
			return
		}
		if at >= 0 {
			f.vf = p.from.VFs[at]
			f.PF, f.Index = f.vf.PF, f.vf.Index
			if form == facts.ByHostdev && !facts.NoAddress(f.vf.MAC) {
				f.MAC, f.VLAN = f.vf.MAC, f.vf.VLAN
			}
		}
		p.Functions = append(p.Functions, f)
	}
	for _, d := range p.def.Devices.Interfaces {
		switch d.Type {
		case "hostdev":
			add(facts.ByInterface, d, d.Source.Address.pci())
		case "network": // a pool if the guest has a function with this MAC address
			mac := strings.ToLower(d.MAC.Address)
			at := slices.IndexFunc(p.from.VFs, func(v facts.VF) bool {
				return v.MAC == mac && mac != "" && slices.Contains(p.guest.Hostdevs, v.PCI)
			})
			if at >= 0 {
				add(facts.ByNetwork, d, p.from.VFs[at].PCI)
			}
		}
	}
	for _, d := range p.def.Devices.Hostdevs {
		pci := d.Source.Address.pci()
		switch {
		case d.Type != "" && d.Type != "pci":
			p.other = append(p.other, d.Type+" device")
		case pci != "":
			add(facts.ByHostdev, d, pci)
		}
	}
	for _, pci := range p.guest.Hostdevs {
		at := slices.IndexFunc(p.from.VFs, func(v facts.VF) bool { return v.PCI == pci })
		if taken[pci] {
			continue
		}
		if at < 0 {
			p.other = append(p.other, pci)
			continue
		}
		f := p.from.VFs[at] // plugged into the running guest
		p.Functions = append(p.Functions, MigrateVF{MAC: f.MAC, PF: f.PF, Index: f.Index, PCI: f.PCI,
			Form: facts.ByInterface, VLAN: f.VLAN, Number: -1, vf: f, plugged: true,
			device: device{Type: "hostdev", Managed: "yes"}})
		p.Notes = append(p.Notes, pci+" is plugged into the running guest and not in its definition")
	}
}
