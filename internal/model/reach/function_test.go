package reach

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestFunctions walks from functions of a card, in switchdev and in legacy mode, and from vDPA devices. Both ports of
// the card have one switch ID, as in a VF LAG.
func TestFunctions(t *testing.T) {
	const pf0, pf1 = "0000:41:00.0", "0000:41:00.1"
	passed := func(h *facts.Host) {
		h.Guests[0].Interfaces[0] = facts.Interface{MAC: "m", Type: "hostdev", Function: "0000:41:00.3"}
	}
	vdpa := func(node string) func(h *facts.Host) {
		return func(h *facts.Host) {
			h.Guests[0].Interfaces[0] = facts.Interface{MAC: "m", Type: "vdpa", Source: node}
		}
	}
	port := func(name, device, of string) func(h *facts.Host) {
		return func(h *facts.Host) {
			h.NICs = append(h.NICs, facts.NIC{Name: device, PCI: of, SwitchID: "a", PortName: name, Master: "br0"})
			h.Bridges = []facts.Bridge{{Name: "br0", Ports: []string{"eth0", device}}}
			h.NICs[0].Master = "br0"
		}
	}
	for name, c := range map[string]struct {
		edits []func(h *facts.Host)
		kinds []Kind
		nics  string
		hops  string
	}{
		"legacy mode": {[]func(*facts.Host){passed}, []Kind{Function}, "eth0", ""},
		"a representor": {[]func(*facts.Host){passed, port("pf0vf1", "r", pf0)}, []Kind{Function}, "eth0",
			"r br0 eth0"},
		"ice's own name": {[]func(*facts.Host){passed, port("pf0vfr1", "r", pf0)}, []Kind{Function}, "eth0",
			"r br0 eth0"},
		"a port's, of sfc": {[]func(*facts.Host){passed, port("p0pf0vf1", "r", pf0)}, []Kind{Function}, "eth0",
			"r br0 eth0"},
		"the other PF's":         {[]func(*facts.Host){passed, port("pf1vf1", "r", pf1)}, []Kind{Function}, "eth0", ""},
		"another VF's":           {[]func(*facts.Host){passed, port("pf0vf0", "r", pf0)}, []Kind{Function}, "eth0", ""},
		"another controller's":   {[]func(*facts.Host){passed, port("c1pf0vf1", "r", pf0)}, []Kind{Function}, "eth0", ""},
		"a subfunction's number": {[]func(*facts.Host){passed, port("pf0sf1", "r", pf0)}, []Kind{Function}, "eth0", ""},
		"a representor alone": {[]func(*facts.Host){passed, port("pf0vf1", "r", pf0), func(h *facts.Host) {
			h.NICs[2].Master, h.Bridges = "", nil
		}}, []Kind{Function}, "eth0", "r"},
		"vDPA of a VF": {[]func(*facts.Host){vdpa("/dev/vhost-vdpa-0")}, []Kind{VDPA}, "eth0", "vdpa0"},
		"vDPA of a VF with a representor": {[]func(*facts.Host){vdpa("/dev/vhost-vdpa-0"), port("pf0vf1", "r", pf0)},
			[]Kind{VDPA}, "eth0", "vdpa0 r br0 eth0"},
		"vDPA of a subfunction":  {[]func(*facts.Host){vdpa("/dev/vhost-vdpa-1")}, []Kind{VDPA}, "eth0", "vdpa1"},
		"vDPA of the simulator":  {[]func(*facts.Host){vdpa("/dev/vhost-vdpa-2")}, []Kind{Inner, VDPA}, "", "vdpa2"},
		"vDPA of a process":      {[]func(*facts.Host){vdpa("/dev/vhost-vdpa-3")}, []Kind{PolledUnseen, VDPA}, "", "vdpa3"},
		"vDPA that was not read": {[]func(*facts.Host){vdpa("/dev/vhost-vdpa-9")}, []Kind{Unresolved, VDPA}, "", ""},
	} {
		h := host(func(h *facts.Host) {
			h.NICs = []facts.NIC{{Name: "eth0", PCI: pf0, SwitchID: "a", PortName: "p0"},
				{Name: "eth1", PCI: pf1, SwitchID: "a", PortName: "p1"}}
			h.VFs = []facts.VF{{PF: "eth0", Index: 1, PCI: "0000:41:00.3"}, {PF: "eth1", Index: 1, PCI: "0000:41:02.3"}}
			h.VDPA = []facts.VDPA{
				{Name: "vdpa0", Node: "/dev/vhost-vdpa-0", PCI: "0000:41:00.3", Parent: "0000:41:00.3"},
				{Name: "vdpa1", Node: "/dev/vhost-vdpa-1", PCI: pf0, Parent: "mlx5_core.sf.4"},
				{Name: "vdpa2", Node: "/dev/vhost-vdpa-2", Parent: facts.VDPASimulator},
				{Name: "vdpa3", Node: "/dev/vhost-vdpa-3", Parent: facts.VDUSE}}
			for _, edit := range c.edits {
				edit(h)
			}
		})
		p := Of(h).Paths[0]
		hops := strings.Join(facts.Map(p.Hops, func(hop Hop) string { return hop.Device }), " ")
		must.Hold(t, slices.Equal(p.Kinds, c.kinds) && strings.Join(p.NICs, " ") == c.nics && hops == c.hops,
			"%s: %v over %v by %q, expected %v over %s by %q", name, p.Kinds, p.NICs, hops, c.kinds, c.nics, c.hops)
	}
}
