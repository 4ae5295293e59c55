package sriov

import (
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestReset: a function gets the attributes of a new one, none stays kept, and a function in use is refused.
func TestReset(t *testing.T) {
	for _, c := range []struct {
		what    string
		set     func(h *facts.Host, f *facts.VF)
		kept    string // attributes that mpps keeps
		planned string
		because string
	}{
		{"everything was set by hand", func(*facts.Host, *facts.VF) {}, "", everything, ""},
		{"everything was set by mpps", func(*facts.Host, *facts.VF) {}, "trust spoofchk mac vlan qos max_tx_rate",
			everything, ""},
		{"what is kept and is as a new one has it is forgotten", func(_ *facts.Host, f *facts.VF) {
			f.Trust, f.VLAN = false, 0
		}, "trust vlan",
			"trust=off spoofchk=on mac=00:00:00:00:00:00 vlan=0 qos=0 max_tx_rate=0", ""},
		{"nothing is to be done", func(_ *facts.Host, f *facts.VF) {
			*f = facts.VF{PF: f.PF, PCI: f.PCI, MAC: facts.NoMAC, SpoofCheck: true, LinkState: "auto"}
		}, "", "", ""},
		{"its driver on the host has chosen the address", func(_ *facts.Host, f *facts.VF) {
			f.Driver, f.NIC, f.MAC = "igbvf", "ens1v0", "ae:00:00:00:00:01"
		}, "",
			"trust=off spoofchk=on vlan=0 qos=0 max_tx_rate=0", ""},
		{"its driver on the host has found the guest's address", func(_ *facts.Host, f *facts.VF) {
			f.Driver, f.NIC = "igbvf", "ens1v0"
		}, "", everything, ""},
		{"its driver on the host has the address that mpps keeps", func(_ *facts.Host, f *facts.VF) {
			f.Driver, f.NIC, f.MAC = "igbvf", "ens1v0", "ae:00:00:00:00:01"
		}, "mac", everything, ""},
		{"a card whose source was not read", func(h *facts.Host, f *facts.VF) { h.NICs[0].Driver = "unheard-of" },
			"spoofchk", "trust=off spoofchk=off mac=00:00:00:00:00:00 vlan=0 qos=0 max_tx_rate=0", ""},

		{"a guest runs with it", func(h *facts.Host, f *facts.VF) { h.Guests[1].State, f.Guest = "running", "b" }, "",
			"", "guest b runs with it|shut the guest down"},
		{"another process has it", func(_ *facts.Host, f *facts.VF) { f.Holder = "dpdk-testpmd (process 7)" }, "", "",
			"dpdk-testpmd (process 7) has it open"},
		{"the host uses it", func(_ *facts.Host, f *facts.VF) { f.NIC, f.HostUse = "ens1v0", "port of br0" }, "", "",
			"ens1v0 (port of br0)"},
		{"the link is down", func(h *facts.Host, _ *facts.VF) { h.NICs[0].Carrier = "down" }, "", "",
			"max_tx_rate of ens1/0: igb sets rates only while its link is up|plug the cable in"},
	} {
		h, f := kept()
		c.set(h, f)
		readAll(h, f)
		keeps := func(a setting.Address) bool {
			return strings.Contains(" "+c.kept+" ", " "+strings.TrimPrefix(a.Rest(), "0/")+" ")
		}
		changes, err := PlanReset(h, []*facts.VF{f}, keeps)
		if c.because != "" {
			refusedWith(t, c.what, err, c.because)
			continue
		}
		var planned []string
		for _, change := range changes {
			planned = append(planned, strings.TrimPrefix(change.Address.Rest(), "0/")+"="+change.To.Value)
			must.Hold(t, change.Forget, "%s: %s would be kept", c.what, change.Address)
		}
		if got := strings.Join(planned, " "); err != nil || got != c.planned {
			t.Errorf("%s: planned %q, %v, expected %q", c.what, got, err, c.planned)
		}
	}
}

// TestResetOf: the functions that a request selects.
func TestResetOf(t *testing.T) {
	h := cards()
	h.Reservations = []facts.Reservation{{PF: "ens1f0", PCI: "0000:01:10.0", Guest: "new", Form: facts.ByHostdev}}
	for _, c := range []struct {
		of      func() ([]*facts.VF, error)
		names   string
		because string
	}{
		{func() ([]*facts.VF, error) { return OfGuest(h, "fw1") }, "ens1f0/1", ""},
		{func() ([]*facts.VF, error) { return OfGuest(h, "nobody") }, "", "no guest nobody"},
		{func() ([]*facts.VF, error) { return FreeOf(h, "ens1f0") }, "ens1f0/3", ""},
		{func() ([]*facts.VF, error) { return FreeOf(h, "ens2") }, "ens2/0, ens2/1", ""},
		{func() ([]*facts.VF, error) { return FreeOf(h, "eth0") }, "", "eth0 has no virtual functions"},
		{func() ([]*facts.VF, error) { h.VFs[3].HostUse = "port of br0"; return FreeOf(h, "ens1f0") }, "",
			"none of the 4"},
	} {
		found, err := c.of()
		if c.because != "" {
			refusedWith(t, c.because, err, c.because)
		} else if err != nil || names(found) != c.names {
			t.Errorf("%s, %v; expected %s", names(found), err, c.names)
		}
	}
}

// names joins the names of functions: "ens1/0, ens1/3".
func names(functions []*facts.VF) string { return strings.Join(facts.Map(functions, nameOf), ", ") }
