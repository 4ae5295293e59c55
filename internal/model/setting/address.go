// Package setting names single values of a machine and compares them. An Address names one value, a Kind is the family
// of kernel interfaces behind it, a Mechanism reads and writes values of one kind. The package is pure: mechanisms that
// touch the machine are below internal/machine.
package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is a family of values that are read and written the same way. Its name is the scheme of an address and is stored
// in journals: never rename or reuse one.
type Kind string

// Address names one value on the machine: "sysctl:net.core.netdev_max_backlog", "nic-ring:eth0/rx",
// "domain:vm1/interface/52:54:00:00:00:01/driver.queues". Journals store addresses, so one never changes its meaning
// between versions. Path is a slash-separated list that the kind defines; for kinds with objects (device, guest, IRQ)
// the first element is the object.
type Address struct {
	Kind Kind
	Path string
}

// Of returns the address of a kind and the elements of its path.
func Of(kind Kind, elements ...string) Address {
	return Address{Kind: kind, Path: strings.Join(elements, "/")}
}

// Object returns the first element of the path: a device, a guest, an interrupt number, a sysctl.
func (a Address) Object() string {
	object, _, _ := strings.Cut(a.Path, "/")
	return object
}

// Rest returns the path after the object, "" if there is none.
func (a Address) Rest() string {
	_, rest, _ := strings.Cut(a.Path, "/")
	return rest
}

// Device returns the network device that holds a value; empty if none does, or if the kind is not one of devices.
func (a Address) Device() string {
	switch a.Kind {
	case NICRing, NICChannels, NICCoalesce, NICFeature, NICFlag, NICFlowHash, IRQAffinity, VFCount, NICState,
		QueueLanes, RootQdisc:
		return a.Object()
	case Sysfs, SysfsCPUs:
		if rest, below := strings.CutPrefix(a.Path, "class/net/"); below {
			return Address{Path: rest}.Object()
		}
	case Sysctl: // net.ipv4.conf.eth0.forwarding
		if elements := strings.Split(SysctlPath(a.Path), "/"); len(elements) == 5 && elements[0] == "net" {
			return elements[3]
		}
	}
	return ""
}

// Guest returns the guest that a value belongs to; empty if the kind is not one of guests.
func (a Address) Guest() string {
	switch a.Kind {
	case Domain, DomainDevice, DomainLive, ThreadAffinity, GuestArg, Inside:
		return a.Object()
	}
	return ""
}

// CPU returns the number of the CPU that a value in sysfs belongs to.
func (a Address) CPU() (int, bool) {
	rest, below := strings.CutPrefix(a.Path, "devices/system/cpu/cpu")
	n, err := strconv.Atoi(Address{Path: rest}.Object())
	return n, a.Kind == Sysfs && below && err == nil && n >= 0
}

// GuestNIC returns the guest and the MAC address of the guest's NIC that a value belongs to; empty if there is none.
func (a Address) GuestNIC() (guest, mac string) {
	elements := strings.Split(a.Path, "/")
	switch {
	case len(elements) < 3:
	case (a.Kind == Domain || a.Kind == DomainDevice) && elements[1] == "interface",
		a.Kind == ThreadAffinity && elements[1] == "vhost":
		mac, _, _ = strings.Cut(elements[2], "@") // half of a failover pair
		return elements[0], mac
	}
	return "", ""
}

// String returns the address as output, plans and journals have it.
func (a Address) String() string { return string(a.Kind) + ":" + a.Path }

// AddressError is an error at an address.
type AddressError struct {
	Address Address
	Err     error
}

func (e *AddressError) Error() string { return e.Address.String() + ": " + e.Err.Error() }

func (e *AddressError) Unwrap() error { return e.Err }

// Errorf returns an *AddressError with an error of fmt.Errorf.
func (a Address) Errorf(format string, args ...any) error {
	return &AddressError{a, fmt.Errorf(format, args...)}
}

// Compare orders addresses by kind and path, for deterministic output.
func (a Address) Compare(b Address) int { return strings.Compare(a.String(), b.String()) }

// ParseAddress parses the result of String. It refuses unknown kinds, empty paths, control characters and the elements
// "." and "..": an address from a file must never leave the interface that it names.
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

// MarshalText returns String.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses an address and refuses malformed ones.
func (a *Address) UnmarshalText(b []byte) error {
	parsed, err := ParseAddress(string(b))
	if err != nil {
		return err
	}
	*a = parsed
	return nil
}
