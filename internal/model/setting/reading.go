package setting

import (
	"context"
	"fmt"
	"slices"
)

// State is one of the three answers to "what is there?".
type State int

// The three answers.
const (
	Unknown State = iota // could not be read; Reading.Why says why
	Absent               // the machine has no such value (feature not supported, element not in the XML)
	Known                // there is a value
)

var stateNames = [...]string{Unknown: "unknown", Absent: "absent", Known: "known"}

// String returns the state's name as JSON has it.
func (s State) String() string { return stateNames[s] }

// MarshalText returns String.
func (s State) MarshalText() ([]byte, error) { return []byte(stateNames[s]), nil }

// UnmarshalText parses a state's name.
func (s *State) UnmarshalText(b []byte) error {
	if i := slices.Index(stateNames[:], string(b)); i >= 0 {
		*s = State(i)
		return nil
	}
	return fmt.Errorf("unknown state %q", b)
}

// Reading is what was found at an address.
type Reading struct {
	State State  `json:"state"`
	Value string `json:"value,omitempty"` // canonical; meaningful only when Known
	Why   string `json:"why,omitempty"`   // reason of Unknown or Absent
	// Verbatim is set if there is more than Value says and nobody asks for: for instance the guest PCI slot that
	// libvirt gave an interface. Writing the reading restores it. Comparisons ignore it.
	Verbatim string `json:"verbatim,omitempty"`
	// AsFound is set if the value would be refused today (queues of a NIC model that has none). Writing the reading
	// restores it all the same.
	AsFound bool `json:"as_found,omitempty"`
	// ReadOnly is set if the value can be read but the kernel or driver offers no way to change it (an offload marked
	// [fixed], a managed interrupt); Why has the reason.
	ReadOnly bool `json:"read_only,omitempty"`
	// NoObject is set if the value is absent because its object is: a guest that is not defined, a device that was
	// removed. A write has nothing to restore.
	NoObject bool `json:"no_object,omitempty"`
	// Unsupported is set if the value is absent because the kernel, driver or device does not offer it.
	Unsupported bool `json:"unsupported,omitempty"`
	// Bounds of the value if the kernel or driver reports them (ring maximum, channel maximum), otherwise nil.
	Min *int64 `json:"min,omitempty"`
	Max *int64 `json:"max,omitempty"`
}

// Value is a known reading.
func Value(v string) Reading { return Reading{State: Known, Value: v} }

// Missing is an absent reading with its reason.
func Missing(why string) Reading { return Reading{State: Absent, Why: why} }

// NoObject is an absent reading of something whose object does not exist.
func NoObject(why string) Reading { return Reading{State: Absent, Why: why, NoObject: true} }

// CouldNotTell is an unknown reading with its reason.
func CouldNotTell(why string) Reading { return Reading{State: Unknown, Why: why} }

// Same reports whether two readings have the same state and value. Bounds and reasons do not count.
func (r Reading) Same(other Reading) bool {
	return r.State == other.State && (r.State != Known || r.Value == other.Value)
}

// String returns the reading for people: the value, "absent" or "unknown".
func (r Reading) String() string {
	if r.State == Known {
		return r.Value
	}
	return r.State.String()
}

// Mechanism reads and writes the values of one kind on one machine.
//
// Read returns one of the three states and never fails: an Unknown has the reason. Write makes the address have the
// reading: Known writes the value, Absent removes it (only for kinds whose values can be absent). A refused write
// returns the kernel's error wrapped and has changed nothing. Both honour the context's deadline, because writes to
// sysfs and ethtool can hang. A write that did not return in time, or whose program was killed before it finished,
// returns ErrInDoubt.
type Mechanism interface {
	Read(ctx context.Context, a Address) Reading
	Write(ctx context.Context, a Address, to Reading) error
}

// BatchWriter is a Mechanism that writes many values in the time of one: the program that rebuilds the boot loader's
// files takes seconds. WriteAll writes all of them or, if it returns an error, none.
type BatchWriter interface {
	Mechanism
	WriteAll(ctx context.Context, all []Assignment) error
}

// BatchReader is a Mechanism that reads many values of one object in the time of one.
type BatchReader interface {
	Mechanism
	ReadAll(ctx context.Context, all []Address) []Reading
}

// Assignment is a value to write at an address.
type Assignment struct {
	Address Address
	To      Reading
}

// Mechanisms maps kinds to their mechanisms.
type Mechanisms map[Kind]Mechanism

// Read reads one address. A kind without a mechanism is Unknown.
func (m Mechanisms) Read(ctx context.Context, a Address) Reading {
	mechanism, ok := m[a.Kind]
	if !ok {
		return CouldNotTell(fmt.Sprintf("nothing here reads values of kind %q", a.Kind))
	}
	return mechanism.Read(ctx, a)
}

// ReadAll reads addresses of one kind and object, in one go if the mechanism can.
func (m Mechanisms) ReadAll(ctx context.Context, all []Address) []Reading {
	if len(all) > 1 {
		if together, able := m[all[0].Kind].(BatchReader); able {
			return together.ReadAll(ctx, all)
		}
	}
	readings := make([]Reading, len(all))
	for i, a := range all {
		readings[i] = m.Read(ctx, a)
	}
	return readings
}

// Write writes one address.
func (m Mechanisms) Write(ctx context.Context, a Address, to Reading) error {
	mechanism, ok := m[a.Kind]
	if !ok {
		return fmt.Errorf("nothing here writes values of kind %q", a.Kind)
	}
	return mechanism.Write(ctx, a, to)
}
