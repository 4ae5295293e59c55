package setting

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Op says how a found value is compared with a wanted one.
type Op string

// The comparisons. AtLeast and AtMost are for counts; drivers round what they are given.
const (
	Exactly Op = "exactly"
	AtLeast Op = "at-least"
	AtMost  Op = "at-most"
	OneOf   Op = "one-of"
	Gone    Op = "gone" // the value must be absent
)

// Want is a wanted value: what satisfies it, and what to write otherwise.
type Want struct {
	Op    Op       `json:"op"`
	Value string   `json:"value,omitempty"` // canonical; what is written; for OneOf the first choice
	Set   []string `json:"set,omitempty"`   // the other choices of OneOf
}

// Exact wants one value.
func Exact(v string) Want { return Want{Op: Exactly, Value: v} }

// Least wants a count of n or more.
func Least(n int64) Want { return Want{Op: AtLeast, Value: strconv.FormatInt(n, 10)} }

// Most wants a count of n or less.
func Most(n int64) Want { return Want{Op: AtMost, Value: strconv.FormatInt(n, 10)} }

// Any wants one of several values and writes the first.
func Any(first string, others ...string) Want { return Want{Op: OneOf, Value: first, Set: others} }

// NotThere wants the value to be absent.
func NotThere() Want { return Want{Op: Gone} }

// Target returns the reading that a write should produce.
func (w Want) Target() Reading {
	if w.Op == Gone {
		return Missing("removed")
	}
	return Value(w.Value)
}

// Met reports whether a reading satisfies the want. An unknown reading neither satisfies nor violates it: callers check
// its state first.
func (w Want) Met(r Reading) bool {
	switch {
	case w.Op == Gone:
		return r.State == Absent
	case r.State != Known:
		return false
	}
	switch w.Op {
	case OneOf:
		return r.Value == w.Value || slices.Contains(w.Set, r.Value)
	case AtLeast, AtMost:
		have, errHave := strconv.ParseInt(r.Value, 10, 64)
		want, errWant := strconv.ParseInt(w.Value, 10, 64)
		if errHave != nil || errWant != nil {
			return r.Value == w.Value
		}
		if w.Op == AtLeast {
			return have >= want
		}
		return have <= want
	}
	return r.Value == w.Value
}

// String returns the want for people: "256", "at least 4", "1 or Y".
func (w Want) String() string {
	switch w.Op {
	case AtLeast:
		return "at least " + w.Value
	case AtMost:
		return "at most " + w.Value
	case OneOf:
		return strings.Join(append([]string{w.Value}, w.Set...), " or ")
	case Gone:
		return "absent"
	}
	return w.Value
}

// Canonical returns the want with its values in the canonical form of the address's kind.
func (w Want) Canonical(a Address) (Want, error) {
	if w.Op == Gone {
		return w, nil
	}
	info, ok := Kinds[a.valueKind()]
	if !ok {
		return Want{}, fmt.Errorf("%s: unknown kind", a)
	}
	var err error
	if w.Value, err = info.Canonical(w.Value); err != nil {
		return Want{}, fmt.Errorf("%s: %w", a, err)
	}
	set := make([]string, len(w.Set))
	for i, v := range w.Set {
		if set[i], err = info.Canonical(v); err != nil {
			return Want{}, fmt.Errorf("%s: %w", a, err)
		}
	}
	w.Set = set
	if len(set) == 0 {
		w.Set = nil
	}
	return w, nil
}
