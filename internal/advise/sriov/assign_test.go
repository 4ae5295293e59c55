package sriov

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

const oneGiB = 1 << 30

// depot is a host with two nodes, a card on each, and guests without functions: vm1 is bound to node 0, vm2 to node
// 1, vm3 to none. ens1f0 (node 0) has four functions: fw1 has one, db1 another, the host uses a third. ens2
// (node 1) has two.
func depot() *facts.Host {
	h := cards()
	h.NICs[0].Node, h.NICs[1].Node = 0, 1
	h.NICs[0].PCI, h.NICs[1].PCI = "0000:01:00.0", "0000:02:00.0"
	h.VFs[3].HostUse = "port of br0"
	for i := range h.VFs {
		vf := &h.VFs[i]
		if vf.Driver == "" {
			vf.NIC = ""
		}
	}
	for i := range h.Guests {
		g := &h.Guests[i]
		g.Managed, g.Functions = true, slices.Clone(g.Hostdevs)
	}
	for i := range 8 {
		h.Topology.CPUs = append(h.Topology.CPUs, facts.CPU{ID: i, Online: true, Node: i / 4})
	}
	h.Topology.Online = setting.CPUs(0, 1, 2, 3, 4, 5, 6, 7)
	for i := range 2 {
		h.Topology.Nodes = append(h.Topology.Nodes, facts.Node{
			ID: i, CPUs: setting.CPUs(4*i, 4*i+1, 4*i+2, 4*i+3), Memory: 64 * oneGiB, Free: 10 * oneGiB,
			Available: 20 * oneGiB,
			Hugepages: []facts.Hugepages{{Size: 2 << 20, Total: 4096, Free: 2048}, {Size: oneGiB, Total: 8, Free: 2}},
		})
	}
	h.Topology.Hugepages = []facts.Hugepages{{Size: 2 << 20, Total: 8192, Free: 4096},
		{Size: oneGiB, Total: 16, Free: 4}}
	h.Guests = append(h.Guests, off("vm1", "0", 4, ""), off("vm2", "1", 4, ""), off("vm3", "", 4, ""))
	return h
}

// off returns a guest that is shut off, bound to nodes, with a memory size in GiB and more elements in its definition.
func off(name, nodes string, memory uint64, more string) facts.Guest {
	tune := ""
	if nodes != "" {
		tune = "<numatune><memory mode='strict' nodeset='" + nodes + "'/></numatune>"
	}
	g := facts.Guest{
		Name: name, UUID: "uuid-of-" + name, Managed: true, State: "shut off", VCPUs: 2, MaxVCPUs: 2,
		Memory: memory * oneGiB, Definition: fmt.Sprintf("<domain type='kvm'><name>%s</name><memory "+
			"unit='GiB'>%d</memory>%s%s<devices/></domain>", name, memory, tune, more),
		Hugepages: strings.Contains(more, "<hugepages"),
	}
	if nodes != "" {
		set, err := setting.ParseCPUs(nodes)
		if err != nil {
			panic(err)
		}
		g.MemoryNodes = set
	}
	return g
}

func (g *Gift) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s/%d %s %s", g.PF, g.Index, g.Form, g.Network))
}

func codes(notes []Note) string {
	all := facts.Map(notes, func(n Note) string { return n.Code })
	return strings.Join(all, " ")
}

// TestChoose checks which function is chosen, and the warnings.
func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		wish  Request
		alter func(h *facts.Host)
		found string
		notes string
	}{
		"the card of the guest's node":       {Request{Guest: "vm1"}, nil, "ens1f0/0 interface", ""},
		"the other card of the other node's": {Request{Guest: "vm2"}, nil, "ens2/0 interface", ""},
		// it has more free
		"a guest that is bound to no node": {Request{Guest: "vm3"}, nil, "ens2/0 interface", "not-placed"},
		"the card that is asked for":       {Request{Guest: "vm2", PF: "ens1f0"}, nil, "ens1f0/0 interface", "other-node"},
		"a number on a card":               {Request{Guest: "vm2", PF: "ens2", VF: "1"}, nil, "ens2/1 interface", ""},
		"a PCI address":                    {Request{Guest: "vm2", VF: "02:02.1"}, nil, "ens2/1 interface", ""},
		"as a plain device":                {Request{Guest: "vm1", Form: facts.ByHostdev}, nil, "ens1f0/0 hostdev", ""},
		"a pool that is made":              {Request{Guest: "vm2", Form: facts.ByNetwork}, nil, "ens2/-1 network mpps-ens2", ""},
		"a pool with a name": {Request{Guest: "vm2", Form: facts.ByNetwork, PF: "ens2",
			Network: "fast"}, nil, "ens2/-1 network fast", ""},
		"nothing free on the node of the guest": {Request{Guest: "vm1"},
			func(h *facts.Host) { h.VFs[0].Holder = "testpmd (process 7)" }, "ens2/0 interface", "other-node"},
		"pinned by vCPUs": {Request{Guest: "vm3"},
			func(h *facts.Host) { h.Guests[4].Pins = []setting.CPUSet{setting.CPUs(1), setting.CPUs(2)} },
			"ens1f0/0 interface", ""},
		"a reserved one is left": {Request{Guest: "vm2"},
			func(h *facts.Host) { h.Reservations = reserved("0000:02:02.0", "vm3") }, "ens2/1 interface", ""},
		"a card without a link": {Request{Guest: "vm3"},
			func(h *facts.Host) { h.NICs[1].Carrier = "down" }, "ens1f0/0 interface", "not-placed"},
		"it is the card's only": {Request{Guest: "vm2", PF: "ens2"},
			func(h *facts.Host) { h.NICs[1].Carrier = "down" }, "ens2/0 interface", "no-link"},
		"bound to vfio-pci by nobody, with force": {Request{Guest: "vm2", VF: "ens2/0", Force: true},
			func(h *facts.Host) { h.VFs[4].Driver = "vfio-pci" }, "ens2/0 interface", ""},
		"of one listed in no pool": {Request{Guest: "vm2"},
			func(h *facts.Host) { h.Pools = []facts.Pool{{Network: "n", Functions: []string{"0000:02:02.0"}}} },
			"ens2/1 interface", ""},
		"a pool that there is": {Request{Guest: "vm2", Form: facts.ByNetwork},
			func(h *facts.Host) { h.Pools = []facts.Pool{{Network: "old", PF: "ens2", Active: true}} },
			"ens2/-1 network old", ""},
		"an address of a maker": {Request{Guest: "vm1", MAC: "A0:00:00:00:00:77"}, nil,
			"ens1f0/0 interface", "global-mac"},
		"a card that is down": {Request{Guest: "vm2", PF: "ens2"},
			func(h *facts.Host) { h.NICs[1].Up = false }, "ens2/0 interface", "no-link"},
		"a guest with guests": {Request{Guest: "outer"},
			func(h *facts.Host) { h.Guests = append(h.Guests, off("outer", "1", 1, nestedCPU)) }, "ens2/0 interface",
			"nested"},
		"memory that may be free later": {Request{Guest: "big", Force: true},
			func(h *facts.Host) { h.Guests = append(h.Guests, off("big", "0", 30, "")) }, "ens1f0/0 interface",
			"memory"},
		"a guest that runs already with a device": {Request{Guest: "fw1", PF: "ens2"}, nil, "ens2/0 interface",
			"not-placed"},
		"a bridge on a card that lets it": {Request{Guest: "vm2", Bridge: true,
			Sets: []Set{{"trust", "on"}, {"spoofchk", "off"}}}, nil, "ens2/0 interface", "bridge attribute attribute"},
		"a bridge, bnxt": {Request{Guest: "vm2", Bridge: true, Sets: []Set{{"trust", "on"}, {"spoofchk", "off"}}},
			func(h *facts.Host) { h.NICs[1].Driver = "bnxt_en" }, "ens2/0 interface", "bridge attribute attribute"},
	} {
		t.Run(name, func(t *testing.T) {
			h := depot()
			if c.alter != nil {
				c.alter(h)
			}
			if c.wish.Form == "" {
				c.wish.Form = facts.ByInterface
			}
			g := must.Get(Choose(h, c.wish))(t)
			if found := g.String(); found != c.found || codes(g.Notes) != c.notes {
				t.Errorf("found %s, notes %q (%v)", found, codes(g.Notes), g.Notes)
			}
			must.Hold(t, g.UUID != "" && len(g.Means) >= 3 && len(g.Inside) >= 3, "%+v", g)
		})
	}
}

func reserved(pci, guest string) []facts.Reservation {
	return []facts.Reservation{{PF: "ens2", PCI: pci, Guest: guest, UUID: "uuid-of-" + guest, Form: facts.ByInterface,
		MAC: "52:54:00:99:99:99"}}
}

// TestRefused checks that refusals name who or what is in the way, and have advice.
func TestRefused(t *testing.T) {
	full := func(h *facts.Host) {
		h.VFs[4].Holder, h.VFs[5].HostUse, h.VFs[5].NIC = "testpmd (process 7)", "port of br9", "ens2v1"
	}
	for name, c := range map[string]struct {
		wish    Request
		alter   func(h *facts.Host)
		because []string
	}{
		"nobody": {Request{Guest: "vm9"}, nil, []string{"no guest vm9", "fw1, db1, vm1"}},
		"transient": {Request{Guest: "vm1"}, func(h *facts.Host) {
			h.Guests[2].Definition, h.Guests[2].State = "", "running"
		}, []string{"vm1 is transient"}},
		"unseen": {Request{Guest: "vm1"}, func(h *facts.Host) { h.Guests[2].Definition = "" },
			[]string{"cannot be read"}},
		"migrates": {Request{Guest: "vm1"}, func(h *facts.Host) { h.Guests[2].Job = "migration out" },
			[]string{"migration out"}},
		"its own QEMU": {Request{Guest: "vm1"}, func(h *facts.Host) { h.Guests[2].Managed = false },
			[]string{"libvirt does not know"}},
		"no such card": {Request{Guest: "vm1", PF: "eth9"}, nil, []string{"no network device eth9"}},
		"no card for it": {Request{Guest: "vm1", PF: "ens1f0v3"}, nil,
			[]string{"ens1f0v3 has no virtual functions and cannot"}},
		"no functions": {Request{Guest: "vm1", PF: "ens2"}, func(h *facts.Host) { h.NICs[1].SRIOV.Enabled = 0 },
			[]string{"ens2 has no virtual functions now", "mpps sriov create ens2"}},
		"none free": {Request{Guest: "vm2", PF: "ens2"}, full,
			[]string{"all 2 are taken", "ens2 0: testpmd (process 7)", "ens2v1 is port of br9",
				"mpps sriov create ens2 -n 64"}},
		"another guest's": {Request{Guest: "vm2", VF: "ens1f0/1"}, nil,
			[]string{"ens1f0 (0000:01:10.2) is not free: guest fw1"}},
		"its own":              {Request{Guest: "fw1", VF: "ens1f0/1"}, nil, []string{"has function 1 of ens1f0 already"}},
		"the host's":           {Request{Guest: "vm2", VF: "ens1f0/3"}, nil, []string{"the host (ens1f0v3 is port of br0)"}},
		"the host's, by force": {Request{Guest: "vm2", VF: "ens1f0/3", Force: true}, nil, []string{"the host"}},
		"bound": {Request{Guest: "vm2", VF: "ens2/0"},
			func(h *facts.Host) { h.VFs[4].Driver = "vfio-pci" }, []string{"bound it to vfio-pci", "--force"}},
		"reserved": {Request{Guest: "vm2", VF: "ens2/0"},
			func(h *facts.Host) { h.Reservations = reserved("0000:02:02.0", "vm3") }, []string{"vm3 (reserved)"}},
		"reserved by the gone": {Request{Guest: "vm2", VF: "ens2/0"},
			func(h *facts.Host) { h.Reservations = reserved("0000:02:02.0", "old") },
			[]string{"guest old, which is not defined any more"}},
		"a number alone": {Request{Guest: "vm2", VF: "1"}, nil, []string{"of which card is not said"}},
		"of the other card": {Request{Guest: "vm2", PF: "ens1f0", VF: "0000:02:02.0"}, nil,
			[]string{"is a function of ens2, not of ens1f0"}},
		"no IOMMU": {Request{Guest: "vm2", PF: "ens2"}, func(h *facts.Host) { h.VFs[4].Group, h.VFs[5].Group = -1, -1 },
			[]string{"no IOMMU group", "intel_iommu=on"}},
		"a shared group": {Request{Guest: "vm2", PF: "ens2"}, func(h *facts.Host) { h.VFs[4].Group = 41 },
			[]string{"shares IOMMU group 41", "ACS"}},
		"address in use": {Request{Guest: "vm1", MAC: "52:54:00:00:00:09"}, nil,
			[]string{"52:54:00:00:00:09 is in use: guest fw1"}},
		"address of a guest's function": {Request{Guest: "vm1", MAC: "52:54:00:00:00:09"},
			func(h *facts.Host) { h.VFs[5].MAC = "52:54:00:00:00:09" }, []string{"52:54:00:00:00:09 is in use: guest fw1"}},
		"address of a group": {Request{Guest: "vm1", MAC: "01:00:5e:00:00:01"}, nil,
			[]string{"is the address of a group", "that of one device"}},
		"no address": {Request{Guest: "vm1", MAC: "00:00:00:00:00:00"}, nil, []string{"address of one device"}},
		"a rate": {Request{Guest: "vm1", PF: "ens1f0", Sets: []Set{{"max_tx_rate", "5"}}}, nil,
			[]string{"ixgbe takes 11 to 10000"}},
		"a priority": {Request{Guest: "vm1", Sets: []Set{{"vlan", "5"}, {"qos", "3"}}}, nil,
			[]string{"qos 3 does not stay", "--as hostdev"}},
		"a rate of a pool": {Request{Guest: "vm2", Form: facts.ByNetwork, Sets: []Set{{"max_tx_rate", "100"}}}, nil,
			[]string{"max_tx_rate cannot be set in a pool"}},
		"one of a pool": {Request{Guest: "vm2", Form: facts.ByNetwork, VF: "ens2/0"}, nil,
			[]string{"cannot be asked for"}},
		"a pool of taken ones": {Request{Guest: "vm1", Form: facts.ByNetwork, PF: "ens1f0"}, nil,
			[]string{"some of its functions are taken", "1: guest fw1"}},
		"a name of a pool": {Request{Guest: "vm1", Form: facts.ByNetwork, PF: "ens2", Network: "a/b"}, nil,
			[]string{"name of a network"}},
		"more than the node": {Request{Guest: "big"},
			func(h *facts.Host) { h.Guests = append(h.Guests, off("big", "0", 80, "")) },
			[]string{"guest big needs 81920 MiB of memory, all of it pinned", "node 0 has 49152 MiB", "in all"}},
		"more than is free": {Request{Guest: "big"},
			func(h *facts.Host) { h.Guests = append(h.Guests, off("big", "0", 30, "")) },
			[]string{"needs 30720 MiB", "node 0 has 20480 MiB free", "--force"}},
		"huge pages": {Request{Guest: "huge"},
			func(h *facts.Host) { h.Guests = append(h.Guests, off("huge", "1", 6, hugepages)) },
			[]string{"6144 MiB of huge pages of 2 MiB", "node 1 has 4096 MiB free"}},
		"promised": {Request{Guest: "vm1"}, func(h *facts.Host) { promise(h, 17) },
			[]string{"node 0 has 20480 MiB free, of which 17408 MiB is for other guests"}},
		"a bridge": {Request{Guest: "vm2", Bridge: true}, nil,
			[]string{"carries no bridge", "--trust on --spoofchk off"}},
		"a bridge, igb": {Request{Guest: "vm2", Bridge: true, Sets: []Set{{"trust", "on"}, {"spoofchk", "off"}}},
			func(h *facts.Host) { h.NICs[1].Driver = "igb" }, []string{"also with trust on", "macvtap"}},
		"a pool that is full": {Request{Guest: "vm1", Form: facts.ByNetwork, Network: "fast"},
			func(h *facts.Host) { poolOf(h, "vm2", "vm3") }, []string{"pool fast has 2 functions and 2 interfaces",
				"vm2 (shut off), vm3 (shut off)", "would fail at its start"}},
		"full by a reservation": {Request{Guest: "vm1", Form: facts.ByNetwork, Network: "fast"}, poolReserved,
			[]string{"2 interfaces", "vm9 (reserved)"}},
		"full by a plain one": {Request{Guest: "vm1", Form: facts.ByNetwork, Network: "fast"}, func(h *facts.Host) {
			poolOf(h, "vm2")
			h.Guests[4].Hostdevs = []string{"0000:02:02.1"}
		}, []string{"has 1 function and 1 interface", "function 1 is guest vm3's"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := depot()
			if c.alter != nil {
				c.alter(h)
			}
			if c.wish.Form == "" {
				c.wish.Form = facts.ByInterface
			}
			g, err := Choose(h, c.wish)
			var no *Refused
			must.Need(t, errors.As(err, &no), "%v, %v", g, err)
			must.Contain(t, no.Why+"\n"+no.Advice, c.because...)
			must.Hold(t, no.Advice != "", "no advice: %s", no.Why)
		})
	}
}

const nestedCPU = "<cpu mode='host-model'><feature policy='require' name='vmx'/></cpu>"

const hugepages = "<memoryBacking><hugepages/></memoryBacking>"

// promise adds a guest with a function on vm1's node that is off.
func promise(h *facts.Host, memory uint64) {
	g := off("later", "0", memory, "")
	g.Hostdevs = []string{"0000:01:10.0"}
	h.Guests = append(h.Guests, g)
	h.VFs[3].HostUse = ""
}

// many gives vm1 n plain devices.
// TestChooseMany: no limit of QEMU or libvirt is known on the number of functions; 32 is one of Red Hat's support.
func TestChooseMany(t *testing.T) {
	h := depot()
	for i := range 40 {
		h.Guests[2].Hostdevs = append(h.Guests[2].Hostdevs, fmt.Sprintf("0000:09:%02x.0", i))
	}
	must.Pass(Choose(h, Request{Guest: h.Guests[2].Name, Form: facts.ByInterface}))(t, "the 41st function")
}

// poolOf makes ens2 the pool "fast", with an interface of each guest on it.
func poolOf(h *facts.Host, guests ...string) {
	h.Pools = []facts.Pool{{Network: "fast", PF: "ens2", Active: true, Autostart: true}}
	for i, name := range guests {
		g := guestNamed(h, name)
		g.Interfaces = append(g.Interfaces, facts.Interface{MAC: fmt.Sprintf("52:54:00:00:01:%02x", i), Type: "network",
			Source: "fast"})
	}
}

func poolReserved(h *facts.Host) {
	poolOf(h, "vm2")
	h.Reservations = []facts.Reservation{{PF: "ens2", Index: -1, Network: "fast", Guest: "vm9", Form: facts.ByNetwork,
		MAC: "52:54:00:00:07:07"}}
}

// TestAddress: a guest always gets the same MAC address, another guest another one, and nobody one in use.
func TestAddress(t *testing.T) {
	given := func(h *facts.Host, guest string) string {
		t.Helper()
		g := must.Get(Choose(h, Request{Guest: guest, Form: facts.ByInterface}))(t)
		return g.MAC
	}
	h := depot()
	first := given(h, "vm1")
	if first != given(depot(), "vm1") || first == given(h, "vm2") || !strings.HasPrefix(first, "52:54:00:") {
		t.Errorf("%s; of vm2 %s", first, given(h, "vm2"))
	}
	h.Bridges[0].MAC = strings.ToUpper(first)
	if second := given(h, "vm1"); second == first {
		t.Errorf("%s is given twice", second)
	}
}

// TestChanges: the changes of each form, in order.
func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		wish  Request
		alter func(*facts.Host)
		want  string
	}{
		"interface": {Request{Guest: "vm2", Form: facts.ByInterface, MAC: "52:54:00:aa:00:01",
			Sets: []Set{{"vlan", "7"}, {"max_tx_rate", "100"}}}, nil, `
file:var/lib/mpps/vfs/0000:02:02.0.json = (reserved)
vf-attr:ens2/0/max_tx_rate = 100
domain:vm2/interface/52:54:00:aa:00:01 = hostdev pci=0000:02:02.0 managed=yes vlan=7`},
		"what others left on it": {Request{Guest: "vm2", Form: facts.ByInterface, VF: "ens2/1",
			MAC: "52:54:00:aa:00:01"}, func(h *facts.Host) {
			h.VFs[5].SpoofCheck, h.VFs[5].VLAN = false, 8
			readAll(h, &h.VFs[5])
		}, `
file:var/lib/mpps/vfs/0000:02:02.1.json = (reserved)
vf-attr:ens2/1/spoofchk = on forgotten
vf-attr:ens2/1/vlan = 0 forgotten
vf-attr:ens2/1/max_tx_rate = 0 forgotten
domain:vm2/interface/52:54:00:aa:00:01 = hostdev pci=0000:02:02.1 managed=yes`},
		"hostdev": {Request{Guest: "vm2", Form: facts.ByHostdev, MAC: "52:54:00:aa:00:01",
			Sets: []Set{{"vlan", "7"}, {"qos", "3"}, {"trust", "on"}}}, nil, `
file:var/lib/mpps/vfs/0000:02:02.0.json = (reserved)
vf-attr:ens2/0/trust = on
vf-attr:ens2/0/mac = 52:54:00:aa:00:01
vf-attr:ens2/0/vlan = 7
vf-attr:ens2/0/qos = 3
domain:vm2/hostdev/0000:02:02.0 = managed`},
		"a pool that is made": {Request{Guest: "vm2", Form: facts.ByNetwork, PF: "ens2", Network: "fast",
			MAC: "52:54:00:aa:00:01"}, nil, `
file:var/lib/mpps/vfs/network-fast.json = (reserved)
virt-network:fast/definition = hostdev pf=ens2 managed=yes
virt-network:fast/active = yes
virt-network:fast/autostart = yes
domain:vm2/interface/52:54:00:aa:00:01 = network=fast model=virtio`},
		"a running guest": {Request{Guest: "fw1", Form: facts.ByInterface, PF: "ens2", MAC: "52:54:00:aa:00:01",
			Live: true}, nil, `
file:var/lib/mpps/vfs/0000:02:02.0.json = (reserved)
domain:fw1/interface/52:54:00:aa:00:01 = hostdev pci=0000:02:02.0 managed=yes
domain-device:fw1/interface/52:54:00:aa:00:01 = hostdev pci=0000:02:02.0 managed=yes`},
		"a running guest, later": {Request{Guest: "fw1", Form: facts.ByInterface, PF: "ens2", MAC: "52:54:00:aa:00:01"},
			nil, `
file:var/lib/mpps/vfs/0000:02:02.0.json = (reserved)
domain:fw1/interface/52:54:00:aa:00:01 = hostdev pci=0000:02:02.0 managed=yes after restart of guest fw1`},
	} {
		t.Run(name, func(t *testing.T) {
			h := depot()
			if c.alter != nil {
				c.alter(h)
			}
			g := must.Get(Choose(h, c.wish))(t)
			absent(h, g.Addresses())
			changes := must.Get(g.Changes(h, none))(t)
			if found := listed(changes); found != strings.TrimPrefix(c.want, "\n") {
				t.Errorf("found:\n%s\nexpected:%s", found, c.want)
			}
			given, err := facts.ParseReservations(changes[0].Address, changes[0].To.Value)
			must.Hold(t, err == nil && len(given) == 1 && given[0].Guest == c.wish.Guest &&
				given[0].MAC == c.wish.MAC && given[0].Form == c.wish.Form, "%v %+v", err, given)
			for _, c := range changes {
				must.Hold(t, c.Title != "" && c.Because != "" && c.ID != "" && c.Risk != goal.Data, "%+v", c)
			}
		})
	}
}

// absent adds readings of absent values for addresses without a reading.
func absent(h *facts.Host, addresses []setting.Address) {
	for _, a := range addresses {
		if _, read := h.Readings[a]; read {
			continue
		}
		h.Readings[a] = setting.Missing("not there")
		if a.Kind == setting.VirtNetwork && a.Rest() != "definition" {
			h.Readings[a] = setting.Value("no")
		}
	}
}

// listed is the changes, one per line.
func listed(changes []plan.Change) string {
	var lines []string
	for _, c := range changes {
		to := c.To.String()
		switch {
		case c.Address.Kind == setting.File && c.To.State == setting.Known:
			to = "(reserved)"
		case c.To.State == setting.Absent:
			to = "gone"
		}
		if c.Forget {
			to += " forgotten"
		}
		if !c.Needs.IsZero() {
			to += " after " + c.Needs.String()
		}
		lines = append(lines, c.Address.String()+" = "+to)
	}
	return strings.Join(lines, "\n")
}

// TestInTheWay: existing contents of the reservation file are never overwritten. If they changed since the host was
// inspected, the plan is stale.
func TestInTheWay(t *testing.T) {
	h := depot()
	g := must.Get(Choose(h, Request{Guest: "vm2", Form: facts.ByInterface}))(t)
	absent(h, g.Addresses())
	for name, c := range map[string]struct {
		found setting.Reading
		stale bool
	}{
		"not ours": {setting.Value("{}"), false}, "unreadable": {setting.CouldNotTell("input/output error"), false},
		"another's": {setting.Value(facts.ReservationText(reserved(g.PCI, "vm3"))), true},
	} {
		h.Readings[g.reservation().Address()] = c.found
		changes, err := g.Changes(h, none)
		var stale *plan.Stale
		if err == nil || errors.As(err, &stale) != c.stale {
			t.Errorf("%s: %v, %s", name, err, listed(changes))
		}
	}
}

// none reports that no attribute is kept for whoever has the function.
func none(setting.Address) bool { return false }
