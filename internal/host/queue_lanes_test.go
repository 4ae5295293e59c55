package host

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/queuepath/lanes"
	"mpps/internal/setting"
)

// TestTapOf: a lane names its tap, or the address of the guest's NIC behind it; a bridge that took the address of its port is no tap.
func TestTapOf(t *testing.T) {
	devices := []device{
		{name: "br0", index: 2, kind: "bridge", mac: "fe:54:00:aa:bb:01"},
		{name: "vnet7", index: 5, kind: "tun", mac: "fe:54:00:aa:bb:01"},
		{name: "vnet8", index: 6, kind: "tun", mac: "fe:54:00:aa:bb:02"},
		{name: "cont0", index: 7, kind: "veth", mac: "52:54:00:aa:bb:03"},
		{name: "mine", index: 8, kind: "tun", mac: "52:54:00:aa:bb:04"}, // made by hand, with the guest's own address
	}
	for tap, want := range map[string]lanes.Device{
		"52:54:00:aa:bb:01": {Name: "vnet7", Index: 5}, "vnet8": {Name: "vnet8", Index: 6}, "cont0": {Name: "cont0", Index: 7, Unrecorded: true},
		"52:54:00:aa:bb:04": {Name: "mine", Index: 8}, "52:54:00:aa:bb:03": {}, "vnet9": {}, "52:54:00:aa:bb:09": {},
	} {
		if found, is := tapOf(devices, tap); found != want || is != (want.Index > 0) {
			t.Errorf("%s: found %+v, %v; expected %+v", tap, found, is, want)
		}
	}
}

// TestBetween: what a guest sends passes the tunnels, VLANs and bonds below its bridge that lead to the NIC, and no other.
func TestBetween(t *testing.T) {
	devices := []device{
		{name: "eth0", index: 1, master: 3}, {name: "eth1", index: 2, master: 3}, {name: "bond0", index: 3, kind: "bond"},
		{name: "bond0.7", index: 4, kind: "vlan", lower: 3, master: 10}, {name: "bond0.9", index: 9, kind: "vlan", lower: 3, master: 10}, {name: "vx0", index: 5, kind: "vxlan", lower: 4, master: 11},
		{name: "eth9", index: 6}, {name: "eth9.8", index: 7, kind: "vlan", lower: 6, master: 10}, {name: "gre9", index: 8, kind: "gretap", master: 10},
		{name: "br0", index: 10, kind: "bridge"}, {name: "br1", index: 11, kind: "bridge"},
		{name: "vnet0", index: 20, kind: "tun", master: 10}, {name: "vnet1", index: 21, kind: "tun", master: 11}, {name: "vnet2", index: 22, kind: "tun"},
	}
	for _, c := range []struct {
		tap, nic int
		want     string
	}{
		{20, 1, "bond0 bond0.7 bond0.9"}, {20, 2, "bond0 bond0.7 bond0.9"}, {20, 6, "eth9.8"}, {21, 1, "bond0 bond0.7 vx0"}, {21, 6, ""}, {22, 1, ""}, {99, 1, ""},
	} {
		var names []string
		for _, d := range between(devices, c.tap, c.nic) {
			names = append(names, d.Name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("from %d to %d: %q, expected %q", c.tap, c.nic, got, c.want)
		}
	}
}

// TestLanesOfRecordedTree: nobody can tell what was attached to a recorded machine, nor attach anything to it.
func TestLanesOfRecordedTree(t *testing.T) {
	m, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	nic := setting.Of(setting.QueueLanes, "eth0")
	if r := m.Mechanisms().Read(t.Context(), nic); r.State != setting.Unknown || r.Why == "" {
		t.Errorf("reads %s (%s)", r, r.Why)
	}
	for _, to := range []setting.Reading{setting.Value("tap0=0+1"), setting.Missing("")} {
		if err := m.Mechanisms().Write(t.Context(), nic, to); err == nil {
			t.Errorf("%s was written", to)
		}
	}
	if m.Writable(setting.QueueLanes) == nil {
		t.Error("is said to be writable")
	}
}
