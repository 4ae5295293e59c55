package setting

import "slices"

// Inside: "inside:vm1/sysctl:kernel.timer_migration", a libvirt guest and the address of a value in it, which its guest
// agent reads and writes. The canonical value is that of the inner kind.
const Inside Kind = "inside"

// insideKinds are the kinds that can be read and set inside a guest.
var insideKinds = []Kind{Sysctl, Sysfs, SysfsCPUs, NICChannels, IRQAffinity, Service, Swap}

// InGuest returns the address of a value inside a guest.
func InGuest(guest string, inner Address) Address { return Of(Inside, guest, inner.String()) }

// Inner returns the address that a value inside a guest has in that guest.
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

// valueKind returns the kind that defines the canonical form of the value.
func (a Address) valueKind() Kind {
	if inner, err := a.Inner(); err == nil {
		return inner.Kind
	}
	return a.Kind
}
