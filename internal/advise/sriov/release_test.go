package sriov

import (
	"errors"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestRelease checks the changes in order: guests that are off, running or gone; functions assigned by
// mpps or by hand, directly or from a pool.
func TestRelease(t *testing.T) {
	theirs := []facts.Reservation{{PF: "ens1f0", Index: 1, PCI: "0000:01:10.2", Guest: "fw1", UUID: "u1",
		Form: facts.ByInterface, MAC: "52:54:00:00:00:01"}}
	for name, c := range map[string]struct {
		back  Return
		alter func(h *facts.Host)
		want  string
		left  string
	}{
		"off": {Return{Guest: "fw1"}, func(h *facts.Host) { h.Reservations = theirs; stop(h, 0) }, `
domain:fw1/interface/52:54:00:00:00:01 = gone
vf-attr:ens1f0/1/trust = off forgotten
vf-attr:ens1f0/1/spoofchk = on forgotten
vf-attr:ens1f0/1/mac = 00:00:00:00:00:00 forgotten
vf-attr:ens1f0/1/vlan = 0 forgotten
vf-attr:ens1f0/1/qos = 0 forgotten
vf-attr:ens1f0/1/max_tx_rate = 0 forgotten
vf-attr:ens1f0/1/min_tx_rate = 0 forgotten
vf-attr:ens1f0/1/link_state = auto forgotten
file:var/lib/mpps/vfs/0000:01:10.2.json = gone`, ""},
		"runs": {Return{Guest: "fw1"}, func(h *facts.Host) { h.Reservations = theirs }, `
domain:fw1/interface/52:54:00:00:00:01 = gone after restart of guest fw1
vf-attr:ens1f0/1/trust = off forgotten
vf-attr:ens1f0/1/spoofchk = on forgotten
vf-attr:ens1f0/1/mac = 52:54:00:00:00:01 forgotten
vf-attr:ens1f0/1/vlan = 7 forgotten
vf-attr:ens1f0/1/qos = 0 forgotten
vf-attr:ens1f0/1/max_tx_rate = 0 forgotten
vf-attr:ens1f0/1/min_tx_rate = 0 forgotten
vf-attr:ens1f0/1/link_state = auto forgotten
file:var/lib/mpps/vfs/0000:01:10.2.json = (reserved)`, "guest fw1 runs with ens1f0/1"},
		"runs, live": {Return{VF: "ens1f0/1", Live: true}, nil, `
domain-device:fw1/interface/52:54:00:00:00:01 = gone
domain:fw1/interface/52:54:00:00:00:01 = gone
vf-attr:ens1f0/1/trust = off forgotten
vf-attr:ens1f0/1/spoofchk = on forgotten
vf-attr:ens1f0/1/mac = 00:00:00:00:00:00 forgotten
vf-attr:ens1f0/1/vlan = 0 forgotten
vf-attr:ens1f0/1/qos = 0 forgotten
vf-attr:ens1f0/1/max_tx_rate = 0 forgotten
vf-attr:ens1f0/1/min_tx_rate = 0 forgotten
vf-attr:ens1f0/1/link_state = auto forgotten`, ""},
		"a plain device": {Return{Guest: "db1", VF: "2"}, func(h *facts.Host) { stop(h, 1) }, `
domain:db1/hostdev/0000:01:10.4 = gone
vf-attr:ens1f0/2/trust = off forgotten
vf-attr:ens1f0/2/spoofchk = on forgotten
vf-attr:ens1f0/2/mac = 00:00:00:00:00:00 forgotten
vf-attr:ens1f0/2/vlan = 0 forgotten
vf-attr:ens1f0/2/qos = 0 forgotten
vf-attr:ens1f0/2/max_tx_rate = 0 forgotten
vf-attr:ens1f0/2/min_tx_rate = 0 forgotten
vf-attr:ens1f0/2/link_state = auto forgotten`, ""},
		"the guest is gone": {Return{VF: "0000:02:02.1"}, func(h *facts.Host) {
			h.Reservations = reserved("0000:02:02.1", "old")
			h.Reservations[0].Index = 1
		}, `
vf-attr:ens2/1/trust = off forgotten
vf-attr:ens2/1/spoofchk = on forgotten
vf-attr:ens2/1/mac = 00:00:00:00:00:00 forgotten
vf-attr:ens2/1/vlan = 0 forgotten
vf-attr:ens2/1/qos = 0 forgotten
vf-attr:ens2/1/max_tx_rate = 0 forgotten
vf-attr:ens2/1/min_tx_rate = 0 forgotten
vf-attr:ens2/1/link_state = auto forgotten
file:var/lib/mpps/vfs/0000:02:02.1.json = gone`, ""},
		"the guest and the function are gone": {Return{Guest: "old"},
			func(h *facts.Host) { h.Reservations = reserved("0000:02:02.7", "old") }, `
file:var/lib/mpps/vfs/0000:02:02.7.json = gone`, ""},
		"renamed": {Return{Guest: "fw1"}, func(h *facts.Host) {
			h.Reservations = theirs
			stop(h, 0)
			h.Reservations[0].Guest = "before"
			h.VFs = h.VFs[:0]
			h.Guests[0].Interfaces, h.Guests[0].Hostdevs = nil, nil
		}, `
file:var/lib/mpps/vfs/0000:01:10.2.json = gone`, ""},
		"of a pool": {Return{Guest: "vm2"}, func(h *facts.Host) {
			poolOf(h, "vm2", "vm3")
			for _, name := range []string{"vm2", "vm3"} {
				g := guestNamed(h, name)
				h.Reservations = append(h.Reservations, facts.Reservation{PF: "ens2", Index: -1, Network: "fast",
					Guest: name, UUID: g.UUID, Form: facts.ByNetwork, MAC: g.Interfaces[0].MAC})
			}
		}, `
domain:vm2/interface/52:54:00:00:01:00 = gone
file:var/lib/mpps/vfs/network-fast.json = (reserved)`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := depot()
			theirs[0].Guest = "fw1"
			guestNamed(h, "db1").Definition = plainDevice
			if c.alter != nil {
				c.alter(h)
			}
			b := must.Get(ChooseReturn(h, c.back))(t)
			for _, a := range b.Addresses() {
				if a.Kind == setting.File {
					h.Readings[a] = setting.Value("{}")
				}
			}
			absent(h, b.Addresses())
			changes := must.Get(b.Changes(h, none))(t)
			if found := listed(changes); found != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("found:\n%s\nexpected:%s", found, c.want)
			}
			if left := strings.Join(b.Later(true), " "); c.left == "" && left != "" || !strings.Contains(left, c.left) {
				t.Errorf("left: %s", left)
			}
		})
	}
}

const plainDevice = `<domain type='kvm'><name>db1</name><devices><hostdev mode='subsystem' type='pci' managed='yes'><source>` +
	`<address domain='0x0000' bus='0x01' slot='0x10' function='0x4'/></source></hostdev></devices></domain>`

func stop(h *facts.Host, guest int) {
	g := &h.Guests[guest]
	g.State, g.Functions = "shut off", nil
}

func TestReleaseRefused(t *testing.T) {
	for name, c := range map[string]struct {
		back    Return
		alter   func(h *facts.Host)
		because string
	}{
		"nobody":    {Return{Guest: "vm9"}, nil, "no guest vm9"},
		"nothing":   {Return{Guest: "vm1"}, nil, "guest vm1 has no virtual function"},
		"nobody's":  {Return{VF: "ens1f0/0"}, nil, "ens1f0/0 is nobody's"},
		"another's": {Return{Guest: "vm1", VF: "ens1f0/1"}, nil, "guest vm1 does not have ens1f0/1"},
		"not that address": {Return{Guest: "fw1", MAC: "52:54:00:00:00:09"}, nil, "no virtual function with address " +
			"52:54:00:00:00:09"},
		"several": {Return{Guest: "fw1"},
			func(h *facts.Host) { h.Guests[0].Hostdevs = append(h.Guests[0].Hostdevs, "0000:01:10.4") },
			"2 virtual functions are meant"},
		"no such function": {Return{VF: "ens1f0/8"}, nil, "no virtual function 8"},
		"a number alone":   {Return{Guest: "fw1", VF: "3"}, nil, "of which card is not said"},
		"busy": {Return{Guest: "fw1"}, func(h *facts.Host) { h.Guests[0].Job = "save" },
			"libvirt is busy with guest fw1: save"},
		"only plugged in": {Return{Guest: "fw1"}, func(h *facts.Host) {
			h.Guests[0].Plugged, h.Guests[0].Interfaces = h.Guests[0].Interfaces[:1], nil
		}, "its definition does not have it"},
		"of several guests": {Return{VF: "ens1f0/1"},
			func(h *facts.Host) { h.Guests[2].Hostdevs = []string{"0000:01:10.2"} }, "2 virtual functions are meant: " +
				"ens1f0/1 (0000:01:10.2) of fw1, ens1f0/1 (0000:01:10.2) of vm1"},
	} {
		t.Run(name, func(t *testing.T) {
			h := depot()
			if c.alter != nil {
				c.alter(h)
			}
			b, err := ChooseReturn(h, c.back)
			var no *Refused
			must.Hold(t, errors.As(err, &no) && strings.Contains(no.Why, c.because) && no.Advice != "",
				"%+v, %v", b, err)
		})
	}
}

// TestLeaving: a function released by a running guest is free once the guest has ended: it
// is reset and assigned again without a trace of that guest.
func TestLeaving(t *testing.T) {
	h := depot()
	gone := facts.Reservation{PF: "ens2", Index: 1, PCI: "0000:02:02.1", Guest: "vm2", UUID: "uuid-of-vm2",
		Form: facts.ByHostdev, MAC: "52:54:00:00:00:55", Leaving: true}
	h.Leaving = []facts.Reservation{gone}
	h.VFs[5].MAC, h.VFs[5].VLAN = gone.MAC, 9
	readAll(h, &h.VFs[5])
	due := Keep(h, Upkeep{Left: map[string]string{gone.PCI: "vm2"}})
	set := facts.Map(due, func(d Due) string { return d.Address.String() + " = " + d.Value })
	must.Equal(t, strings.Join(set, ", "),
		"vf-attr:ens2/1/mac = 00:00:00:00:00:00, vf-attr:ens2/1/vlan = 0, "+"vf-attr:ens2/1/max_tx_rate = 0", "due")
	g := must.Get(Choose(h, Request{Guest: "vm1", VF: "ens2/1", Form: facts.ByInterface}))(t)
	absent(h, g.Addresses())
	h.Readings[gone.Address()] = setting.Value(facts.ReservationText(h.Leaving))
	changes := must.Get(g.Changes(h, none))(t)
	if given, err := facts.ParseReservations(gone.Address(), changes[0].To.Value); err != nil || len(given) != 1 ||
		given[0].Guest != "vm1" {
		t.Errorf("%v %+v", err, given)
	}
}

// TestKeptForAll: attributes kept for whoever has a function are not reset when it is assigned or
// released.
func TestKeptForAll(t *testing.T) {
	h := depot()
	rate := attribute(&h.VFs[5], "max_tx_rate")
	kept := func(at setting.Address) bool { return at == rate }
	g := must.Get(Choose(h, Request{Guest: "vm1", VF: "ens2/1", Form: facts.ByInterface}))(t)
	absent(h, g.Addresses())
	changes, err := g.Changes(h, kept)
	if err != nil || strings.Contains(listed(changes), "max_tx_rate") {
		t.Errorf("given: %v\n%s", err, listed(changes))
	}
	h.Reservations = []facts.Reservation{g.reservation()}
	h.Readings[g.reservation().Address()] = setting.Value(facts.ReservationText(h.Reservations))
	b := must.Get(ChooseReturn(h, Return{Guest: "vm1"}))(t)
	if changes, err = b.Changes(h, kept); err != nil || strings.Contains(listed(changes), "max_tx_rate") ||
		!strings.Contains(listed(changes), "min_tx_rate") {
		t.Errorf("taken back: %v\n%s", err, listed(changes))
	}
}
