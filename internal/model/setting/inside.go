package setting

import "slices"

// Inside: "inside:vm1/sysctl:kernel.timer_migration", a guest of libvirt and an address of a value in its system, which
// its agent reads and writes. The canonical value of the inner kind.
const Inside Kind = "inside"

// insideKinds are the kinds of values that can be read and set inside a guest.
var insideKinds = []Kind{Sysctl, Sysfs, SysfsCPUs, NICChannels, IRQAffinity, Service, Swap}

// In is the address of a value inside a guest.
func In(guest string, inner Address) Address { return Of(Inside, guest, inner.String()) }

// Inner is the address that a value inside a guest has in the guest.
func (a Address) Inner() (Address, error) {
	if a.Kind != Inside {
		return Address{}, a.Errorf("expected an address inside a guest")
	}
	inner, err := ParseAddress(a.Rest())
	switch {
	case err != nil:
		return Address{}, a.Errorf("%w", err)
	case !slices.Contains(insideKinds, inner.Kind):
		return Address{}, a.Errorf("values of kind %q are not set inside a guest", inner.Kind)
	}
	return inner, nil
}

// of is the kind by which a value at an address is canonical.
func (a Address) of() Kind {
	if inner, err := a.Inner(); err == nil {
		return inner.Kind
	}
	return a.Kind
}
