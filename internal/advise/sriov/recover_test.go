package sriov

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRecover checks the verdict and the changes for each state of a function.
func TestRecover(t *testing.T) {
	const unmanaged = "<domain type='kvm'><name>a</name><devices><hostdev mode='subsystem' type='pci' " +
		"managed='no'><source><address domain='0x0000' bus='0x41' slot='0x10' " +
		"function='0x0'/></source></hostdev></devices></domain>"
	for _, c := range []struct {
		what    string
		set     func(h *facts.Host, f *facts.VF)
		driver  string // pci-driver
		verdict Verdict
		planned string
		says    string // part of a step that is not ok, or of the last resort
		reset   bool
	}{
		{"all is well", func(*facts.Host, *facts.VF) {}, "igbvf", Well, "", "", false},
		{"left with vfio-pci", func(_ *facts.Host, f *facts.VF) { f.Driver, f.NIC = "vfio-pci", "" }, "vfio-pci",
			Mendable, "pci-driver:0000:41:10.0=igbvf", "given back to igbvf", true},
		{"left with vfio-pci, and drivers do not look for functions", func(h *facts.Host, f *facts.VF) {
			f.Driver, f.NIC, h.NICs[0].SRIOV.AutoProbe = "vfio-pci", "", false
		}, "vfio-pci override:vfio-pci", Mendable, "pci-driver:0000:41:10.0=none", "taken from vfio-pci", true},
		{"without a driver on purpose", func(h *facts.Host, f *facts.VF) {
			f.Driver, f.NIC, h.NICs[0].SRIOV.AutoProbe = "", "", false
		}, "none", Well, "", "", false},
		{"its driver did not take it", func(_ *facts.Host, f *facts.VF) { f.Driver, f.NIC = "", "" }, "none", Mendable,
			"pci-driver:0000:41:10.0=igbvf", "Cannot allocate memory", true},
		{"an override is left", func(_ *facts.Host, f *facts.VF) { f.Driver, f.NIC = "", "" }, "none override:vfio-pci",
			Mendable, "pci-driver:0000:41:10.0=igbvf", "only vfio-pci may take it", true},
		{"an override is left on its own driver", func(*facts.Host, *facts.VF) {}, "igbvf override:vfio-pci", Mendable,
			"pci-driver:0000:41:10.0=igbvf", "driver_override is cleared", true},
		{"no interface", func(_ *facts.Host, f *facts.VF) { f.NIC = "" }, "igbvf", Mendable, "", "it has no interface",
			true},
		{"a card whose functions' driver is not known", func(h *facts.Host, f *facts.VF) {
			h.NICs[0].Driver, f.Driver = "unheard-of", ""
		}, "none", ForYou, "", "load the module", false},
		{"the physical function is down", func(h *facts.Host, _ *facts.VF) { h.NICs[0].Up = false }, "igbvf", Mendable,
			"nic-state:ens1=up", "brought up", false},
		{"no IOMMU", func(_ *facts.Host, f *facts.VF) { f.Group = -1 }, "igbvf", ForYou, "", "mpps sriov check", false},
		{"its guest is to have an address", func(h *facts.Host, f *facts.VF) {
			f.MAC = facts.NoMAC
			h.Reservations = []facts.Reservation{{PF: "ens1", PCI: f.PCI, Guest: "b", UUID: "ub", Form: facts.ByHostdev,
				MAC: "52:54:00:00:00:0b"}}
		}, "igbvf", Mendable, "vf-attr:ens1/0/mac=52:54:00:00:00:0b", "given to guest b", false},
		{"no address, given to nobody", func(_ *facts.Host, f *facts.VF) { f.MAC = facts.NoMAC }, "igbvf", Well, "", "",
			false},
		{"a definition wants it with vfio-pci", func(h *facts.Host, f *facts.VF) {
			h.Guests[0].Interfaces, h.Guests[0].Definition, f.Driver = nil, unmanaged, "vfio-pci"
		}, "vfio-pci", Well, "", "", false},
		{"a definition wants it with vfio-pci, and it is not there", func(h *facts.Host, f *facts.VF) {
			h.Guests[0].Interfaces, h.Guests[0].Definition = nil, unmanaged
		}, "igbvf", ForYou, "", "virsh nodedev-detach pci_0000_41_10_0", false},

		{"a guest runs with it", func(h *facts.Host, f *facts.VF) {
			h.Guests[1].State, f.Guest, f.Driver = "running", "b", "vfio-pci"
		}, "vfio-pci", Taken, "", "guest b runs with it", false},
		{"its guest is gone, and a process has its group", func(_ *facts.Host, f *facts.VF) {
			f.Holder, f.Driver = "qemu-system-x86 (process 7)", "vfio-pci"
		}, "vfio-pci", Taken, "", "end that process yourself", false},
		{"the host uses it", func(_ *facts.Host, f *facts.VF) { f.HostUse = "port of br0" }, "igbvf", Taken, "",
			"port of br0", false},
		{"another one of the card is taken", func(h *facts.Host, f *facts.VF) {
			h.VFs = append(h.VFs, facts.VF{PF: "ens1", Index: 1, PCI: "0000:41:10.2", Holder: "dpdk (process 9)"})
			h.VFs[0].Driver, h.VFs[0].NIC = "", ""
		}, "none", Mendable, "pci-driver:0000:41:10.0=igbvf", "ens1/1: dpdk (process 9) has it open): mpps sriov " +
			"destroy ens1 && mpps sriov create ens1 -n 2", true},
	} {
		h, f := kept()
		h.NICs[0].SRIOV.AutoProbe, f.Driver, f.NIC = true, "igbvf", "ens1v0"
		c.set(h, f)
		f = &h.VFs[0]
		readAll(h, f)
		h.Readings[setting.Of(setting.PCIDriver, f.PCI)] = setting.Value(c.driver)
		h.Readings[setting.Of(setting.NICState, "ens1")] = setting.Value(map[bool]string{true: "up",
			false: "down"}[h.NICs[0].Up])
		r, err := Recover(h, f)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		var planned, says []string
		for _, change := range r.Changes {
			planned = append(planned, change.Address.String()+"="+change.To.Value)
		}
		for _, s := range r.Steps {
			if s.State != "ok" {
				says = append(says, s.Found, s.Do)
			}
		}
		all := strings.Join(append(says, r.LastResort), "\n")
		if got := strings.Join(planned, " "); r.Verdict != c.verdict || got != c.planned || r.Reset != c.reset ||
			!strings.Contains(all, c.says) || (c.says == "") != (strings.TrimSpace(all) == "") {
			t.Errorf("%s: %s, planned %q, reset %v, says\n%s", c.what, r.Verdict, got, r.Reset, all)
		}
	}
	must.Fail(Recover(&facts.Host{}, &facts.VF{PF: "nsim"}))(t, "a function on no bus is mended")
}
