package link

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/lanes"
	"mpps/internal/machine/tree"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestTapOf: a lane names its tap, or the address of the guest's NIC; a bridge that adopted its port's address is not a
// tap.
func TestTapOf(t *testing.T) {
	devices := []Device{
		{Name: "br0", Index: 2, Kind: "bridge", mac: "fe:54:00:aa:bb:01"},
		{Name: "vnet7", Index: 5, Kind: "tun", mac: "fe:54:00:aa:bb:01"},
		{Name: "vnet8", Index: 6, Kind: "tun", mac: "fe:54:00:aa:bb:02"},
		{Name: "cont0", Index: 7, Kind: "veth", mac: "52:54:00:aa:bb:03"},
		{Name: "mine", Index: 8, Kind: "tun", mac: "52:54:00:aa:bb:04"}, // made by hand, with the guest's own address
	}
	for tap, want := range map[string]lanes.Device{
		"52:54:00:aa:bb:01": {Name: "vnet7", Index: 5}, "vnet8": {Name: "vnet8", Index: 6},
		"cont0":             {Name: "cont0", Index: 7, Unrecorded: true},
		"52:54:00:aa:bb:04": {Name: "mine", Index: 8}, "52:54:00:aa:bb:03": {}, "vnet9": {}, "52:54:00:aa:bb:09": {},
	} {
		if found, is := tapOf(devices, tap); found != want || is != (want.Index > 0) {
			t.Errorf("%s: found %+v, %v; expected %+v", tap, found, is, want)
		}
	}
}

// TestBetween: a guest's packets pass only the tunnels, VLANs and bonds below its bridge that lead to the NIC.
func TestBetween(t *testing.T) {
	devices := []Device{
		{Name: "eth0", Index: 1, master: 3}, {Name: "eth1", Index: 2, master: 3},
		{Name: "bond0", Index: 3, Kind: "bond"},
		{Name: "bond0.7", Index: 4, Kind: "vlan", lower: 3, master: 10}, {Name: "bond0.9", Index: 9, Kind: "vlan",
			lower: 3, master: 10}, {Name: "vx0", Index: 5, Kind: "vxlan", lower: 4, master: 11},
		{Name: "eth9", Index: 6}, {Name: "eth9.8", Index: 7, Kind: "vlan", lower: 6, master: 10},
		{Name: "gre9", Index: 8, Kind: "gretap", master: 10},
		{Name: "br0", Index: 10, Kind: "bridge"}, {Name: "br1", Index: 11, Kind: "bridge"},
		{Name: "vnet0", Index: 20, Kind: "tun", master: 10}, {Name: "vnet1", Index: 21, Kind: "tun", master: 11},
		{Name: "vnet2", Index: 22, Kind: "tun"},
	}
	for _, c := range []struct {
		tap, nic int
		want     string
	}{
		{20, 1, "bond0 bond0.7 bond0.9"}, {20, 2, "bond0 bond0.7 bond0.9"}, {20, 6, "eth9.8"},
		{21, 1, "bond0 bond0.7 vx0"}, {21, 6, ""}, {22, 1, ""}, {99, 1, ""},
	} {
		var names []string
		for _, d := range between(devices, c.tap, c.nic) {
			names = append(names, d.Name)
		}
		slices.Sort(names)
		must.Equal(t, strings.Join(names, " "), c.want, "from %d to %d", c.tap, c.nic)
	}
}

// TestLanesOfRecordedTree: lanes of a recorded machine can be neither read nor written.
func TestLanesOfRecordedTree(t *testing.T) {
	m := must.Get(tree.Open(t.TempDir()))(t)
	defer m.Close()
	nic := setting.Of(setting.QueueLanes, "eth0")
	if r := (queueLanes{m}).Read(t.Context(), nic); r.State != setting.Unknown || r.Why == "" {
		t.Errorf("reads %s (%s)", r, r.Why)
	}
	for _, to := range []setting.Reading{setting.Value("tap0=0+1"), setting.Missing("")} {
		must.Refuse(t, (queueLanes{m}).Write(t.Context(), nic, to), "%s was written", to)
	}
}
