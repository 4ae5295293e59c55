package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Kinds of PFs and of creating VFs.
const (
	// VFCount: "vf-count:ens1f0", a PF. The number of its VFs. A write goes through 0, which removes all of them, and
	// is refused while one of them is in use.
	VFCount Kind = "vf-count"
	// NICState: "nic-state:ens1f0", a network device. "up" or "down", as set by an administrator (IFF_UP); carrier does
	// not matter.
	NICState Kind = "nic-state"
)

// AutoProbe returns the address of the switch that lets drivers of the host bind the VFs of a PF.
func AutoProbe(pf string) Address {
	return Of(Sysfs, "class/net", pf, "device/sriov_drivers_autoprobe")
}

// canonicalVFCount accepts a count up to 65535: NumVFs of the SR-IOV capability has 16 bits (PCI Express Base
// Specification, "NumVFs").
func canonicalVFCount(raw string) (string, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(raw), 10, 16)
	if err != nil {
		return "", fmt.Errorf("expected a count of virtual functions from 0 to 65535, found %q", raw)
	}
	return strconv.FormatUint(n, 10), nil
}
