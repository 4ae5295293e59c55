package sriov

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// ready is a host with two ixgbe ports that has everything functions need. One guest runs with a function that
// mpps assigned.
func ready() *facts.Host {
	h := manyPorts(2, 4)
	h.AsRoot = true
	h.Kernel = facts.Kernel{Release: "6.12.48-amd64", CommandLine: "ro intel_iommu=on iommu=pt"}
	h.Topology.Vendor = "GenuineIntel"
	h.Firmware = facts.Firmware{DMAR: true, Tables: true, Groups: 40}
	h.Readings = facts.Readings{
		setting.Of(setting.KernelArg, "iommu"):       setting.Value("pt"),
		setting.Of(setting.KernelArg, "intel_iommu"): setting.Value("on"),
	}
	h.Housekeeping = &facts.Housekeeping{VFFiles: []facts.VFFile{{Path: "/etc/systemd/network/10-a.link",
		Device: "ens1f0"}, {Path: "/etc/systemd/network/10-b.link", Device: "ens2f0"}}}
	p := &facts.Passthrough{Remapping: "on", Modules: map[string]string{"vfio-pci": "loaded"},
		Locked: []facts.LockLimit{{Guest: "web", Limit: 9 << 30}}}
	for i := range h.NICs {
		n := &h.NICs[i]
		n.Bus = "pci"
		n.Link = &facts.PCILink{Speed: "8.0 GT/s PCIe", MaxSpeed: "8.0 GT/s PCIe", Width: 8, MaxWidth: 8}
		f := facts.PhysicalFunction{NIC: n.Name, PCI: n.PCI, Vendor: "0x8086", Capability: 64, Windows: 2,
			Bridges: []facts.PCIBridge{{PCI: "0000:40:01.0", ACS: "on"}}}
		if n.SRIOV == nil {
			n.Driver, f.Capability, f.Windows = "e1000e", -1, 0
		}
		p.Functions = append(p.Functions, f)
	}
	h.Passthrough = p
	for i := range h.VFs {
		h.VFs[i].NIC = "v" + h.VFs[i].PCI
	}
	v := &h.VFs[0]
	v.Driver, v.NIC, v.MAC, v.Guest = "vfio-pci", "", "52:54:00:00:00:01", "web"
	h.Guests = []facts.Guest{{Name: "web", UUID: "u1", State: "running", Managed: true, Memory: 8 << 30,
		Hostdevs: []string{v.PCI}}}
	h.Reservations = []facts.Reservation{{PF: v.PF, Index: 0, PCI: v.PCI, Guest: "web", UUID: "u1"}}
	return h
}

// The ready host has only ok points, and each missing thing is reported once, with what to do.
func TestExamine(t *testing.T) {
	card := func(h *facts.Host) *facts.PhysicalFunction { return &h.Passthrough.Functions[1] } // of ens1f0
	for _, c := range []struct {
		name     string
		spoil    func(*facts.Host)
		journal  Journal
		id       string
		object   string
		state    State
		severity knob.Severity
		says     string // Found, Why and Do together hold each of these words, apart by |
	}{
		{"no IOMMU in the firmware", func(h *facts.Host) { h.Firmware = facts.Firmware{Tables: true} }, Journal{},
			"firmware.vt_d", "", NotOK, knob.Critical, "VT-d"},
		{"nor in the kernel", func(h *facts.Host) { h.Firmware = facts.Firmware{Tables: true} }, Journal{}, "iommu", "",
			NotOK, knob.Critical, "first the firmware"},
		{"IOMMU not used", func(h *facts.Host) { h.Firmware.Groups, h.Kernel.CommandLine = 0, "ro" }, Journal{},
			"iommu", "", NotOK, knob.Critical, "command line: ro|intel_iommu=on iommu=pt|plan --nic vf"},
		{"next boot without", func(h *facts.Host) {
			h.Readings[setting.Of(setting.KernelArg, "intel_iommu")] = setting.Missing("not there")
			h.Firmware.Groups = 0
		}, Journal{}, "boot.iommu", "", NotOK, knob.Critical, "plan --nic vf"},
		{"no remapping", func(h *facts.Host) { h.Passthrough.Remapping = "off" }, Journal{}, "remapping", "", NotOK,
			knob.High, "interrupt remapping"},
		{"unsafe interrupts", func(h *facts.Host) { h.Passthrough.Remapping, h.Passthrough.Unsafe = "off", true },
			Journal{}, "remapping", "", NotOK, knob.Medium, "allow_unsafe_interrupts"},
		{"remapping not seen", func(h *facts.Host) { h.Passthrough.Remapping = "" }, Journal{}, "remapping", "",
			Unknown, 0, "/proc/interrupts"},
		{"no vfio", func(h *facts.Host) { h.Passthrough.Modules["vfio-pci"] = "missing" }, Journal{}, "vfio", "", NotOK,
			knob.Critical, "6.12.48-amd64|package"},
		{"too little to lock", func(h *facts.Host) { h.Passthrough.Locked[0].Limit = 64 << 20 }, Journal{}, "memlock",
			"", NotOK, knob.High, "web: 64 MiB of 8192 MiB"},
		{"old snapshot", func(h *facts.Host) { h.Passthrough = nil }, Journal{}, "isolation", "ens1f0", Unknown, 0,
			"did not look"},
		{"interrupted", nil, Journal{Unsettled: []Unsettled{{"20261121-1", "interrupted",
			[]string{"vf-attr:ens1f0/0/mac"}}}}, "journal", "", NotOK, knob.High,
			"20261121-1 is interrupted|vf-attr:ens1f0/0/mac|mpps rollback 20261121-1"},
		{"journal not to be read", nil, Journal{Unread: "permission denied"}, "journal", "", Unknown, 0,
			"permission denied|root"},
		{"guest is gone", func(h *facts.Host) { h.Guests = nil }, Journal{}, "reservations", "", NotOK, knob.Medium,
			"which does not exist|/var/lib/mpps/vfs/"},
		{"guests not to be seen", func(h *facts.Host) {
			h.Guests, h.Unseen = nil, []facts.Unseen{facts.GuestsUnseen("needs root")}
		}, Journal{}, "reservations", "", Unknown, 0, "needs root"},
		{"half given", func(h *facts.Host) { h.Guests[0].Hostdevs = nil }, Journal{}, "reservations", "", NotOK,
			knob.High, "ens1f0/0|does not name it|rollback|release web"},
		{"function is gone", func(h *facts.Host) { h.VFs = h.VFs[1:] }, Journal{}, "reservations", "", NotOK, knob.High,
			"no such function|create ens1f0 -n 1"},
		{"half given by a pool", func(h *facts.Host) {
			h.Reservations = append(h.Reservations, facts.Reservation{PF: "ens1f0", Index: -1, Network: "pool",
				Guest: "web", UUID: "u1", MAC: "52:54:00:00:00:02"})
		}, Journal{}, "reservations", "", NotOK, knob.High, "network pool"},
		{"switched off in the card", func(h *facts.Host) { h.NICs[1].SRIOV = nil; card(h).Capability, card(h).Vendor = -1, "0x15b3" }, Journal{}, "offered", "ens1f0", NotOK, knob.Medium, "mlxconfig"},
		{"offered by the card alone", func(h *facts.Host) { h.NICs[1].SRIOV = nil }, Journal{}, "offered", "ens1f0",
			NotOK, knob.High, "the card says 64"},
		{"not seen without root", func(h *facts.Host) { h.NICs[1].SRIOV = nil; card(h).Capability = -2 }, Journal{},
			"offered", "ens1f0", NotOK, knob.Medium, "as root it can be distinguished"},
		{"no driver", func(h *facts.Host) { h.NICs[1].Driver = "" }, Journal{}, "driver", "ens1f0", NotOK, knob.High,
			"lspci -k"},
		{"Broadcom that is down", func(h *facts.Host) { h.NICs[1].Driver, h.NICs[1].Up = "bnxt_en", false }, Journal{},
			"driver", "ens1f0", NotOK, knob.High, "ip link set ens1f0 up"},
		{"no room", func(h *facts.Host) { card(h).Unplaced = 2 }, Journal{}, "room", "ens1f0", NotOK, knob.Critical,
			"2 of 2 windows|above 4G|pci=realloc"},
		{"down", func(h *facts.Host) { h.NICs[1].Up = false }, Journal{}, "link", "ens1f0", NotOK, knob.Medium,
			"ip link set ens1f0 up"},
		{"no carrier", func(h *facts.Host) { h.NICs[1].Carrier = "down" }, Journal{}, "link", "ens1f0", NotOK, knob.Low,
			"cable"},
		{"not at boot", func(h *facts.Host) { h.Housekeeping.VFFiles = nil }, Journal{}, "sriov.persist", "ens1f0",
			NotOK, knob.Medium, "create ens1f0 -n 4 --persist unit"},
		{"not settled", func(h *facts.Host) { h.VFs[1].NIC = "" }, Journal{}, "sriov.ready", "ens1f0", NotOK,
			knob.Medium, "udevadm settle"},
		{"two guests of one", func(h *facts.Host) {
			h.Guests = append(h.Guests, facts.Guest{Name: "db", State: "shut off", Hostdevs: []string{h.VFs[0].PCI}})
		}, Journal{}, "sriov.usage", "ens1f0", NotOK, knob.Medium, "web and db"},
		{"a shared group", func(h *facts.Host) {
			h.Passthrough.Groups = []facts.IOMMUGroup{{Number: 7, Devices: []facts.GroupDevice{
				{PCI: "0000:40:01.0", Class: "060400"}, {PCI: h.VFs[0].PCI, Class: "020000"},
				{PCI: "0000:41:00.1", Class: "010700"}}}}
			card(h).Bridges[0].ACS = "none"
		}, Journal{}, "isolation", "ens1f0", NotOK, knob.High, "group 7|0000:41:00.1|without ACS on the way: " +
			"0000:40:01.0"},
		{"a port without functions shares its group", func(h *facts.Host) {
			h.VFs, h.NICs[1].SRIOV.Enabled, h.Reservations, h.Guests = h.VFs[4:], 0, nil, nil
			h.Passthrough.Groups = []facts.IOMMUGroup{{Number: 7, Devices: []facts.GroupDevice{{PCI: h.NICs[1].PCI},
				{PCI: "0000:41:00.1"}}}}
		}, Journal{}, "isolation", "ens1f0", NotOK, knob.Medium, "to be made"},
		{"only a bridge in the group", func(h *facts.Host) {
			h.Passthrough.Groups = []facts.IOMMUGroup{{Number: 7,
				Devices: []facts.GroupDevice{{PCI: "0000:40:01.0", Class: "060400"}, {PCI: h.VFs[0].PCI}}}}
		}, Journal{}, "isolation", "ens1f0", OK, 0, "4 functions"},
		{"no address", func(h *facts.Host) { h.VFs[0].MAC = facts.NoMAC }, Journal{}, "mac", "ens1f0", NotOK, knob.Low,
			"ens1f0/0 of web"},
		{"left bound", func(h *facts.Host) { h.VFs[2].Driver, h.VFs[2].NIC = "vfio-pci", "" }, Journal{}, "leftover",
			"ens1f0", NotOK, knob.Low, "managed='no'|sriov reset ens1f0/2"},
	} {
		h := ready()
		if c.spoil != nil {
			c.spoil(h)
		}
		got, err := Examine(h, "", c.journal)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		at := slices.IndexFunc(got.Points, func(p Point) bool {
			return p.ID == c.id && p.Object == c.object && p.State == c.state
		})
		if at < 0 {
			t.Errorf("%s: no point %s of %q that is %s in %+v", c.name, c.id, c.object, c.state, got.Points)
			continue
		}
		p := got.Points[at]
		if c.severity != 0 && p.Severity != c.severity {
			t.Errorf("%s: severity %s, want %s", c.name, p.Severity, c.severity)
		}
		for _, word := range strings.Split(c.says, "|") {
			must.Hold(t, strings.Contains(p.Found+" "+p.Why+" "+p.Do, word), "%s: expected %q in %+v", c.name, word, p)
		}
	}
}

func TestExamineReadyHost(t *testing.T) {
	c := must.Get(Examine(ready(), "", Journal{}))(t)
	objects := map[string]int{}
	for _, p := range c.Points {
		objects[p.Object]++
		must.Hold(t, p.State == OK, "of a host that is ready: %+v", p)
	}
	must.Hold(t, objects[""] >= 6 && objects["ens1f0"] >= 9 && objects["ens2f0"] == objects["ens1f0"] &&
		objects["eno1"] == 0, "points by object: %v", objects)
	if len(c.AtLeast(knob.Info)) != 0 || !strings.HasPrefix(c.Verdict, "ready: everything") {
		t.Errorf("verdict %q, findings %v", c.Verdict, c.AtLeast(knob.Info))
	}
	one, err := Examine(ready(), "0000:42:00.0", Journal{})
	must.Hold(t, err == nil && !slices.ContainsFunc(one.Points, func(p Point) bool { return p.Object == "ens1f0" }),
		"of one port alone: %v (%v)", one.Points, err)
	named, err := Examine(ready(), "eno1", Journal{})
	must.Hold(t, err == nil && len(named.AtLeast(knob.Medium)) == 1,
		"a NIC that cannot have functions, by name: %+v (%v)", named.Points, err)
	must.Say(t, must.Err(Examine(ready(), "ens9", Journal{})), "ens9", "a NIC that is not there")
}

// Findings of the catalogue need advice, so each of the knobs must exist.
func TestCataloguedKnobsAreThere(t *testing.T) {
	if got := len(Catalogued()); got != len(catalogued) {
		t.Errorf("%d of %d knobs are in the catalogue", got, len(catalogued))
	}
	for driver, list := range traps {
		for _, trap := range list {
			if !strings.HasSuffix(trap, ")") && !strings.Contains(trap, "mlxconfig") {
				t.Errorf("%s: a trap without a source: %s", driver, trap)
			}
		}
	}
}

func TestConcerns(t *testing.T) {
	for text, want := range map[string]bool{
		"vf-attr:ens1f0/0/mac": true, "vf-count:ens1f0": true, "file:var/lib/mpps/vfs/0000:41:10.0.json": true,
		"domain:web/hostdev/0000:41:10.0":        true,
		"domain:web/interface/52:54:00:00:00:01": true, "domain:web/interface/52:54:00:00:00:01/driver.queues": false,
		"domain:web/vcpupin/0":           false,
		"file:etc/sysctl.d/90-mpps.conf": false, "sysfs:class/net/ens1f0/device/sriov_drivers_autoprobe": true,
		"sysctl:net.core.somaxconn": false,
	} {
		a := must.Get(setting.ParseAddress(text))(t)
		must.Equal(t, Concerns(a), want, "%s", text)
	}
}
