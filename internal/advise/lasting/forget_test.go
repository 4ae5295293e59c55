package lasting

import (
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// made are the values by which functions come into being, in an order that would not do.
func made() []plan.Change {
	return []plan.Change{
		change("vf-attr:eth0/3/mac", "00:00:00:00:00:00", "52:54:00:00:00:03"), change("vf-attr:eth0/0/vlan", "0", "7"),
		change("vf-count:eth0", "0", "4"), change("nic-state:eth0", "down", "up"),
		change("sysfs:class/net/eth0/device/sriov_drivers_autoprobe", "1", "0"),
	}
}

// after is a host on which a plan's files stand.
func after(h *facts.Host, p *plan.Plan) *facts.Host {
	for _, c := range p.Changes {
		h.Readings[c.Address] = c.To
	}
	return h
}

// TestFunctionsComeBackInOrder: what must hold before functions are made is put back first, their attributes last.
func TestFunctionsComeBackInOrder(t *testing.T) {
	p := add(t, host(), append(made(), change("nic-ring:eth0/rx", "512", "256"))...)
	values := must.Get(ParseDesired(find(p, "lasting.desired").To.Value))(t)
	order := facts.Map(values, func(v Value) string { return v.Address.String() })
	want := "sysfs:class/net/eth0/device/sriov_drivers_autoprobe nic-state:eth0 vf-count:eth0 vf-attr:eth0/3/mac " +
		"vf-attr:eth0/0/vlan nic-ring:eth0/rx"
	must.Equal(t, strings.Join(order, " "), want, "put back in the order")
	for i, c := range p.Changes[:5] {
		must.Hold(t, strings.Contains(c.Kept, VFsName) && c.Lasts == setting.AcrossReboot,
			"change %d is kept by %q, lasts %s", i, c.Kept, c.Lasts)
	}
	if unit := find(p, "lasting.vfs-service"); unit == nil || unit.To.Value != "idle" ||
		find(p, "lasting.vfs-unit") == nil || find(p, "lasting.service") == nil {
		t.Errorf("services: %+v", unit)
	}
	if p := add(t, host(), change("nic-ring:eth0/rx", "512", "256")); find(p, "lasting.vfs-service") != nil ||
		find(p, "lasting.vfs-unit") != nil {
		t.Error("the service for functions is there without functions")
	}
}

// TestForgotten: what is not to last any more is taken out of the list, with the attributes of functions that go; with
// the last value go the list and both services, and other values stay.
func TestForgotten(t *testing.T) {
	gone := func(c plan.Change) plan.Change { c.Forget = true; return c }
	fewer := add(t, after(host(), add(t, host(), made()...)), change("vf-count:eth0", "4", "2"))
	if text := find(fewer, "lasting.desired").To.Value; strings.Contains(text, "eth0/3/mac") ||
		!strings.Contains(text, "eth0/0/vlan") {
		t.Errorf("with two functions left:\n%s", text)
	}
	forget := []plan.Change{gone(change("vf-count:eth0", "4", "0")), gone(change("nic-state:eth0", "up", "up")),
		gone(change("sysfs:class/net/eth0/device/sriov_drivers_autoprobe", "0", "1"))}
	with := after(host(), add(t, host(), made()...))
	p := add(t, with, forget...)
	for _, a := range []setting.Address{desiredAddress, unitAddress, unitFile, vfsAddress, vfsFile} {
		after(with, p)
		must.Hold(t, with.Readings[a].State == setting.Absent, "%s is left: %s", a, with.Readings[a])
	}
	for _, c := range p.Changes[:3] {
		must.Hold(t, c.Kept == "" && c.Lasts != setting.AcrossReboot,
			"%s is said to last: %s, %s", c.Address, c.Kept, c.Lasts)
	}
	with = after(host(), add(t, host(), append(made(), change("nic-ring:eth0/rx", "512", "256"))...))
	after(with, add(t, with, forget...))
	if text := with.Readings[desiredAddress].Value; strings.Contains(text, "vf-") ||
		!strings.Contains(text, "nic-ring") {
		t.Errorf("with a ring left:\n%s", text)
	}
	must.Hold(t, with.Readings[unitAddress].State == setting.Known && with.Readings[vfsAddress].State == setting.Absent,
		"services: %s, %s", with.Readings[unitAddress], with.Readings[vfsAddress])
}

// TestForgottenComesBack: a rollback brings back what was taken out, also where others have written to the list since.
func TestForgottenComesBack(t *testing.T) {
	h := after(host(), add(t, host(), append(made(), change("nic-ring:eth1/rx", "512", "256"))...))
	before := h.Readings[desiredAddress]
	c := change("vf-count:eth0", "4", "0")
	c.Forget = true
	p := add(t, h, c)
	out := *find(p, "lasting.desired")
	after(h, p)
	must.Need(t, Holds(desiredAddress, out.From, out.To, h.Readings[desiredAddress]),
		"what was taken out is said to be there")
	after(h, add(t, h, change("nic-ring:eth0/rx", "512", "256")))
	if to, done := Undo(desiredAddress, out.From, out.To, h.Readings[desiredAddress]); !done ||
		!strings.Contains(to.Value, "vf-attr:eth0/3/mac") || !strings.Contains(to.Value, "nic-ring") {
		t.Errorf("done %v:\n%s", done, to.Value)
	}
	gone := setting.Missing("removed")
	if to, done := Undo(desiredAddress, out.From, gone, gone); !done || to.Value != before.Value {
		t.Errorf("done %v, was removed and comes back as\n%s\nbefore\n%s", done, to.Value, before.Value)
	}
}

// TestKeptByItself: a change that comes with what keeps it is not put back by a service.
func TestKeptByItself(t *testing.T) {
	c := change("vf-count:eth0", "0", "4")
	c.Kept, c.Lasts = "/etc/systemd/network/70-mpps-eth0.link", setting.AcrossReboot
	if p := add(t, host(), c); len(p.Changes) != 1 || p.Changes[0].Kept != c.Kept {
		t.Errorf("%+v", p.Changes)
	}
}

// TestGivenNeedsTheService: a function that is given to a guest is reset when the guest leaves it, also where nothing
// of it is kept; the service is there as long as one is given.
func TestGivenNeedsTheService(t *testing.T) {
	of := func(pci string) facts.Reservation {
		return facts.Reservation{PF: "eth0", PCI: pci, Guest: "vm1", Form: facts.ByInterface}
	}
	give := func(r facts.Reservation) plan.Change {
		return plan.Change{ID: "test", Address: r.Address(), From: setting.Missing("none"), To: setting.Value("{}"),
			Want: setting.Exact("{}"), Risk: goal.None, Stage: 1}
	}
	take := func(r facts.Reservation) plan.Change {
		return plan.Change{ID: "test", Address: r.Address(), From: setting.Value("{}"), To: setting.Missing("removed"),
			Want: setting.NotThere(), Risk: goal.None, Stage: 1}
	}
	one, two := of("0000:01:10.0"), of("0000:01:10.2")
	h := host()
	after(h, add(t, h, give(one)))
	h.Reservations = []facts.Reservation{one}
	must.Need(t, h.Readings[unitAddress].State == setting.Known && h.Readings[desiredAddress].State == setting.Absent,
		"given: service %s, list %s", h.Readings[unitAddress], h.Readings[desiredAddress])
	must.Hold(t, Needed(unitAddress, []setting.Address{one.Address()}) &&
		!Needed(vfsAddress, []setting.Address{one.Address()}), "which service a gift needs")
	after(h, add(t, h, give(two), change("vf-attr:eth0/1/trust", "off", "on")))
	h.Reservations = []facts.Reservation{one, two}
	forgotten := change("vf-attr:eth0/1/trust", "on", "off")
	forgotten.Forget = true
	after(h, add(t, h, take(two), forgotten))
	h.Reservations = []facts.Reservation{one}
	must.Hold(t, h.Readings[unitAddress].State == setting.Known && h.Readings[desiredAddress].State == setting.Absent &&
		h.Readings[vfsAddress].State == setting.Absent,
		"one is left: service %s, list %s", h.Readings[unitAddress], h.Readings[desiredAddress])
	after(h, add(t, h, take(one)))
	must.Hold(t, h.Readings[unitAddress].State == setting.Absent && h.Readings[unitFile].State == setting.Absent,
		"none is left: service %s, unit %s", h.Readings[unitAddress], h.Readings[unitFile])
}

// TestKeptOnce: an attribute that is set again is kept once, for the guest that has the function now.
func TestKeptOnce(t *testing.T) {
	h := host()
	c := change("vf-attr:eth0/1/max_tx_rate", "0", "100")
	c.For = "vm1"
	after(h, add(t, h, c))
	c.From, c.To, c.Want, c.For = setting.Value("100"), setting.Value("200"), setting.Exact("200"), "vm2"
	after(h, add(t, h, c, change("vf-attr:eth0/1/trust", "off", "on")))
	values, err := ParseDesired(h.Readings[desiredAddress].Value)
	must.Hold(t, err == nil && len(values) == 2 && values[0].To.Value == "200" && values[0].For == "vm2" &&
		values[1].For == "", "%+v, %v", values, err)
}
