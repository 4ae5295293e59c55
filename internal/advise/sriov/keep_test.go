package sriov

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// kept is the start of a row of TestKeep: function 0 of an igb card whose functions mpps creates, with
// every attribute set that a guest could leave behind.
func kept() (*facts.Host, *facts.VF) {
	h := &facts.Host{
		NICs: []facts.NIC{{Name: "ens1", Driver: "igb", Up: true, Carrier: "up", Speed: 1000,
			SRIOV: &facts.SRIOV{Total: 7, Enabled: 1}}},
		VFs: []facts.VF{{
			PF: "ens1", PCI: "0000:41:10.0", Group: 9, MAC: "52:54:00:00:00:01", VLAN: 7, QoS: 2, MaxTxRate: 100,
			SpoofCheck: false, Trust: true, LinkState: "auto",
		}},
		Guests: []facts.Guest{
			{Name: "a", UUID: "ua", State: "shut off", Hostdevs: []string{"0000:41:10.0"},
				Interfaces: []facts.Interface{{MAC: "52:54:00:00:00:01", Type: "hostdev", Source: "0000:41:10.0",
					VLAN: 7}}},
			{Name: "b", UUID: "ub", State: "shut off", Hostdevs: []string{"0000:41:10.0"}},
		},
		Readings: facts.Readings{},
	}
	return h, &h.VFs[0]
}

const everything = "trust=off spoofchk=on mac=00:00:00:00:00:00 vlan=0 qos=0 max_tx_rate=0"

// TestKeep has the rules for resetting functions when guests start and stop, as a table.
func TestKeep(t *testing.T) {
	toA := facts.Reservation{PF: "ens1", PCI: "0000:41:10.0", Guest: "a", UUID: "ua", Form: facts.ByInterface,
		MAC: "52:54:00:00:00:01"}
	runs := func(h *facts.Host, name string) {
		for i := range h.Guests {
			if h.Guests[i].Name == name {
				h.Guests[i].State = "running"
				h.VFs[0].Guest, h.VFs[0].Driver = name, "vfio-pci"
			}
		}
	}
	keeps := func(u *Upkeep, names ...string) {
		for _, name := range names {
			u.Kept[setting.Of(setting.VFAttr, "ens1", "0", name)] = ""
		}
	}
	for _, c := range []struct {
		what string
		set  func(h *facts.Host, f *facts.VF, u *Upkeep)
		due  string
		lent bool
	}{
		{"a ends, nobody keeps anything", func(h *facts.Host, f *facts.VF, u *Upkeep) { u.Left[f.PCI] = "a" },
			everything, false},
		{"a ends, its values are kept and it may come back", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI] = "a"
			h.Reservations = append(h.Reservations, toA)
			keeps(u, "max_tx_rate", "trust")
		}, "spoofchk=on mac=00:00:00:00:00:00 vlan=0 qos=0", false},
		{"a is undefined: what is kept for it is nobody's", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI] = "a"
			h.Reservations, h.Guests = append(h.Reservations, toA), h.Guests[1:]
			u.Defined = nil
			keeps(u, "max_tx_rate", "trust")
		}, everything, true},
		{"a is renamed: it is there", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			h.Reservations = append(h.Reservations, toA)
			h.Guests[0].Name, u.Defined = "a2", nil
			keeps(u, "trust")
		}, "", false},
		{"libvirt does not answer, and its file of a is there", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			h.Reservations, h.Guests = append(h.Reservations, toA), nil
			keeps(u, "trust")
		}, "", false},
		{"b starts with what was given to a", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "b")
			u.Started["b"] = true
			h.Reservations = append(h.Reservations, toA)
			keeps(u, "max_tx_rate", "trust", "vlan", "mac")
		}, everything, true},
		{"b has its own address by now", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "b")
			u.Started["b"], f.MAC = true, "ae:00:00:00:00:05"
			h.Reservations = append(h.Reservations, toA)
			keeps(u, "max_tx_rate")
		}, "trust=off spoofchk=on vlan=0 qos=0 max_tx_rate=0", true},
		{"a starts with its own", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "a")
			u.Started["a"] = true
			h.Reservations = append(h.Reservations, toA)
			keeps(u, "max_tx_rate", "trust")
		}, "spoofchk=on qos=0", false},
		{"a starts, given by hand: libvirt has set address and VLAN", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "a")
			u.Started["a"] = true
		}, "trust=off spoofchk=on qos=0 max_tx_rate=0", false},
		{"a starts again while its function is set as new after its end", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "a")
			u.Started["a"], f.MAC, f.VLAN = true, facts.NoMAC, 0
		}, "trust=off spoofchk=on qos=0 max_tx_rate=0 mac=52:54:00:00:00:01 vlan=7", false},
		{"the same, and another address and VLAN are kept", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "a")
			u.Started["a"], f.MAC, f.VLAN = true, facts.NoMAC, 0
			keeps(u, "mac", "vlan")
		}, "trust=off spoofchk=on qos=0 max_tx_rate=0", false},
		{"the same, of a pool", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "b")
			u.Started["b"], f.MAC, f.VLAN = true, facts.NoMAC, 0
			h.Guests[1].Interfaces = []facts.Interface{{MAC: "52:54:00:00:00:02", Type: "network", Source: "pool",
				Function: f.PCI, VLAN: 9}}
		}, "trust=off spoofchk=on qos=0 max_tx_rate=0 mac=52:54:00:00:00:02 vlan=9", false},
		{"set by name and not given to anybody: for whoever has it", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "b")
			u.Started["b"] = true
			keeps(u, "max_tx_rate", "trust", "vlan", "mac", "spoofchk", "qos")
		}, "", false},
		{"set for a, which has it by hand: not for b", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "b")
			u.Started["b"] = true
			u.Kept[setting.Of(setting.VFAttr, "ens1", "0", "max_tx_rate")] = "a"
		}, everything, true},
		{"set for a, which has it by hand: kept until a is back", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI] = "a"
			u.Kept[setting.Of(setting.VFAttr, "ens1", "0", "max_tx_rate")] = "a"
		}, "trust=off spoofchk=on mac=00:00:00:00:00:00 vlan=0 qos=0", false},
		{"a guest of a pool", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			runs(h, "b")
			u.Made, u.Started["b"], f.MAC = nil, true, "52:54:00:00:00:02"
			h.Guests[1].Interfaces = []facts.Interface{{MAC: "52:54:00:00:00:02", Type: "network", Source: "pool"}}
			h.Reservations = append(h.Reservations, facts.Reservation{PF: "ens1", Index: -1, Network: "pool",
				Guest: "b", UUID: "ub", Form: facts.ByNetwork})
		}, "trust=off spoofchk=on qos=0 max_tx_rate=0", false},
		{"a guest of a pool ends", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Made, u.Left[f.PCI] = nil, "b"
			h.Reservations = append(h.Reservations, facts.Reservation{PF: "ens1", Index: -1, Network: "pool",
				Guest: "b", UUID: "ub", Form: facts.ByNetwork})
		}, everything, false},
		{"it has its host driver back, with its own address", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], f.Driver, f.NIC, f.MAC = "a", "igbvf", "ens1v0", "ae:00:00:00:00:01"
		}, "trust=off spoofchk=on vlan=0 qos=0 max_tx_rate=0", false},
		{"it has its host driver back, with the address of a", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], f.Driver, f.NIC = "a", "igbvf", "ens1v0"
		}, everything, false},
		{"what the driver does not tell is left", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], f.Untold = "a", []string{"trust", "spoofchk"}
		}, "mac=00:00:00:00:00:00 vlan=0 qos=0 max_tx_rate=0", false},
		{"a card whose source was not read: spoofchk is left", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], h.NICs[0].Driver = "a", "unheard-of"
		}, "trust=off mac=00:00:00:00:00:00 vlan=0 qos=0 max_tx_rate=0", false},

		{"nothing happened", func(*facts.Host, *facts.VF, *Upkeep) {}, "", false},
		{"a ended, and b runs with it by now",
			func(h *facts.Host, f *facts.VF, u *Upkeep) { runs(h, "b"); u.Left[f.PCI] = "a" }, "", false},
		{"another guest started", func(h *facts.Host, f *facts.VF, u *Upkeep) { runs(h, "b"); u.Started["c"] = true },
			"", false},
		{"the host uses it", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], f.HostUse = "a", "port of br0"
		}, "", false},
		{"another process has it", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], f.Holder = "a", "dpdk-testpmd (process 7)"
		}, "", false},
		{"mpps neither made nor gave nor set it", func(h *facts.Host, f *facts.VF, u *Upkeep) {
			u.Left[f.PCI], u.Made = "a", nil
		}, "", false},
	} {
		h, f := kept()
		u := Upkeep{
			Kept: map[setting.Address]string{}, Made: map[string]bool{"ens1": true}, Started: map[string]bool{},
			Left: map[string]string{}, Defined: map[string]bool{"a": true},
		}
		c.set(h, f, &u)
		var due []string
		for _, d := range Keep(h, u) {
			due = append(due, strings.TrimPrefix(d.Address.Rest(), "0/")+"="+d.Value)
			if _, isKept := u.Kept[d.Address]; d.Because == "" || d.ID == "" || isKept && !c.lent {
				t.Errorf("%s: %+v", c.what, d)
			}
		}
		must.Equal(t, strings.Join(due, " "), c.due, "%s: due", c.what)
		if lent := NotForHolder(h, u); (len(lent) > 0) != c.lent || c.lent && len(lent) != len(u.Kept) {
			t.Errorf("%s: lent %v", c.what, lent)
		}
	}
}

// TestKeepSettles: after writing what is due, nothing is due.
func TestKeepSettles(t *testing.T) {
	h, f := kept()
	u := Upkeep{Made: map[string]bool{"ens1": true}, Left: map[string]string{f.PCI: "a"}}
	for _, d := range Keep(h, u) {
		*f = with(*f, Set{strings.TrimPrefix(d.Address.Rest(), "0/"), d.Value})
	}
	if again := Keep(h, u); len(again) > 0 || slices.Contains([]string{"52:54:00:00:00:01"}, f.MAC) {
		t.Errorf("%+v", again)
	}
}

// TestMemoryOfARunWithout: a function that a running guest gave up is not reset again when it ends; one from a
// pool is.
func TestMemoryOfARunWithout(t *testing.T) {
	h, _ := kept()
	m := NewMemory()
	h.Guests[0].State, h.Guests[0].Hostdevs = "running", []string{"0000:41:10.0", "0000:41:10.2"}
	m.Note(h)
	h.Guests[0].State, h.Guests[0].Hostdevs = "shut off", nil
	m.Note(h)
	if left := m.Left([]string{"a"}); len(left) != 2 || left["0000:41:10.2"] != "a" {
		t.Errorf("left at its end: %v", left)
	}
	h.Guests[0].State = "running"
	m.Note(h)
	h.Guests[0].State = "shut off"
	m.Note(h)
	if left := m.Left([]string{"a"}); len(left) != 0 {
		t.Errorf("left by a guest that ran without: %v", left)
	}
}

func TestInHand(t *testing.T) {
	h, f := kept()
	gave := []facts.Reservation{{PF: "ens1", PCI: f.PCI, Guest: "a", UUID: "ua", Form: facts.ByInterface}}
	must.Succeed(t, CheckReturned(h, gave), "a guest that is off")
	h.Guests[0].State, f.Guest = "running", "a"
	must.Succeed(t, CheckReturned(h, gave), "a guest that has it after its next start")
	h.Guests[0].Functions = []string{f.PCI}
	must.Say(t, CheckReturned(h, gave), "guest a runs with ens1/0", "a guest that runs with it")
	gave[0].Guest, gave[0].UUID = "b", "ub"
	must.Succeed(t, CheckReturned(h, gave), "it was given to another")
	gave[0].Leaving = true
	must.Succeed(t, CheckReturned(h, gave), "it was taken back")
}
