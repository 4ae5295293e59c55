package facts

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestVFRefuses goes through what each driver takes, at the edges of its bounds.
func TestVFRefuses(t *testing.T) {
	ten := VFPort{Driver: "ixgbe", Speed: 10000, Carrier: "up"}
	port := func(driver string, speed int, carrier string) VFPort { return VFPort{driver, speed, carrier} }
	for _, c := range []struct {
		port             VFPort
		now              VF
		attribute, value string
		because          string // empty: taken
	}{
		{ten, VF{}, "max_tx_rate", "0", ""},
		{ten, VF{}, "max_tx_rate", "10", "11 to 10000"},
		{ten, VF{}, "max_tx_rate", "11", ""},
		{ten, VF{}, "max_tx_rate", "10000", ""},
		{ten, VF{}, "max_tx_rate", "10001", "11 to 10000"},
		{port("ixgbe", 1000, "up"), VF{}, "max_tx_rate", "100", "only while its link is up at 10000 Mb/s, found 1000"},
		{port("ixgbe", 1000, "up"), VF{}, "max_tx_rate", "0", "only while its link is up at 10000 Mb/s, found 1000"},
		{port("ixgbe", 0, "down"), VF{}, "max_tx_rate", "100", "found it down"},
		{port("ixgbe", 0, "down"), VF{}, "max_tx_rate", "0", "found it down"},
		{ten, VF{}, "min_tx_rate", "1", "guarantees no rate"},
		{ten, VF{}, "link_state", "enable", "does nothing for link_state enable"},
		{ten, VF{}, "link_state", "disable", ""},

		{port("i40e", 10000, "up"), VF{}, "max_tx_rate", "49", "silently makes 50"},
		{port("i40e", 10000, "up"), VF{}, "max_tx_rate", "50", ""},
		{port("i40e", 10000, "up"), VF{}, "max_tx_rate", "75", "steps of 50"},
		{port("i40e", 10000, "up"), VF{}, "max_tx_rate", "10050", "50 to 10000"},
		{port("i40e", 40000, "up"), VF{}, "max_tx_rate", "40000", ""},
		{port("i40e", 0, "down"), VF{}, "max_tx_rate", "0", ""},
		{port("i40e", 10000, "up"), VF{}, "min_tx_rate", "50", "must be 0"},

		{port("igb", 1000, "up"), VF{}, "max_tx_rate", "1001", "1 to 1000"},
		{port("igb", 1000, "up"), VF{}, "max_tx_rate", "1", ""},
		{port("igb", 1000, "up"), VF{}, "link_state", "enable", "cannot set link_state"},
		{port("igb", 1000, "up"), VF{}, "min_tx_rate", "1", "guarantees no rate"},

		{port("ice", 100000, "up"), VF{}, "max_tx_rate", "100000", ""},
		{port("ice", 100000, "up"), VF{}, "max_tx_rate", "100001", "1 to 100000"},
		{port("ice", 25000, "up"), VF{}, "min_tx_rate", "25001", "more than the link has"},
		{port("ice", 25000, "up"), VF{MaxTxRate: 100}, "min_tx_rate", "101", "more than max_tx_rate"},
		{port("ice", 25000, "up"), VF{MinTxRate: 100}, "max_tx_rate", "99", "less than min_tx_rate"},
		{port("ice", 25000, "up"), VF{MinTxRate: 100}, "max_tx_rate", "0", ""},

		{port("mlx5_core", 25000, "up"), VF{}, "max_tx_rate", "7", ""},
		{port("mlx5_core", 25000, "up"), VF{}, "min_tx_rate", "5", ""},
		{port("mlx4_core", 40000, "up"), VF{}, "max_tx_rate", "100", "only a function with a VLAN"},
		{port("mlx4_core", 40000, "up"), VF{VLAN: 5}, "max_tx_rate", "100", ""},
		{port("mlx4_core", 40000, "up"), VF{}, "trust", "on", "cannot set trust"},
		{port("mlx4_core", 40000, "up"), VF{MAC: NoMAC}, "spoofchk", "on", "set mac first"},
		{port("mlx4_core", 40000, "up"), VF{SpoofCheck: true}, "mac", NoMAC, "while spoofchk is on"},

		{port("bnxt_en", 25000, "up"), VF{}, "qos", "3", "only with a VLAN"},
		{port("bnxt_en", 25000, "up"), VF{VLAN: 2}, "qos", "3", ""},
		{port("bnxt_en", 25000, "up"), VF{}, "max_tx_rate", "25001", "1 to 25000"},
		{port("be2net", 10000, "up"), VF{}, "max_tx_rate", "99", "100 to 10000"},
		{port("be2net", 10000, "up"), VF{}, "mac", NoMAC, altNoMAC + " stands for it"},
		{port("be2net", 10000, "up"), VF{}, "mac", altNoMAC, ""},
		{port("bnx2x", 10000, "up"), VF{}, "max_tx_rate", "100", "cannot set max_tx_rate"},
		{port("enic", 10000, "up"), VF{}, "qos", "1", "cannot set qos"},
		{port("netdevsim", 0, "up"), VF{}, "max_tx_rate", "123456", ""},
		{port("netdevsim", 0, "up"), VF{}, "link_state", "enable", ""},

		{port("new", 0, ""), VF{}, "max_tx_rate", "16777217", "from 0 to 16777216"},
		{port("new", 0, ""), VF{}, "vlan", "4095", "0 to 4094"},
		{port("new", 0, ""), VF{}, "vlan", "4094", ""},
		{port("new", 0, ""), VF{}, "qos", "8", "0 to 7"},
		{port("new", 0, ""), VF{}, "mac", "01:00:5e:00:00:01", "address of a group"},
		{port("new", 0, ""), VF{}, "mac", "52:54:00:00:00", "one device"},
		{port("new", 0, ""), VF{}, "speed", "1", "no attribute"},
	} {
		err := c.port.Check(c.now, c.attribute, c.value)
		if c.because == "" && err != nil || c.because != "" &&
			(err == nil || !strings.Contains(err.Error(), c.because)) {
			t.Errorf("%s %s=%s: %v, expected %q", c.port.Driver, c.attribute, c.value, err, c.because)
		}
	}
}

// TestVFFresh holds what a new function has against what its driver takes: all of it can be written.
func TestVFFresh(t *testing.T) {
	for driver := range vfSetters {
		p := VFPort{Driver: driver, Speed: 10000, Carrier: "up"}
		now := VF{MAC: "52:54:00:00:00:01", VLAN: 5, QoS: 2, MaxTxRate: 500}
		for _, attribute := range VFAttributes {
			value, fresh := VFDefaults(driver)[attribute]
			takes, known, source := VFSettable(driver, attribute)
			if !known || source == "" || fresh && !takes {
				t.Errorf("%s %s: taken %v, known %v by %q, fresh %v", driver, attribute, takes, known, source, fresh)
			}
			if fresh {
				must.Succeed(t, p.Check(now, attribute, value),
					"%s: a new function has %s=%s, and that is refused", driver, attribute, value)
			}
		}
	}
	for driver, want := range map[string]string{"ixgbe": "on", "mlx5_core": "off", "netdevsim": "off", "enic": "",
		"unheard-of": ""} {
		must.Equal(t, VFDefaults(driver)["spoofchk"], want, "%s: spoofchk", driver)
	}
	if _, takes := VFDefaults("igb")["link_state"]; takes || !slices.Contains(VFAttributes, "link_state") {
		t.Error("igb has no link_state")
	}
}
