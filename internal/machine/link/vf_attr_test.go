package link

import (
	"reflect"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

func TestVFEncode(t *testing.T) {
	v := virtual{index: 3, vlan: 100, qos: 2, minRate: 0, maxRate: 500}
	for _, c := range []struct {
		attribute, value, driver string
		speed                    int
		words                    []uint32
		err                      string
	}{
		{"vlan", "7", "ixgbe", 0, []uint32{3, 7, 2}, ""},
		{"qos", "0", "ixgbe", 0, []uint32{3, 100, 0}, ""},
		{"max_tx_rate", "11", "ixgbe", 10000, []uint32{3, 0, 11}, ""},
		{"max_tx_rate", "0", "i40e", 10000, []uint32{3, 0, 0}, ""},
		{"max_tx_rate", "10", "ixgbe", 10000, nil, "11 to 10000"},
		{"max_tx_rate", "100", "ixgbe", 1000, nil, "up at 10000"},
		{"max_tx_rate", "49", "i40e", 10000, nil, "silently"},
		{"max_tx_rate", "75", "i40e", 10000, nil, "steps of 50"},
		{"max_tx_rate", "7", "mlx5_core", 0, []uint32{3, 0, 7}, ""},
		{"min_tx_rate", "5", "i40e", 0, nil, "must be 0"},
		{"min_tx_rate", "5", "mlx5_core", 0, []uint32{3, 5, 500}, ""},
		{"spoofchk", "on", "", 0, []uint32{3, 1}, ""},
		{"trust", "maybe", "", 0, nil, "on or off"},
		{"link_state", "disable", "", 0, []uint32{3, 2}, ""},
		{"link_state", "up", "", 0, nil, "auto, enable"},
		{"mac", "01:00:5e:00:00:01", "", 0, nil, "one device"},
		{"speed", "1", "", 0, nil, "no attribute"},
		{"vlan", "4095", "", 0, nil, "0 to 4094"},
	} {
		_, data, err := v.encode(c.attribute, c.value, facts.VFPort{Driver: c.driver, Speed: c.speed})
		if c.err != "" {
			must.Say(t, err, c.err, "%s=%s", c.attribute, c.value)
			continue
		}
		must.Hold(t, err == nil && reflect.DeepEqual(data, words(c.words...)),
			"%s=%s: %v, %v", c.attribute, c.value, data, err)
	}
	if _, data, err := v.encode("mac", "52:54:00:00:00:01", facts.VFPort{}); err != nil || len(data) != 36 ||
		data[4] != 0x52 || data[9] != 1 {
		t.Errorf("mac: %v, %v", data, err)
	}
}
