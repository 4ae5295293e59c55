package host

import (
	"slices"
	"testing"
)

func TestDefaultRoutes(t *testing.T) {
	ipv4 := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"br0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"eth1\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	ipv6 := "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     bond0\n" +
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n" +
		"fe800000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth1\n"
	if got := defaultRoutes(ipv4, ipv6); !slices.Equal(got, []string{"br0", "bond0"}) {
		t.Errorf("default routes by %v, want br0 and bond0", got)
	}
}

func TestWayInGoesThroughBridgesVLANsAndBonds(t *testing.T) {
	devices := []device{
		{name: "br0", index: 10}, {name: "bond0.100", index: 11, master: 10, lower: 12}, {name: "bond0", index: 12},
		{name: "eth0", index: 1, master: 12}, {name: "eth1", index: 2, master: 12}, {name: "eth2", index: 3},
		{name: "vnet0", index: 13, master: 10}, {name: "loop", index: 20, lower: 21}, {name: "back", index: 21, lower: 20},
	}
	if got, want := under("br0", devices), []string{"br0", "bond0.100", "bond0", "eth0", "eth1", "vnet0"}; !slices.Equal(got, want) {
		t.Errorf("under br0: %v, want %v", got, want)
	}
	ends := []device{{name: "v0", index: 1, lower: 2}, {name: "v1", index: 2, lower: 1}, {name: "vlan", index: 3, lower: 1}}
	if parted(ends); ends[0].lower != 0 || ends[1].lower != 0 || ends[2].lower != 1 {
		t.Errorf("the ends of a pair are above each other: %+v", ends)
	}
	if got, want := under("loop", devices), []string{"loop", "back"}; !slices.Equal(got, want) {
		t.Errorf("devices that name each other: %v, want %v", got, want)
	}
}

func TestSSHClient(t *testing.T) {
	for value, want := range map[string]string{
		"192.0.2.7 50022 192.0.2.1 22": "192.0.2.7", "::ffff:192.0.2.7 1 ::1 22": "192.0.2.7", "fe80::1%eth0 1 x 22": "fe80::1%eth0",
		"": "", "host 1 2 3": "",
	} {
		address, known := parseSSHConnection(value)
		if got := address.String(); known != (want != "") || known && got != want {
			t.Errorf("%q: %s, %v; want %q", value, got, known, want)
		}
	}
	if pid := parentOf("77 (a) b) S 42 77 77 0"); pid != 42 {
		t.Errorf("parent %d, want 42", pid)
	}
}
