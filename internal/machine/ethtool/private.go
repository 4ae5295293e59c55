package ethtool

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/nicctl"
	"mpps/internal/model/setting"
)

const (
	privateFlagsSet = 2  // ETH_SS_PRIV_FLAGS
	maxPrivateFlags = 32 // bits of the word that ETHTOOL_GPFLAGS returns (struct ethtool_value)
	flagNameLength  = 32 // ETH_GSTRING_LEN
)

// call makes one call of the ioctl interface: Conn.ioctl.
type call func(device string, words []uint32) error

// privateFlags returns the names of a driver's private flags, in the order of their bits, and which of them are on. A
// driver that has none returns no names.
func privateFlags(ioctl call, device string) (names []string, on uint32, err error) {
	// struct ethtool_sset_info: command, reserved, 64-bit mask, a count for the one bit of the mask
	info := make([]uint32, 5)
	info[0] = unix.ETHTOOL_GSSET_INFO
	*nicctl.Quad(info[2:]) = 1 << privateFlagsSet
	if err := ioctl(device, info); err != nil {
		return nil, 0, fmt.Errorf("asking for the number of private flags: %w", err)
	}
	n := min(int(info[4]), maxPrivateFlags)
	if *nicctl.Quad(info[2:]) == 0 || n == 0 { // the kernel clears the bit of a set that the driver does not have
		return nil, 0, nil
	}
	// struct ethtool_gstrings: command, set, count, and the names
	words := make([]uint32, 3+n*flagNameLength/4)
	words[0], words[1], words[2] = unix.ETHTOOL_GSTRINGS, privateFlagsSet, uint32(n)
	if err := ioctl(device, words); err != nil {
		return nil, 0, fmt.Errorf("asking for the names of private flags: %w", err)
	}
	text := nicctl.Bytes(words[3:])
	for i := range n {
		names = append(names, nicctl.Text(text[i*flagNameLength:(i+1)*flagNameLength]))
	}
	flags := []uint32{unix.ETHTOOL_GPFLAGS, 0}
	if err := ioctl(device, flags); err != nil {
		return nil, 0, fmt.Errorf("asking for private flags: %w", err)
	}
	return names, flags[1], nil
}

// setPrivateFlag switches one private flag, and leaves the others as they are.
func setPrivateFlag(ioctl call, device, name string, on bool) error {
	names, flags, err := privateFlags(ioctl, device)
	if err != nil {
		return err
	}
	bit := slices.Index(names, name)
	if bit < 0 {
		return fmt.Errorf("%w: no private flag %q", unix.EOPNOTSUPP, name)
	}
	if flags &^= 1 << bit; on {
		flags |= 1 << bit
	}
	return ioctl(device, []uint32{unix.ETHTOOL_SPFLAGS, flags})
}

func readFlag(e *Conn, device, name string) (setting.Reading, error) {
	names, on, err := privateFlags(e.ioctl, device)
	if err != nil {
		return setting.Reading{}, err
	}
	bit := slices.Index(names, name)
	if bit < 0 {
		return setting.Missing("the driver has no private flag " + name), nil
	}
	return setting.Value(onOff(on>>bit&1 != 0)), nil
}

func writeFlag(e *Conn, device, name, value string) error {
	return setPrivateFlag(e.ioctl, device, name, value == "on")
}
