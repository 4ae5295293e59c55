package setting

import (
	"context"
	"errors"
	"fmt"
)

// State is one of the three answers to "what is there?".
type State int

// The three answers.
const (
	Unknown State = iota // could not tell; Reading.Why says why. Never a verdict.
	Absent               // the machine has no such value (feature not supported, element not in the XML)
	Known                // there is a value
)

var stateNames = [...]string{Unknown: "unknown", Absent: "absent", Known: "known"}

// String is the state's name as it stands in JSON.
func (s State) String() string { return stateNames[s] }

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(stateNames[s]), nil }

// UnmarshalText reads a state's name.
func (s *State) UnmarshalText(b []byte) error {
	for i, name := range stateNames {
		if name == string(b) {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("unknown state %q", b)
}

// Reading is what was found at an address.
type Reading struct {
	State State  `json:"state"`
	Value string `json:"value,omitempty"` // canonical; meaningful only when Known
	Why   string `json:"why,omitempty"`   // reason of Unknown or Absent
	// Verbatim is set where more stands there than Value says and nobody asks for: the place in the guest that libvirt
	// gave an interface. A write of the reading brings it back. It does not count in comparisons.
	Verbatim string `json:"verbatim,omitempty"`
	// AsFound is set where the value would be refused today (queues of a NIC model that has none). A write of the
	// reading restores it all the same.
	AsFound bool `json:"as_found,omitempty"`
	// ReadOnly is set where the value can be seen but the kernel or driver offers no way to change it
	// (an offload marked [fixed], a managed interrupt), with the reason in Why.
	ReadOnly bool `json:"read_only,omitempty"`
	// NoObject is set where the value is absent because what it belongs to is not there: a guest that is not defined,
	// a device that was removed. There is nothing that a write could restore.
	NoObject bool `json:"no_object,omitempty"`
	// Unsupported is set where the value is absent because the kernel, driver or device does not offer it.
	Unsupported bool `json:"unsupported,omitempty"`
	// Bounds of the value where the kernel or driver tells them (ring maximum, channel maximum); nil where it does not.
	Min *int64 `json:"min,omitempty"`
	Max *int64 `json:"max,omitempty"`
}

// Value is a known reading.
func Value(v string) Reading { return Reading{State: Known, Value: v} }

// Missing is an absent reading with its reason.
func Missing(why string) Reading { return Reading{State: Absent, Why: why} }

// NoObject is an absent reading of something whose object is not there.
func NoObject(why string) Reading { return Reading{State: Absent, Why: why, NoObject: true} }

// CouldNotTell is an unknown reading with its reason.
func CouldNotTell(why string) Reading { return Reading{State: Unknown, Why: why} }

// Same reports whether two readings hold the same answer. Bounds and reasons do not count.
func (r Reading) Same(other Reading) bool {
	return r.State == other.State && (r.State != Known || r.Value == other.Value)
}

// String is the reading for people: the value, "absent" or "unknown".
func (r Reading) String() string {
	if r.State == Known {
		return r.Value
	}
	return r.State.String()
}

// Mechanism reads and writes the values of one kind on one machine.
//
// Read answers with one of the three states and never fails: what it could not do is the reason of an Unknown.
// Write makes the address hold what the reading says: Known writes the value, Absent removes it (only kinds whose
// values can be absent accept that). A refused write returns the kernel's error wrapped, and has changed nothing.
// Both honour the context's deadline: writes to sysfs and ethtool can hang. One that did not return in time, or whose
// program was ended before it was done, returns ErrInDoubt.
type Mechanism interface {
	Read(ctx context.Context, a Address) Reading
	Write(ctx context.Context, a Address, to Reading) error
}

// Together is a Mechanism for whose values one write takes as long as many: the boot loader's files are remade by a
// program of seconds. WriteAll writes all of them or, where it returns an error, none.
type Together interface {
	Mechanism
	WriteAll(ctx context.Context, all []Assignment) error
}

// Reads is a Mechanism that reads many values in the time of one. All must be of one object.
type Reads interface {
	Mechanism
	ReadAll(ctx context.Context, all []Address) []Reading
}

// Assignment is a value for an address.
type Assignment struct {
	Address Address
	To      Reading
}

// ErrInDoubt marks a write that did not return in time: whether it took effect, or still will, is not known.
var ErrInDoubt = errors.New("in doubt: it is not known whether it took effect")

// Within runs a call that can hang in the kernel (sysfs stores and ethtool ioctls sleep on driver locks) and stops
// waiting for it when ctx ends: the result is then ErrInDoubt with the cause. The call itself cannot be cancelled.
func Within(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrInDoubt, context.Cause(ctx))
	}
}

// Mechanisms finds the mechanism of a kind.
type Mechanisms map[Kind]Mechanism

// Read reads one address; a kind without a mechanism is Unknown.
func (m Mechanisms) Read(ctx context.Context, a Address) Reading {
	mechanism, ok := m[a.Kind]
	if !ok {
		return CouldNotTell(fmt.Sprintf("nothing here reads values of kind %q", a.Kind))
	}
	return mechanism.Read(ctx, a)
}

// ReadAll reads addresses of one kind and object, together where the mechanism can.
func (m Mechanisms) ReadAll(ctx context.Context, all []Address) []Reading {
	if len(all) > 1 {
		if together, able := m[all[0].Kind].(Reads); able {
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
