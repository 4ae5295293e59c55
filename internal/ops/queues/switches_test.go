package queues

import (
	"testing"

	"mpps/internal/model/facts"
)

// TestProcessSwitches: path names a switch that is a process, and says nothing of the kernel's datapath.
func TestProcessSwitches(t *testing.T) {
	for datapath, want := range map[string]string{facts.UserDatapath: "process-switch", "system": ""} {
		h := &facts.Host{Taps: []facts.Tap{{Name: "vnet0"}, {Name: "vnet1"}}, OpenVSwitch: &facts.OpenVSwitch{
			Bridges: []facts.OVSBridge{{Name: "br0", Datapath: datapath, Ports: []facts.OVSPort{
				{Name: "vnet0", Interfaces: []facts.OVSInterface{{Name: "vnet0"}}},
				{Name: "vnet1", Interfaces: []facts.OVSInterface{{Name: "vnet1"}}}}}}}}
		warnings := processSwitches(h)
		if found := codes(warnings); found != want || len(warnings) > 1 {
			t.Errorf("%s: %+v", datapath, warnings)
		}
	}
}

// TestOtherNamespaces: path names running guests whose packets it does not follow.
func TestOtherNamespaces(t *testing.T) {
	here, pod := facts.Guest{Name: "web", State: "running"}, facts.Guest{Name: "pod", State: "running", Elsewhere: true}
	off := facts.Guest{Name: "off", State: "shut off", Elsewhere: true}
	for want, guests := range map[string][]facts.Guest{"": {here, off}, "other-namespace": {here, off, pod}} {
		if warnings := otherNamespaces(&facts.Host{Guests: guests}); codes(warnings) != want {
			t.Errorf("%+v: %+v", guests, warnings)
		}
	}
}
