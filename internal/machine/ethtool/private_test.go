package ethtool

import (
	"errors"
	"reflect"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/must"
)

// driver is one that has private flags: no virtual device has.
type driver struct {
	names  []string
	on     uint32
	refuse uint32 // flags that it cannot switch on
}

func (d *driver) ioctl(_ string, words []uint32) error {
	switch words[0] {
	case unix.ETHTOOL_GSSET_INFO:
		if words[4] = uint32(len(d.names)); len(d.names) == 0 {
			*nicctl.Quad(words[2:]) = 0
		}
	case unix.ETHTOOL_GSTRINGS:
		for i, name := range d.names[:words[2]] {
			copy(nicctl.Bytes(words[3+i*flagNameLength/4:]), name)
		}
	case unix.ETHTOOL_GPFLAGS:
		words[1] = d.on
	case unix.ETHTOOL_SPFLAGS:
		if words[1]&d.refuse != 0 {
			return unix.EOPNOTSUPP
		}
		d.on = words[1]
	default:
		return unix.EINVAL
	}
	return nil
}

// TestPrivateFlags: a flag is set and read back, the others stay, and what the driver refuses is an error.
func TestPrivateFlags(t *testing.T) {
	d := &driver{names: []string{"rx_cqe_moder", "rx_striding_rq", "skb_tx_mpwqe"}, on: 0b011, refuse: 0b100}
	names, on, err := privateFlags(d.ioctl, "eth0")
	must.Hold(t, err == nil && reflect.DeepEqual(names, d.names) && on == 0b011, "found %q, %b, %v", names, on, err)
	if err := setPrivateFlag(d.ioctl, "eth0", "rx_striding_rq", false); err != nil || d.on != 0b001 {
		t.Errorf("flags are %b (%v), expected 1", d.on, err)
	}
	if err := setPrivateFlag(d.ioctl, "eth0", "rx_striding_rq", true); err != nil || d.on != 0b011 {
		t.Errorf("flags are %b (%v), expected 11", d.on, err)
	}
	for _, name := range []string{"skb_tx_mpwqe", "no_such"} {
		if err := setPrivateFlag(d.ioctl, "eth0", name, true); !errors.Is(err, unix.EOPNOTSUPP) || d.on != 0b011 {
			t.Errorf("%s: %v, flags are %b", name, err, d.on)
		}
	}
	if names, _, err := privateFlags((&driver{}).ioctl, "eth0"); len(names) > 0 || err != nil {
		t.Errorf("a driver without flags: %q, %v", names, err)
	}
}
