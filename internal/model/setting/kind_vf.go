package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Kinds of physical functions and the making of virtual ones.
const (
	// VFCount: "vf-count:ens1f0", a physical function. The number of virtual functions that it has. A write goes
	// through 0, which takes all of them away, and is refused while one of them is in use.
	VFCount Kind = "vf-count"
	// NICState: "nic-state:ens1f0", a network device. "up" or "down", as an administrator sets it (IFF_UP): not whether
	// there is a carrier.
	NICState Kind = "nic-state"
)

// AutoProbe is where a physical function says whether drivers of the host look for its virtual functions.
func AutoProbe(pf string) Address {
	return Of(Sysfs, "class/net", pf, "device/sriov_drivers_autoprobe")
}

// canonicalVFCount is a count of at most 65535: NumVFs of the SR-IOV capability has 16 bits (PCI Express Base
// Specification, "NumVFs").
func canonicalVFCount(raw string) (string, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(raw), 10, 16)
	if err != nil {
		return "", fmt.Errorf("expected a count of virtual functions from 0 to 65535, found %q", raw)
	}
	return strconv.FormatUint(n, 10), nil
}
