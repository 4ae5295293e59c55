package guestinit

import (
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mpps/internal/must"
)

func TestParseCmdline(t *testing.T) {
	c := must.Get(ParseCmdline("console=ttyS0 quiet mpps.hostname=g1 mpps.addr=eth0=10.50.0.2/24 " +
		"mpps.addr=52:54:00:aa:00:01=fd00::2/64 mpps.addr=eth2= mpps.route=default=10.50.0.1 " +
		"mpps.route=10.9.0.0/16=10.50.0.9 mpps.forward=1 other.x=1\n"))(t)
	want := Config{
		Addrs: []Addr{
			{Name: "eth0", Prefix: netip.MustParsePrefix("10.50.0.2/24")},
			{MAC: net.HardwareAddr{0x52, 0x54, 0, 0xaa, 0, 1}, Prefix: netip.MustParsePrefix("fd00::2/64")},
			{Name: "eth2"},
		},
		Routes: []Route{
			{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.50.0.1")},
			{To: netip.MustParsePrefix("10.9.0.0/16"), Via: netip.MustParseAddr("10.50.0.9")},
		},
		Forward: true, Hostname: "g1",
	}
	must.NoDiff(t, cmp.Diff(want, c, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b })), "difference")
	for _, bad := range []string{"mpps.addr=10.0.0.1/24", "mpps.addr=eth0=10.0.0.1", "mpps.addr=52:54:=10.0.0.1/8",
		"mpps.route=default", "mpps.route=x=10.0.0.1", "mpps.route=default=x"} {
		must.Fail(ParseCmdline(bad))(t, "%s: was accepted", bad)
	}
}

func FuzzParseCmdline(f *testing.F) {
	f.Add("mpps.addr=a=1.2.3.4/5 mpps.route=default=::1")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ParseCmdline(s)
		if err != nil {
			return
		}
		for _, a := range c.Addrs {
			if a.Name == "" && a.MAC == nil {
				t.Errorf("a NIC without a name: %+v", a)
			}
		}
	})
}

func TestModuleIsLoadedForItsDeviceOnly(t *testing.T) {
	mods := parseList("load virtio_net 00-failover.ko 01-virtio_net.ko\nalias virtio_net virtio:d00000001v*\nload " +
		"e1000 02-e1000.ko\nalias e1000 pci:v00008086d0000100Esv*sd*bc*sc*i*\nload sch_fq 03-sch_fq.ko\nalias " +
		"nonesuch x\nbroken\n")
	devices := []string{"virtio:d00000001v00001AF4", "pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00"}
	var got []string
	for _, m := range mods {
		if m.wanted(devices) {
			got = append(got, m.name)
		}
	}
	must.NoDiff(t, cmp.Diff([]string{"virtio_net", "sch_fq"}, got), "difference")
	must.NoDiff(t, cmp.Diff([]string{"00-failover.ko", "01-virtio_net.ko"}, mods[0].files), "difference")
}

func TestZombieOf(t *testing.T) {
	for stat, want := range map[string]bool{
		"12 (a) b) Z 1 12": true,
		"12 (a) S 1 12":    false,
		"12 (Z 1) Z 2 12":  false,
		"":                 false,
	} {
		must.Equal(t, zombieOf(stat, 1), want, "%q", stat)
	}
}
