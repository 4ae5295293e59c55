// Package setting names single values of a machine and says how such values compare. An Address names one value, a
// Kind says what family of kernel interface it lives behind, a Mechanism reads and writes values of one kind. The
// package is pure: mechanisms that touch the machine live below internal/machine.
package setting

import (
	"fmt"
	"strings"
)

// Kind is a family of values that are read and written in the same way. Its name is the scheme of an address and is
// stored in journals: never rename or reuse one.
type Kind string

// Address names one value on the machine: "sysctl:net.core.netdev_max_backlog", "nic-ring:eth0/rx",
// "domain:vm1/interface/52:54:00:00:00:01/driver.queues". It holds no value and never changes its meaning between
// versions, because journals store it. Path is a slash-separated list whose meaning belongs to the kind; its first
// element is the object (device, guest, IRQ) for all kinds that have objects.
type Address struct {
	Kind Kind
	Path string
}

// Of builds an address from a kind and the elements of its path.
func Of(kind Kind, elements ...string) Address {
	return Address{Kind: kind, Path: strings.Join(elements, "/")}
}

// Object is the first element of the path: a device, a guest, an interrupt number, a sysctl.
func (a Address) Object() string {
	object, _, _ := strings.Cut(a.Path, "/")
	return object
}

// Rest is the path behind the object, empty where there is none.
func (a Address) Rest() string {
	_, rest, _ := strings.Cut(a.Path, "/")
	return rest
}

// String is the address as it stands in outputs, plans and journals.
func (a Address) String() string { return string(a.Kind) + ":" + a.Path }

// AddressError is a failure at an address.
type AddressError struct {
	Address Address
	Err     error
}

// Error names the address.
func (e *AddressError) Error() string { return e.Address.String() + ": " + e.Err.Error() }

// Unwrap is the failure.
func (e *AddressError) Unwrap() error { return e.Err }

// Errorf makes an *AddressError of what fmt.Errorf returns.
func (a Address) Errorf(format string, args ...any) error {
	return &AddressError{a, fmt.Errorf(format, args...)}
}

// Compare orders addresses by kind and path, for deterministic output.
func (a Address) Compare(b Address) int { return strings.Compare(a.String(), b.String()) }

// ParseAddress reads what String wrote. It refuses kinds it does not know, empty paths, control characters and ".."
// elements: an address from a file must never escape the interface it names.
func ParseAddress(text string) (Address, error) {
	kind, path, found := strings.Cut(text, ":")
	if !found {
		return Address{}, fmt.Errorf("address %q: expected KIND:PATH", text)
	}
	if _, known := Kinds[Kind(kind)]; !known {
		return Address{}, fmt.Errorf("address %q: unknown kind %q", text, kind)
	}
	if path == "" {
		return Address{}, fmt.Errorf("address %q: empty path", text)
	}
	for _, element := range strings.Split(path, "/") {
		if element == ".." || element == "." {
			return Address{}, fmt.Errorf("address %q: path element %q is not allowed", text, element)
		}
	}
	if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return Address{}, fmt.Errorf("address %q: control character in path", text)
	}
	a := Address{Kind: Kind(kind), Path: path}
	if a.Kind == Inside {
		if _, err := a.Inner(); err != nil {
			return Address{}, err
		}
	}
	return a, nil
}

// MarshalText writes the address as String does.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads an address and refuses malformed ones.
func (a *Address) UnmarshalText(b []byte) error {
	parsed, err := ParseAddress(string(b))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}
