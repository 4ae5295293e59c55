package sriov

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// cardHost is a host with one card that has four of seven functions.
func cardHost() *facts.Host {
	h := &facts.Host{Readings: facts.Readings{}, NICs: []facts.NIC{
		{Name: "eth0", Driver: "igb", PCI: "0000:01:00.0", Up: true, SRIOV: &facts.SRIOV{Total: 8, Enabled: 4,
			AutoProbe: true}},
		{Name: "eth1", Driver: "virtio_net"},
		{Name: "eth0v1", Driver: "igbvf", PhysFn: "eth0"},
	}}
	for i := range 4 {
		h.VFs = append(h.VFs, facts.VF{PF: "eth0", Index: i, PCI: fmt.Sprintf("0000:01:10.%d", i),
			NIC: fmt.Sprintf("eth0v%d", i)})
	}
	for _, a := range CreateReads(h, "eth0") {
		h.Readings[a] = setting.Missing("there is none")
	}
	h.Readings[setting.AutoProbe("eth0")] = setting.Value("1")
	h.Readings[setting.Of(setting.NICState, "eth0")] = setting.Value("up")
	h.Readings[setting.Of(setting.VFCount, "eth0")] = setting.Value("4")
	return h
}

func wishes(changes []plan.Change) string {
	var all []string
	for _, c := range changes {
		text := c.Address.String() + "=" + c.Address.Brief(c.To)
		if c.Forget {
			text += " forgotten"
		}
		all = append(all, text)
	}
	return strings.Join(all, "\n")
}

func TestCreateInOrder(t *testing.T) {
	h := cardHost()
	h.NICs[0].Up = false
	h.Readings[setting.Of(setting.NICState, "eth0")] = setting.Value("down")
	changes, _, err := Create(h, CreateRequest{PF: "eth0", Count: 7, NoHostDriver: true, Persist: ByUnit})
	must.Do(t, err)
	if got, want := wishes(changes),
		"sysfs:class/net/eth0/device/sriov_drivers_autoprobe=0\nnic-state:eth0=up\nvf-count:eth0=7"; got != want {
		t.Errorf("planned\n%s\nexpected\n%s", got, want)
	}
	changes, _, err = Create(h, CreateRequest{PF: "eth0", Count: 7, LeaveDown: true, Persist: ByNoOne})
	if err != nil || wishes(changes) != "vf-count:eth0=7 forgotten" {
		t.Errorf("%v\n%s", err, wishes(changes))
	}
	h.NICs[0].Driver = "mlx5_core" // whose functions do not need it
	if changes, _, err = Create(h, CreateRequest{PF: "eth0", Count: 7, Persist: ByUnit}); err != nil ||
		wishes(changes) != "vf-count:eth0=7" {
		t.Errorf("%v\n%s", err, wishes(changes))
	}
}

// TestCreateRefuses: impossible requests and functions in use are refused.
func TestCreateRefuses(t *testing.T) {
	running := func(h *facts.Host) {
		h.Guests = []facts.Guest{{Name: "fw1", State: "paused", Hostdevs: []string{"0000:01:10.2"}}}
	}
	reserved := func(h *facts.Host) {
		h.Reservations = []facts.Reservation{{PF: "eth0", Index: 3, PCI: "0000:01:10.3", Guest: "fw2"}}
	}
	for name, c := range map[string]struct {
		host    func(*facts.Host)
		ask     CreateRequest
		because string
	}{
		"no such NIC":        {nil, CreateRequest{PF: "eth7", Count: 1}, "there is no NIC eth7"},
		"a virtual function": {nil, CreateRequest{PF: "eth0v1", Count: 1}, "eth0v1 is a virtual function of eth0"},
		"no SR-IOV":          {nil, CreateRequest{PF: "eth1", Count: 1}, "eth1 has no virtual functions to offer"},
		"more than the driver has": {nil, CreateRequest{PF: "eth0", Count: 8},
			"expected 1 to 7 virtual functions (igb " + "makes at most 7), found 8"},
		"none": {nil, CreateRequest{PF: "eth0"}, "found 0"},
		"a running guest": {running, CreateRequest{PF: "eth0", Count: 5, Force: true}, "function 2 (0000:01:10.2) by " +
			"guest fw1"}, "given by mpps": {reserved, CreateRequest{PF: "eth0", Count: 3},
			"function 3 (0000:01:10.3) is given to guest fw2"},
		"a bridge": {func(h *facts.Host) { h.VFs[1].HostUse = "port of br0" },
			CreateRequest{PF: "eth0", Count: 5, Force: true},
			"function 1 (0000:01:10.1) by the host: its interface eth0v1 is port of br0"},
		"a process": {func(h *facts.Host) { h.VFs[1].Holder = "dpdk-testpmd (process 78)" },
			CreateRequest{PF: "eth0", Count: 5, Force: true}, "function 1 (0000:01:10.1) by dpdk-testpmd (process 78)"},
		"an address": {func(h *facts.Host) { h.VFs[1].HostUse, h.VFs[1].OnlyAddress = "has address 10.0.0.7", true },
			CreateRequest{PF: "eth0", Count: 5}, "its interface eth0v1 has address 10.0.0.7"},
		"one driver for both": {func(h *facts.Host) { h.NICs[0].Driver = "mlx5_core" },
			CreateRequest{PF: "eth0", Count: 5, Blacklist: true},
			"mlx5_core drives physical and virtual functions alike"},
		"somebody else's blacklist": {func(h *facts.Host) {
			h.Readings[BlacklistFile("igbvf")] = setting.Value("blacklist igbvf\n")
		},
			CreateRequest{PF: "eth0", Count: 5, Blacklist: true}, "was not written by mpps"},
		"udev before us": {nil, CreateRequest{PF: "eth0", Count: 5, NoHostDriver: true, Persist: ByLink},
			"before anything keeps drivers"},
		"old systemd": {nil, CreateRequest{PF: "eth0", Count: 5, Persist: ByLink, Link: LinkFile{Systemd: 249}},
			"systemd 249: .link files make virtual functions from version 251 on"},
		"another .link": {nil, CreateRequest{PF: "eth0", Count: 5, Persist: ByLink,
			Link: LinkFile{Systemd: 257, Path: "pci-0000:01:00.0", File: "/etc/systemd/network/10-lan.link"}},
			"eth0 is set up by /etc/systemd/network/10-lan.link"}, "an old kernel": {func(h *facts.Host) {
			h.Readings[setting.AutoProbe("eth0")] = setting.Missing("there is none")
		},
			CreateRequest{PF: "eth0", Count: 5, NoHostDriver: true}, "no sriov_drivers_autoprobe"},
		"not readable": {func(h *facts.Host) {
			h.Readings[setting.Of(setting.VFCount, "eth0")] = setting.CouldNotTell("broken")
		}, CreateRequest{PF: "eth0", Count: 5}, "broken"},
	} {
		h := cardHost()
		if c.host != nil {
			c.host(h)
		}
		changes, _, err := Create(h, c.ask)
		var refused *Refused
		must.Hold(t, errors.As(err, &refused) && strings.Contains(err.Error(), c.because) && len(changes) <= 0,
			"%s: %v, expected %q", name, err, c.because)
	}
	h := cardHost()
	running(h)
	reserved(h)
	if _, _, err := Create(h, CreateRequest{PF: "eth0", Count: 4}); err != nil {
		t.Errorf("the number that there is: %v", err)
	}
	h = cardHost()
	reserved(h)
	if changes, _, err := Create(h, CreateRequest{PF: "eth0", Count: 6}); err != nil || len(changes) != 2 {
		t.Errorf("what is given is there again: %v\n%s", err, wishes(changes))
	}
	h.Readings[h.Reservations[0].Address()] = setting.Value("{}")
	changes, _, err := Destroy(h, "eth0", true)
	if err != nil || !strings.Contains(wishes(changes), "file:var/lib/mpps/vfs/0000:01:10.3.json=absent") {
		t.Errorf("with force: %v\n%s", err, wishes(changes))
	}
	// The reservation of a guest that has left does not block the change, and is removed with the function.
	h.Reservations, h.Leaving = nil, h.Reservations
	h.Leaving[0].Leaving = true
	changes, _, err = Destroy(h, "eth0", false)
	if err != nil || !strings.Contains(wishes(changes), "file:var/lib/mpps/vfs/0000:01:10.3.json=absent") {
		t.Errorf("left by its guest: %v\n%s", err, wishes(changes))
	}
}

func TestCreateNotes(t *testing.T) {
	h := cardHost()
	h.Guests = []facts.Guest{{Name: "off", State: "shut off", Hostdevs: []string{"0000:01:10.0", "0000:01:10.3"}}}
	h.Pools = []facts.Pool{{Network: "fast", PF: "eth0", Active: true}}
	_, notes, err := Create(h, CreateRequest{PF: "eth0", Count: 2})
	must.Hold(t, err == nil && len(notes) == 2 &&
		strings.Contains(notes[0].Text, "guest off is defined with function 3") &&
		strings.Contains(notes[1].Text, "network fast"), "%v: %+v", err, notes)
	h.Housekeeping = &facts.Housekeeping{VFFiles: []facts.VFFile{{Path: "/etc/rc.local", Device: "eth0"},
		{Path: "/var/lib/mpps/desired.json", Device: "eth0"}}}
	if _, notes, _ = Create(h, CreateRequest{PF: "eth0", Count: 2}); len(notes) != 3 ||
		!strings.Contains(notes[2].Text, "/etc/rc.local") {
		t.Errorf("made by somebody else too: %+v", notes)
	}
	h.Housekeeping = nil
	if _, notes, _ = Create(h, CreateRequest{PF: "eth0", Count: 7}); len(notes) != 1 {
		t.Errorf("where all functions are there again: %+v", notes)
	}
}

// TestCreateOnTheWayIn: a change that resets the NIC of the user's session has the risk connectivity.
func TestCreateOnTheWayIn(t *testing.T) {
	for management, want := range map[string]goal.Risk{"": goal.Blip, "default route": goal.Connectivity} {
		h := cardHost()
		h.NICs[0].Management = management
		changes, _, err := Create(h, CreateRequest{PF: "eth0", Count: 2, LeaveDown: true})
		gone, _, errGone := Destroy(h, "eth0", false)
		must.Hold(t, err == nil && errGone == nil && changes[0].Risk == want && gone[0].Risk == want,
			"%q: %v, %v, risk %s", management, err, errGone, changes[0].Risk)
	}
}

func TestDestroy(t *testing.T) {
	h := cardHost()
	h.Readings[setting.AutoProbe("eth0")] = setting.Value("0")
	h.Readings[BlacklistFile("igbvf")] = setting.Value("# Written by mpps: …\nblacklist igbvf\n")
	h.Readings[linkFile("eth0")] = setting.Value("# Written by mpps: …\n[Match]\n")
	changes, _, err := Destroy(h, "eth0", false)
	want := "vf-count:eth0=0 forgotten\nsysfs:class/net/eth0/device/sriov_drivers_autoprobe=1 forgotten\n" +
		"file:etc/systemd/network/70-mpps-eth0.link=absent\nfile:etc/modprobe.d/90-mpps-vf-igbvf.conf=absent"
	if err != nil || wishes(changes) != want {
		t.Errorf("%v: planned\n%s\nexpected\n%s", err, wishes(changes), want)
	}
	h.NICs = append(h.NICs, facts.NIC{Name: "eth2", Driver: "igb", SRIOV: &facts.SRIOV{Total: 8, Enabled: 1}})
	if changes, _, err = Destroy(h, "eth0", false); err != nil || strings.Contains(wishes(changes), "modprobe.d") {
		t.Errorf("%v: the driver's blacklist goes though another card has functions of it:\n%s", err, wishes(changes))
	}
}

// TestLinkText: the file repeats the active one, and another number later changes nothing else.
func TestLinkText(t *testing.T) {
	h := cardHost()
	const inForce = "#  SPDX\n[Match]\nOriginalName=*\n\n[Link]\n# names\nNamePolicy=keep " +
		"kernel\nMACAddressPolicy=persistent\n"
	ask := CreateRequest{PF: "eth0", Count: 4, Persist: ByLink, Link: LinkFile{Systemd: 257, Path: "pci-0000:01:00.0",
		File: "/usr/lib/systemd/network/99-default.link", Text: inForce}}
	changes, _, err := Create(h, ask)
	if err != nil || len(changes) != 4 {
		t.Fatal(err, wishes(changes))
	}
	file, count := changes[1], changes[3]
	if !strings.HasSuffix(file.To.Value, "\n[Match]\nPath=pci-0000:01:00.0\n\n[Link]\nNamePolicy=keep "+
		"kernel\nMACAddressPolicy=persistent\nSR-IOVVirtualFunctions=4\n") {
		t.Error(file.To.Value)
	}
	must.Hold(t, count.Kept == "/etc/systemd/network/70-mpps-eth0.link" && count.Lasts == setting.AcrossReboot,
		"kept by %q, lasts %s", count.Kept, count.Lasts)
	h.Readings[linkFile("eth0")] = file.To
	ask.Count, ask.Link = 6, LinkFile{Systemd: 257}
	changes, _, err = Create(h, ask)
	if err != nil || changes[1].To.Value != strings.Replace(file.To.Value, "=4\n", "=6\n", 1) {
		t.Errorf("%v\n%s", err, wishes(changes))
	}
	// The service instead.
	if changes, _, err = Create(h, CreateRequest{PF: "eth0", Count: 6}); err != nil ||
		wishes(changes) != "file:etc/systemd/network/70-mpps-eth0.link=absent\nnic-state:eth0=up\nvf-count:eth0=6" {
		t.Errorf("%v\n%s", err, wishes(changes))
	}
}
