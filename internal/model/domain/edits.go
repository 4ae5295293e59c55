package domain

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Change is one value to set or to remove. The path "interface/*/…" addresses every interface that can have such a
// value, or those named in Apply.
type Change struct {
	Path  string
	Value string
	Off   bool // remove the value
}

// Edit is a value that was changed, or that was already as requested (From equals To).
type Edit = Difference

// Apply makes the changes in their order, which matters: a NIC's model before its queues, a node set before its mode.
// nics names interfaces by MAC address or index. If it is empty, "interface/*" means every interface that can have the
// value, and it is an error if none can. If it names some, each of them must be able to have it. host refuses what a
// host cannot do. After an error the document may be half edited.
//
// Side effects, such as migratable, which some CPU modes exclude, are returned as edits too, before the others: whoever
// reverts the edits must restore them last.
func (d *Doc) Apply(changes []Change, nics []string, host Host) ([]Edit, error) {
	before, err := d.Clone()
	if err != nil {
		return nil, err
	}
	edits, err := d.Make(changes, nics, host)
	if err != nil {
		return edits, err
	}
	return append(sideEffects(before, d, edits), edits...), nil
}

// Make makes changes as Apply does, and looks for no side effects: that compares whole documents.
func (d *Doc) Make(changes []Change, nics []string, host Host) ([]Edit, error) {
	for _, key := range nics {
		if _, err := d.nicIndex(key); err != nil {
			return nil, err
		}
	}
	var edits []Edit
	given := map[string]string{}
	for _, w := range changes {
		if r, _ := match(w.Path); r != nil && r.unset != "" && strings.TrimSpace(w.Value) == r.unset {
			w.Off = true
		}
		paths, err := d.expand(w, nics)
		if err != nil {
			return edits, err
		}
		for _, path := range paths {
			word := w.Value
			if w.Off {
				word = "(absent)"
			}
			one := d.canonPath(path)
			if other, twice := given[one]; twice && other != word {
				return edits, &ConflictError{Path: path, One: other, Other: word}
			}
			given[one] = word
			e, err := d.applyOne(path, w, host)
			if err != nil {
				return edits, err
			}
			edits = append(edits, e)
		}
	}
	return edits, nil
}

// impliedValue holds what libvirt assumes for an absent value: removing the value sets it to this. src/conf/cpu_conf.c,
// for host-passthrough and maximum since 6.5.0.
var impliedValue = map[string]string{"cpu/migratable": "on"}

// sideEffects lists the values of before that after lacks, except those that edits name, whole or in part, and those of
// interfaces: an interface with a new MAC address has new paths.
func sideEffects(before, after *Doc, edits []Edit) []Edit {
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
		if gone.To, gone.HasTo = impliedValue[gone.Path], impliedValue[gone.Path] != ""; gone.To != gone.From {
			all = append(all, gone)
		}
	}
	return all
}

// ConflictError reports two changes with different values for one path.
type ConflictError struct{ Path, One, Other string }

func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s: wanted %q and %q, expected one value", e.Path, clip(e.One), clip(e.Other))
}

func (e *ConflictError) Hint() string { return "leave one of the two out" }

func (d *Doc) applyOne(path string, w Change, host Host) (Edit, error) {
	e := Edit{Path: path}
	e.From, e.HasFrom = d.shown(path)
	if w.Off {
		return e, d.Delete(path)
	}
	v, err := d.Check(path, w.Value)
	if err == nil {
		err = d.CheckSupport(path, v, host)
	}
	if err != nil {
		return e, err
	}
	e.To, e.HasTo = v, true
	return e, d.Set(path, w.Value)
}

// expand returns the paths that a change addresses.
func (d *Doc) expand(w Change, nics []string) ([]string, error) {
	front, back, keyed := strings.Cut(w.Path, "interface/*/")
	if !keyed || front != "" {
		return []string{w.Path}, nil
	}
	t := d.interfaces()
	var paths []string
	var cannot error // of the first interface that can have no such value
	for i := range t.all {
		key := t.key(i)
		if r, _ := match(w.Path); r != nil && r.byIndex {
			key = strconv.Itoa(i)
		}
		path := "interface/" + key + "/" + back
		if len(nics) > 0 {
			if d.named(i, nics) {
				paths = append(paths, path)
			}
			continue
		}
		err := d.checkTakes(path, w)
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

// checkTakes refuses an interface that nobody named and that cannot take the change.
func (d *Doc) checkTakes(path string, w Change) error {
	if w.Off {
		if _, present, err := d.Get(path); err == nil && !present {
			return never("an interface that has none", "")
		}
		return nil
	}
	_, err := d.Check(path, w.Value)
	return err
}

// canonPath returns the canonical spelling of a path: an interface by its index, keys in canonical form.
func (d *Doc) canonPath(path string) string {
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

// nicIndex returns the index of an interface from its MAC address or index.
func (d *Doc) nicIndex(key string) (int, error) {
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

func (d *Doc) named(index int, nics []string) bool {
	return slices.ContainsFunc(nics, func(key string) bool {
		i, err := d.nicIndex(key)
		return err == nil && i == index
	})
}

// VFs returns the indices of the interfaces that are VFs of the host.
func (d *Doc) VFs() []int {
	var all []int
	for i, e := range d.interfaces().all {
		if e.get("type") == "hostdev" {
			all = append(all, i)
		}
	}
	return all
}

// Value is one value of a document.
type Value struct {
	Path  string `json:"path"`
	Value string `json:"value"`
	// Unclear is set for a value that libvirt could not read; Value is then as written.
	Unclear bool `json:"unclear,omitempty"`
}

// Values returns every value that has a path, in the order of Paths.
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
