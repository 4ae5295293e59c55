package queuepath

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// onOpenVSwitch turns a host's bridge into one of Open vSwitch, with the NIC on another that a patch leads to.
func onOpenVSwitch(h *facts.Host, datapath string) {
	port := func(i facts.OVSInterface) facts.OVSPort {
		return facts.OVSPort{Name: i.Name, Interfaces: []facts.OVSInterface{i}}
	}
	patch := func(name, peer string) facts.OVSPort {
		return port(facts.OVSInterface{Name: name, Type: "patch", Options: map[string]string{"peer": peer}})
	}
	inner := facts.OVSBridge{Name: "br-int", Datapath: datapath, Ports: []facts.OVSPort{patch("to-ex", "to-int")}}
	master := map[string]string{"system": facts.OVSDatapath}[datapath]
	for i := range h.Taps {
		h.Taps[i].Master = master
		inner.Ports = append(inner.Ports, port(facts.OVSInterface{Name: h.Taps[i].Name}))
	}
	outer := facts.OVSBridge{Name: "br-ex", Datapath: datapath,
		Ports: []facts.OVSPort{patch("to-int", "to-ex"), port(facts.OVSInterface{Name: "eth0"})}}
	h.Bridges, h.NICs[0].Master = nil, master
	h.OpenVSwitch = &facts.OpenVSwitch{Bridges: []facts.OVSBridge{outer, inner}}
}

// TestSteerOpenVSwitch: taps on Open vSwitch's kernel datapath are steered to the NIC behind the patch port as through
// a Linux bridge, though nothing was watched. A datapath that is a process is declined by the name of its bridge.
func TestSteerOpenVSwitch(t *testing.T) {
	bridged, switched := steerHost(2, 4, 8), steerHost(2, 4, 8)
	onOpenVSwitch(switched, "system")
	want, errWant := Steer(bridged, nil, SteerOptions{})
	got, err := Steer(switched, nil, SteerOptions{})
	must.Hold(t, err == nil && errWant == nil && len(got.Groups) == 1 &&
		slices.Equal(got.Groups[0].NICs, []string{"eth0"}) && got.Groups[0].Means == want.Groups[0].Means &&
		len(got.Changes) == len(want.Changes), "%+v, %v; on a Linux bridge %+v, %v", got, err, want, errWant)

	netdev := steerHost(2, 4, 8)
	onOpenVSwitch(netdev, facts.UserDatapath)
	var refusal *Refusal
	if _, err := Steer(netdev, nil, SteerOptions{}); !errors.As(err, &refusal) || !strings.Contains(err.Error(), "br-int") {
		t.Errorf("a process switches, and the answer was: %v", err)
	}
	if b := ProcessSwitches(netdev); !slices.Equal(b, []string{"br-int"}) || len(ProcessSwitches(switched)) > 0 {
		t.Errorf("switched by a process: %v", b)
	}
}

// TestBetweenOpenVSwitch: a tunnel of Open vSwitch is between a tap and the NIC below.
func TestBetweenOpenVSwitch(t *testing.T) {
	h := steerHost(1, 4, 8)
	onOpenVSwitch(h, "system")
	h.NICs[0].Master = ""
	h.Tunnels = []facts.Tunnel{{Name: "genev_sys_6081", Type: "geneve", Master: facts.OVSDatapath,
		Underlay: []string{"eth0"}, TxQueues: 1, LocklessBy: "driver", Up: true}}
	h.OpenVSwitch.Bridges[1].Ports = append(h.OpenVSwitch.Bridges[1].Ports, facts.OVSPort{Name: "ovn-hv2-0",
		Interfaces: []facts.OVSInterface{{Name: "ovn-hv2-0", Type: "geneve"}}})
	h.OpenVSwitch.Bridges[0].Ports = h.OpenVSwitch.Bridges[0].Ports[:1]
	got, err := Steer(h, nil, SteerOptions{})
	must.Need(t, err == nil && len(got.Groups) == 1 && slices.Equal(got.Groups[0].NICs, []string{"eth0"}),
		"%+v, %v", got, err)
	if !slices.ContainsFunc(got.Advice, func(a Advice) bool {
		return strings.Contains(a.Text, "genev_sys_6081") && a.Command == ""
	}) {
		t.Errorf("the tunnel with one locked queue is not named: %+v", got.Advice)
	}
}
