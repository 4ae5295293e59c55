package link

import (
	"encoding/binary"
	"slices"
	"testing"

	"mpps/internal/must"
)

func TestDefaultRoutes(t *testing.T) {
	ipv4 := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"br0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	ipv6 := "00000000000000000000000000000000 00 00000000000000000000000000000000 00 " +
		"fe800000000000000000000000000001 00000400 00000001 00000000 00000003     bond0\n" +
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 " +
		"ffffffff 00000001 00000000 00200200       lo\n" +
		"fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 " +
		"00000100 00000001 00000000 00000001     eth1\n"
	must.Same(t, defaultRoutes(ipv4, ipv6), []string{"br0", "bond0"}, "default routes by")
}

func TestWayInGoesThroughBridgesVLANsAndBonds(t *testing.T) {
	devices := []Device{
		{Name: "br0", Index: 10}, {Name: "bond0.100", Index: 11, master: 10, lower: 12}, {Name: "bond0", Index: 12},
		{Name: "eth0", Index: 1, master: 12}, {Name: "eth1", Index: 2, master: 12}, {Name: "eth2", Index: 3},
		{Name: "vnet0", Index: 13, master: 10}, {Name: "loop", Index: 20, lower: 21},
		{Name: "back", Index: 21, lower: 20},
	}
	if got, want := withLower("br0", devices), []string{"br0", "bond0.100", "bond0", "eth0", "eth1",
		"vnet0"}; !slices.Equal(got, want) {
		t.Errorf("under br0: %v, want %v", got, want)
	}
	switched := []Device{
		{Name: "ovs-system", Index: 5, Kind: "openvswitch"}, {Name: "br-ex", Index: 6, Kind: "openvswitch"},
		{Name: "eth0", Index: 1, master: 5}, {Name: "eth1", Index: 2},
	}
	if got, want := withLower("br-ex", switched), []string{"br-ex", "ovs-system", "eth0"}; !slices.Equal(got, want) {
		t.Errorf("under a bridge of Open vSwitch: %v, want %v", got, want)
	}
	ends := []Device{{Name: "v0", Index: 1, lower: 2}, {Name: "v1", Index: 2, lower: 1},
		{Name: "vlan", Index: 3, lower: 1}}
	if separateVethEnds(ends); ends[0].lower != 0 || ends[1].lower != 0 || ends[2].lower != 1 {
		t.Errorf("the ends of a pair are above each other: %+v", ends)
	}
	if got, want := withLower("loop", devices), []string{"loop", "back"}; !slices.Equal(got, want) {
		t.Errorf("devices that name each other: %v, want %v", got, want)
	}
}

func TestSSHConnection(t *testing.T) {
	for value, want := range map[string]string{
		"192.0.2.7 50022 192.0.2.1 22":   "192.0.2.7:50022 192.0.2.1:22",
		"::ffff:192.0.2.7 1 ::1 22":      "192.0.2.7:1 [::1]:22",
		"fe80::1%eth0 1 fe80::2%eth0 22": "[fe80::1%eth0]:1 [fe80::2%eth0]:22",
		"":                               "", "host 1 2 3": "", "192.0.2.7 50022": "",
		"192.0.2.7 70000 192.0.2.1 22": "",
	} {
		one, known := parseSSHConnection(value)
		if got := one.client.String() + " " + one.server.String(); known != (want != "") || known && got != want {
			t.Errorf("%q: %s, %v; want %q", value, got, known, want)
		}
	}
	must.Equal(t, parentOf("77 (a) b) S 42 77 77 0"), 42, "parent")
}

func TestSockets(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the lines below are of a little-endian machine")
	}
	const head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
	all := map[string]session{}
	parseSockets(head+
		"   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1001 1 0 100 0 0 "+
		"10 0\n"+
		"   1: 010200C0:0016 070200C0:C366 01 00000000:00000000 02:000A 00000000     0        0 1002 2 0 20 4 30 10 "+
		"-1\n"+
		"   2: garbage 1 01 x\n", all)
	parseSockets(head+
		"   0: B80D0120000000000000000001000000:0016 B80D0120000000000000000007000000:C366 01 00000000:00000000 "+
		"00:00000000 00000000     0        0 1003 1\n"+
		"   1: 0000000000000000FFFF0000010200C0:0016 0000000000000000FFFF0000070200C0:C367 01 00000000:00000000 "+
		"00:00000000 00000000     0        0 1004 1\n", all)
	for name, want := range map[string]string{
		"socket:[1002]": "192.0.2.7:50022 192.0.2.1:22", "socket:[1003]": "[2001:db8::7]:50022 [2001:db8::1]:22",
		"socket:[1004]": "192.0.2.7:50023 192.0.2.1:22",
	} {
		must.Equal(t, all[name].client.String()+" "+all[name].server.String(), want, "%s", name)
	}
	must.Hold(t, len(all) == 3, "%d sockets, want 3: %v", len(all), all)
}
