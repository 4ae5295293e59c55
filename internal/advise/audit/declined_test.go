package audit

import (
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
)

// TestDeclined: nothing that serves a path without rules is judged. The second of two bridges of the host leads into
// another namespace in one case and is Open vSwitch in the other; the first stays what it is.
func TestDeclined(t *testing.T) {
	for name, edit := range map[string]func(h *facts.Host){
		"another namespace": func(h *facts.Host) {
			h.NICs[1].Master, h.Bridges[1].Ports = "", h.Bridges[1].Ports[1:]
			h.Routing = &facts.Routing{Forward: facts.No}
			h.Bridges[1].Ports = append(h.Bridges[1].Ports, "veth1")
			h.Links = []facts.Link{{Name: "veth1", Kind: "veth", Master: "br1", Elsewhere: true}}
		},
		"Open vSwitch": func(h *facts.Host) {
			h.NICs[1].Master, h.Bridges = facts.OVSDatapath, h.Bridges[:1]
			h.Links = []facts.Link{{Name: facts.OVSDatapath, Kind: "openvswitch"}}
			for i := range h.Taps {
				if h.Taps[i].Master == "br1" {
					h.Taps[i].Master = facts.OVSDatapath
				}
			}
		},
	} {
		h := facts.Synthetic(facts.Size{CPUs: 64, NICs: 2, Queues: 4, Guests: 4})
		edit(h)
		r := Run(h, goal.Unlimited(), knob.Catalogue())
		if len(r.NotJudged) != 4 {
			t.Errorf("%s: %d paths are not judged, expected those of two guests with two NICs", name, len(r.NotJudged))
		}
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
		if judged == 0 {
			t.Errorf("%s: nothing of eth0 was judged, which serves a bridge alone", name)
		}
	}
}
