package acceptance

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// making returns inputs that have guests made, and what NeedMadeGuests sees with them.
func making(change func(*Inputs), spoil func(*Seen)) []Check {
	in := inputs(func(in *Inputs) {
		in.MakeGuests, in.Via, in.GuestAddress, in.SecretFile, in.From = true, "br0", "192.0.2.10/24", "/secret", "eth1"
	})
	if change != nil {
		change(&in)
	}
	s := set()
	s.Host.Topology.Nodes = []facts.Node{{Available: 1 << 30}, {Available: 2 << 30}}
	s.Making = &Making{Modules: map[string]error{}}
	in = modes.Settle(in, s.Host)
	if spoil != nil {
		spoil(&s)
	}
	return modes.Look(in, s)
}

// TestMadeGuests: a guest is made for each mode that nobody named, with addresses in a row, and its mode is measured.
func TestMadeGuests(t *testing.T) {
	for name, c := range map[string]struct {
		named []string
		want  []string
	}{
		"all": {nil, []string{"e1000=192.0.2.10:7878,from=eth1", "virtio=192.0.2.11:7878,from=eth1",
			"vhost=192.0.2.12:7878,from=eth1"}},
		"one of his own": {[]string{"virtio=192.0.2.77:7878"}, []string{"e1000=192.0.2.10:7878,from=eth1",
			"vhost=192.0.2.11:7878,from=eth1"}},
		"a longer name": {[]string{"vhost-mq=192.0.2.77:7878", "e1000e=192.0.2.78:7878"}, []string{
			"e1000=192.0.2.10:7878,from=eth1", "virtio=192.0.2.11:7878,from=eth1", "vhost=192.0.2.12:7878,from=eth1"}},
	} {
		in := inputs(func(in *Inputs) {
			in.MakeGuests, in.GuestAddress, in.From = true, "192.0.2.10/24", "eth1"
			in.Modes = append(in.Modes, c.named...)
		})
		named := slices.Clone(in.Modes)
		own := modes.Settle(in, set().Host)
		if want := append(named, c.want...); !slices.Equal(own.Modes, want) || len(own.Made) != len(c.want) {
			t.Errorf("%s: modes %q, expected %q; guests %+v", name, own.Modes, want, own.Made)
		}
		if again := modes.Settle(own, set().Host); !slices.Equal(again.Modes, own.Modes) {
			t.Errorf("%s: a second time %q", name, again.Modes)
		}
		if others := throughput.Settle(in, set().Host); len(others.Made) > 0 || modes.MakesGuests(in) ==
			throughput.MakesGuests(in) {
			t.Errorf("%s: throughput makes %+v", name, others.Made)
		}
		// Before they are made nobody can answer there. All others must.
		if len(own.MadeAgents()) != len(c.want) || len(own.Agents()) != len(in.Agents()) {
			t.Errorf("%s: agents %+v, of guests to make %+v", name, own.Agents(), own.MadeAgents())
		}
		for _, g := range own.Made {
			if model, _, module := g.NIC(); model == "" || module == "" || !strings.HasPrefix(g.Name, "mpps-") {
				t.Errorf("%s: %+v has NIC %q, module %q", name, g, model, module)
			}
		}
	}
}

func TestNeedMadeGuests(t *testing.T) {
	broken := errors.New("not there")
	for name, c := range map[string]struct {
		change func(*Inputs)
		spoil  func(*Seen)
		code   string // what is missing; empty: nothing
	}{
		"all there":         {nil, nil, ""},
		"no bridge":         {func(in *Inputs) { in.Via = "" }, nil, "bridge"},
		"no such bridge":    {nil, func(s *Seen) { s.Links["br0"] = broken }, "link"},
		"no address":        {func(in *Inputs) { in.GuestAddress = "" }, nil, "guest-address"},
		"too few addresses": {func(in *Inputs) { in.GuestAddress = "192.0.2.253/24" }, nil, "guest-address"},
		"just enough":       {func(in *Inputs) { in.GuestAddress = "192.0.2.252/24" }, nil, ""},
		"the network's own": {func(in *Inputs) { in.GuestAddress = "192.0.2.0/24" }, nil, "guest-address"},
		"no secret":         {func(in *Inputs) { in.SecretFile = "" }, nil, "secret"},
		"netperf":           {func(in *Inputs) { in.Engine = "netperf" }, nil, ""},
		"no netserver": {func(in *Inputs) { in.Engine = "netperf" }, func(s *Seen) { s.Making.Server = broken },
			"engine"},
		"nothing to make": {func(in *Inputs) { in.Modes = append(in.Modes, "e1000=a:1", "virtio=b:1", "vhost=c:1") }, nil,
			"modes"},
		"no root":         {nil, func(s *Seen) { s.Root = false }, "root"},
		"a name in use":   {nil, func(s *Seen) { s.Host.Guests[0].Name = "mpps-virtio" }, "guest-name"},
		"one that is off": {nil, func(s *Seen) { s.Host.Guests[0] = facts.Guest{Name: "mpps-e1000", State: "shut off"} }, "guest-name"},
		"hidden guests": {nil, func(s *Seen) { s.Host.Unseen = []facts.Unseen{facts.GuestsUnseen("no virsh")} },
			"libvirt"},
		"little memory":  {nil, func(s *Seen) { s.Host.Topology.Nodes[1].Available = 1 << 30 }, "memory"},
		"memory unknown": {nil, func(s *Seen) { s.Host.Topology.Nodes = nil }, ""},
		"no KVM":         {nil, func(s *Seen) { s.Making.KVM = broken }, "kvm"},
		"no vhost":       {nil, func(s *Seen) { s.Making.Vhost = broken }, "vhost"},
		"no kernel":      {nil, func(s *Seen) { s.Making.Kernel = broken }, "kernel"},
		"no module":      {nil, func(s *Seen) { s.Making.Modules["e1000"] = broken }, "module"},
		"a module for a mode that is named": {func(in *Inputs) { in.Modes = append(in.Modes, "e1000=192.0.2.9:1") },
			func(s *Seen) { s.Making.Modules["e1000"] = broken }, ""},
		"no libvirt": {nil, func(s *Seen) { s.Making.Libvirt = broken }, "libvirt"},
		"nor guests seen, said once": {nil, func(s *Seen) {
			s.Making.Libvirt, s.Host.Unseen = broken, []facts.Unseen{facts.GuestsUnseen("no virsh")}
		}, "libvirt"},
		"linked dynamically": {nil, func(s *Seen) { s.Making.Init = broken }, "init"},
		"not made": {func(in *Inputs) { in.MakeGuests = false }, func(s *Seen) {
			s.Root, s.Making.KVM = false, broken
		}, ""},
	} {
		var missing []string
		for _, k := range making(c.change, c.spoil) {
			if !k.OK {
				missing = append(missing, k.Code)
				must.Hold(t, k.Why != "" && k.Hint != "" && !strings.Contains(k.Why+k.Hint, "\n"),
					"%s: %+v is not one line and its hint", name, k)
			}
		}
		must.Hold(t, strings.Join(missing, " ") == c.code, "%s: %q is missing, expected %q", name, missing, c.code)
	}
}
