package report

import (
	"strings"
	"testing"

	"mpps/internal/advise/sriov"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestSRIOVListDraws(t *testing.T) {
	h := &facts.Host{
		NICs: []facts.NIC{{
			Name: "ens1f0", PCI: "0000:41:00.0", Driver: "igb", Node: 1, Up: true, Carrier: "up", Speed: 1000,
			SRIOV: &facts.SRIOV{Total: 7, Enabled: 4, AutoProbe: true},
		}},
		VFs: []facts.VF{
			{PF: "ens1f0", Index: 0, PCI: "0000:41:10.0", Group: 17, Driver: "vfio-pci", MAC: "52:54:00:00:01:00",
				VLAN: 100, MaxTxRate: 500, SpoofCheck: true, Untold: []string{"link_state"}},
			{PF: "ens1f0", Index: 1, PCI: "0000:41:10.2", Group: -1, Driver: "igbvf", NIC: "ens1v1", MAC: facts.NoMAC,
				Trust: true, LinkState: "disable", HostUse: "port of br0"},
			{PF: "ens1f0", Index: 2, PCI: "0000:41:10.4", Group: -1, MAC: facts.NoMAC, SpoofCheck: true,
				LinkState: "auto",
				Traffic:   &facts.VFTraffic{RxPackets: 1_234_567, RxBytes: 5 << 20, TxPackets: 12, RxDropped: 3}},
			{PF: "ens1f0", Index: 3, PCI: "0000:41:10.6", Group: -1, Driver: "igbvf", Untold: facts.VFAttributes},
		},
		Guests: []facts.Guest{
			{Name: "web1", State: "running", Hostdevs: []string{"0000:41:10.0"}}, {Name: "web2", State: "shut off",
				Hostdevs: []string{"0000:41:10.0"}},
		},
	}
	l := must.Get(sriov.Show(h, sriov.Which{}))(t)
	for _, c := range []struct {
		columns int
		want    []string
	}{
		{80, []string{
			"ens1f0  igb, 0000:41:00.0, node 1, link 1000 Mb/s: 4 of 7 VFs, 2 used, 2 free;",
			"  0  41:10.0  web1 !+1  52:54:00:00:01:00", "vlan=100", "max=500", "named by web1 and web2",
			"  1  41:10.2  host      none", "spoofchk=off", "trust=on", "link=disable", "(port of br0)",
			"  2  41:10.4  free      none", "rx=1.23M/5MiB tx=12/0B", "dropped=3", "  3  41:10.6  free      ?",
		}},
		{200, []string{
			"VF   PCI           GROUP  DRIVER    NIC     GUEST     MAC",
			"  0  0000:41:10.0  17     vfio-pci  –       web1 !+1  52:54:00:00:01:00  100   0    500  –    on        " +
				"off    ?",
			"  3  0000:41:10.6  –      igbvf     –       free      ?                  ?     ?    ?    ?    ?         " +
				"?      ?",
		}},
	} {
		drawn := Draw(c.columns, func(t *Text) { SRIOVList(t, l) })
		for _, want := range c.want {
			must.Hold(t, strings.Contains(drawn, want), "at %d columns: expected %q in\n%s", c.columns, want, drawn)
		}
		must.Fit(t, drawn, c.columns, Visible)
	}
	if drawn := Draw(80, func(t *Text) { SRIOVList(t, sriov.List{}) }); !strings.Contains(drawn, "sriov check") {
		t.Errorf("a host without physical functions: %s", drawn)
	}
}
