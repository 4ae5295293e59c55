package audit

import (
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/must"
)

// TestDeclined: nothing that serves a path without rules is judged. The second of two bridges of the host leads into
// another namespace; the first stays what it is.
func TestDeclined(t *testing.T) {
	for name, edit := range map[string]func(h *facts.Host){
		"another namespace": func(h *facts.Host) {
			h.NICs[1].Master, h.Bridges[1].Ports = "", h.Bridges[1].Ports[1:]
			h.Routing = &facts.Routing{Forward: facts.No}
			h.Bridges[1].Ports = append(h.Bridges[1].Ports, "veth1")
			h.Links = []facts.Link{{Name: "veth1", Kind: "veth", Master: "br1", Elsewhere: true}}
		},
	} {
		h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 4, Guests: 4})
		edit(h)
		r := Run(h, goal.Unlimited(), knob.Catalogue())
		must.Hold(t, len(r.NotJudged) == 4,
			"%s: %d paths are not judged, expected those of two guests with two NICs", name, len(r.NotJudged))
		judged := 0
		for _, f := range r.Findings {
			guest, _ := f.Address.GuestNIC()
			serves := f.Address.Device() == "eth1" || guest == "vm001" || guest == "vm003" ||
				f.Address.Device() == "" && f.Stage == datapath.Netfilter
			if serves && f.Want != nil && f.State == Off {
				t.Errorf("%s: %s at %s is to be %s", name, f.ID, f.Address, f.Wanted)
			}
			if f.Address.Device() == "eth0" && f.State != Unknown {
				judged++
			}
		}
		must.Hold(t, judged != 0, "%s: nothing of eth0 was judged, which serves a bridge alone", name)
	}
}

// TestOpenVSwitch: guests behind Open vSwitch are judged like those behind a bridge, except for what only a bridge has.
func TestOpenVSwitch(t *testing.T) {
	bridged := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 4, Guests: 4})
	h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 4, Guests: 4})
	h.OpenVSwitch = &facts.OpenVSwitch{}
	for _, b := range h.Bridges {
		bridge := facts.OVSBridge{Name: b.Name, Datapath: "system"}
		for _, port := range b.Ports {
			bridge.Ports = append(bridge.Ports, facts.OVSPort{Name: port,
				Interfaces: []facts.OVSInterface{{Name: port}}})
		}
		h.OpenVSwitch.Bridges = append(h.OpenVSwitch.Bridges, bridge)
	}
	h.Bridges, h.Links = nil, []facts.Link{{Name: facts.OVSDatapath, Kind: "openvswitch"}}
	for i := range h.NICs {
		h.NICs[i].Master = facts.OVSDatapath
	}
	for i := range h.Taps {
		h.Taps[i].Master = facts.OVSDatapath
	}
	type key struct{ id, at string }
	states := func(h *facts.Host) (map[key]State, int) {
		r, all := Run(h, goal.Unlimited(), knob.Catalogue()), map[key]State{}
		for _, f := range r.Findings {
			all[key{f.ID, f.Address.String()}] = f.State
		}
		return all, len(r.NotJudged)
	}
	before, _ := states(bridged)
	after, notJudged := states(h)
	must.Equal(t, notJudged, 0, "paths are not judged")
	same := 0
	for at, state := range after {
		family, _, _ := strings.Cut(at.id, ".")
		switch {
		case family == "netfilter" && (state == Off || state == OK), at.id == "bridge.unicast_flood":
			t.Errorf("%s at %s: %s, on a host without a bridge", at.id, at.at, state)
		case family == "nic" || family == "domain" || family == "vhost" || at.id == "bridge.tap_qdisc":
			must.Hold(t, before[at] == state, "%s at %s: %s, with a bridge %s", at.id, at.at, state, before[at])
			same++
		}
	}
	must.Hold(t, same >= 100, "only %d values of NICs, guests and taps were compared", same)
}
