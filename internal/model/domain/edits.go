package domain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Wish is one value that somebody wants in a domain. A path "interface/*/…" means every interface that can have it, or
// those that are named beside the wishes.
type Wish struct {
	Path  string
	Value string
	Off   bool // take the value away
}

// Edit is one value that was changed, or was as wanted already (From equals To).
type Edit = Difference

// Carry makes what is wished true, in the order of the wishes: a NIC's model before its queues, a node set before its
// mode. nics names interfaces by MAC address or index; with none, "interface/*" is every interface that can have such a
// value, and it is an error if there is none, or if one of them cannot have this value. on refuses what a host cannot
// do. At an error the document may be half edited.
//
// Values that go with what was wished (a processor model leaves no room for migratable) are edits too, before the
// others: who takes the edits back has to bring them back last.
func (d *Doc) Carry(wishes []Wish, nics []string, on Host) ([]Edit, error) {
	before, err := d.Clone()
	if err != nil {
		return nil, err
	}
	for _, key := range nics {
		if _, err := d.nicNamed(key); err != nil {
			return nil, err
		}
	}
	var edits []Edit
	given := map[string]string{}
	for _, w := range wishes {
		paths, err := d.expand(w, nics)
		if err != nil {
			return edits, err
		}
		for _, path := range paths {
			word := w.Value
			if w.Off {
				word = "(absent)"
			}
			one := d.oneName(path)
			if other, twice := given[one]; twice && other != word {
				return edits, &ConflictError{Path: path, One: other, Other: word}
			}
			given[one] = word
			e, err := d.carry(path, w, on)
			if err != nil {
				return edits, err
			}
			edits = append(edits, e)
		}
	}
	return append(lost(before, d, edits), edits...), nil
}

// filled is what libvirt makes of a value that is absent: to take it away is to set it to this.
// src/conf/cpu_conf.c: of host-passthrough and maximum, since 6.5.0
var filled = map[string]string{"cpu/migratable": "on"}

// lost are values that stand in one document and not in the other, but for those that edits name, whole or a part of
// them, and those of interfaces: one that gets another MAC address has other paths.
func lost(before, after *Doc, edits []Edit) []Edit {
	var all []Edit
	for _, gone := range Diff(before, after) {
		named := func(e Edit) bool {
			return gone.Path == e.Path || strings.HasPrefix(gone.Path, e.Path+".") ||
				strings.HasPrefix(e.Path, gone.Path+".")
		}
		if !gone.HasFrom || gone.HasTo || strings.HasPrefix(gone.Path, "interface/") ||
			slices.ContainsFunc(edits, named) {
			continue
		}
		if gone.To, gone.HasTo = filled[gone.Path], filled[gone.Path] != ""; gone.To != gone.From {
			all = append(all, gone)
		}
	}
	return all
}

// ConflictError says that two wishes want two values of one path.
type ConflictError struct{ Path, One, Other string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: wanted %q and %q, expected one value", e.Path, clip(e.One), clip(e.Other))
}

// Hint says what to do.
func (e *ConflictError) Hint() string { return "leave one of the two out" }

func (d *Doc) carry(path string, w Wish, on Host) (Edit, error) {
	e := Edit{Path: path}
	e.From, e.HasFrom = d.shown(path)
	if w.Off {
		if err := d.Delete(path); err != nil {
			return e, err
		}
		return e, nil
	}
	v, err := d.Check(path, w.Value)
	if err == nil {
		err = d.Supported(path, v, on)
	}
	if err != nil {
		return e, err
	}
	e.To, e.HasTo = v, true
	return e, d.Set(path, w.Value)
}

// expand gives the paths that a wish means.
func (d *Doc) expand(w Wish, nics []string) ([]string, error) {
	front, back, keyed := strings.Cut(w.Path, "interface/*/")
	if !keyed || front != "" {
		return []string{w.Path}, nil
	}
	t := d.interfaces()
	var paths []string
	var cannot error // the first interface's that can have no such value
	for i := range t.all {
		key := t.key(i)
		if r, _ := match(w.Path); r != nil && r.byIndex {
			key = strconv.Itoa(i)
		}
		path := "interface/" + key + "/" + back
		if len(nics) > 0 {
			if d.isNamed(i, nics) {
				paths = append(paths, path)
			}
			continue
		}
		err := d.takes(path, w)
		var bad *ValueError
		switch {
		case err == nil:
			paths = append(paths, path)
		case !errors.As(err, &bad) || !bad.Never:
			return nil, err
		case cannot == nil:
			cannot = err
		}
	}
	if len(paths) > 0 || w.Off {
		return paths, nil
	}
	if cannot == nil {
		cannot = &PathError{Path: w.Path, Problem: "the domain has no interfaces"}
	}
	return nil, cannot
}

// takes reports whether an interface that nobody named is meant, and why not.
func (d *Doc) takes(path string, w Wish) error {
	if w.Off {
		if _, present, err := d.Get(path); err == nil && !present {
			return never("an interface that has none", "")
		}
		return nil
	}
	_, err := d.Check(path, w.Value)
	return err
}

// oneName is the one spelling of a path: an interface by its index, keys in canonical form.
func (d *Doc) oneName(path string) string {
	p, err := d.find(path)
	if err != nil {
		return path
	}
	key, isNIC := strings.CutPrefix(p.path, "interface/")
	if !isNIC || len(p.chain) < 2 {
		return p.path
	}
	_, rest, _ := strings.Cut(key, "/")
	return "interface/" + strconv.Itoa(slices.Index(d.interfaces().all, p.chain[1])) + "/" + rest
}

// nicNamed gives the index of the interface of a MAC address or index.
func (d *Doc) nicNamed(key string) (int, error) {
	p, err := d.find("interface/" + key + "/type")
	if err != nil {
		var bad *PathError
		if errors.As(err, &bad) {
			bad.Path = "interface/" + clip(key)
		}
		return 0, err
	}
	return slices.Index(d.interfaces().all, p.chain[1]), nil
}

func (d *Doc) isNamed(index int, nics []string) bool {
	return slices.ContainsFunc(nics, func(key string) bool {
		i, err := d.nicNamed(key)
		return err == nil && i == index
	})
}

// VFs gives the indices of the interfaces that are virtual functions of the host.
func (d *Doc) VFs() []int {
	var all []int
	for i, e := range d.interfaces().all {
		if e.get(d, "type") == "hostdev" {
			all = append(all, i)
		}
	}
	return all
}

// Value is one value of a document.
type Value struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	// Unclear says that the value is not one that libvirt could read; Value is then as written.
	Unclear bool `json:"unclear,omitempty"`
}

// Values gives everything in the document that can be read by a path, in the order of Paths.
func (d *Doc) Values() []Value {
	var all []Value
	for _, path := range d.Paths() {
		v, _, err := d.Get(path)
		if err != nil {
			v, _ = d.shown(path)
		}
		all = append(all, Value{Path: path, Value: v, Unclear: err != nil})
	}
	return all
}
