package domain

import (
	"fmt"
	"strings"
)

// Get returns a value in canonical form. present is false if the document does not have it. The error is a *PathError
// for a path that means nothing here, or a *ValueError for a value that libvirt could not read either.
func (d *Doc) Get(path string) (value string, present bool, err error) {
	p, err := d.find(path)
	if err != nil {
		return "", false, err
	}
	if !d.present(p) {
		return "", false, nil
	}
	raw := d.raw(p)
	value, ok := p.rule.value.canon(raw)
	if !ok {
		return "", true, &ValueError{Path: p.path, Found: raw, Allowed: p.rule.value.allowed}
	}
	return value, true, nil
}

func (d *Doc) present(p *place) bool {
	leaf := p.leaf()
	if f, partly := p.rule.form.(interface{ has(*element) bool }); partly && leaf != nil {
		return f.has(leaf)
	}
	return leaf != nil && (p.rule.attr == "" || leaf.attr(p.rule.attr) != nil)
}

// raw returns the value of a present place, as written.
func (d *Doc) raw(p *place) string {
	switch {
	case p.rule.form != nil:
		return p.rule.form.get(d, p.leaf())
	case p.rule.attr == "":
		return "yes"
	}
	return p.leaf().get(p.rule.attr)
}

// Check returns the canonical form of a value, or the error with which Set would refuse it.
func (d *Doc) Check(path, value string) (string, error) {
	_, v, err := d.check(path, value, false)
	return v, err
}

func (d *Doc) check(path, value string, restored bool) (*place, string, error) {
	p, err := d.find(path)
	if err != nil {
		return nil, "", err
	}
	if p.rule.readOnly {
		return nil, "", &PathError{Path: p.path, Problem: "can be read but not set"}
	}
	if err := d.checkSingle(p); err != nil {
		return nil, "", err
	}
	v, err := p.rule.value.check(p.path, value, restored)
	if err != nil {
		return nil, "", err
	}
	if restored {
		return p, v, nil
	}
	if f := p.rule.value.validIn; f != nil {
		if bad := f(v, p.anchor(), d); bad != nil {
			bad.Path, bad.Found = p.path, value
			return nil, "", bad
		}
	}
	if p.rule.last().key == byWholeNIC {
		if err := d.checkNIC(p, v); err != nil {
			return nil, "", err
		}
	}
	return p, v, d.checkKey(p)
}

// CheckPath refuses a path that no document could have set.
func CheckPath(path string) error {
	r, _, err := ruleFor(path)
	if err == nil && r.readOnly {
		return &PathError{Path: clip(path), Problem: "can be read but not set"}
	}
	return err
}

// CheckValue returns the canonical form of a value, or why no document could take it at a path. It looks at the value
// alone.
func CheckValue(path, value string) (string, error) {
	if err := CheckPath(path); err != nil {
		return "", err
	}
	r, _ := match(path)
	return r.value.check(clip(path), value, false)
}

// checkSingle refuses to edit an element that occurs twice: libvirt refuses most such domains, and reads only one
// element in the others.
func (d *Doc) checkSingle(p *place) error {
	for i, e := range p.chain {
		s, n := &p.rule.steps[i], 0
		if s.key == byNIC || s.key == byWholeNIC || s.key == byPCI || s.name == "devices" {
			continue
		}
		if s.key == noKey || s.key == byName {
			n = len(e.parent.all(e.name))
		} else {
			n = d.byKey(e.parent, s).times[p.key]
		}
		if n > 1 {
			return &PathError{Path: p.path, Problem: fmt.Sprintf("there are %d such <%s> elements, expected one", n,
				e.name),
				Advice: "libvirt reads one of them at most; remove the others"}
		}
	}
	return nil
}

func (p *place) anchor() *element {
	if p.rule.anchor < len(p.chain) {
		return p.chain[p.rule.anchor]
	}
	return nil
}

// Set sets a value and adds the elements it needs. Before it changes anything, it refuses what libvirt or QEMU would
// refuse, ignore or truncate: a *ValueError or *PathError. Setting the present value changes no byte.
func (d *Doc) Set(path, value string) error {
	p, v, err := d.check(path, value, false)
	if err == nil {
		d.put(p, v)
	}
	return err
}

// Restore puts back what Get returned earlier: the value, or its absence. It accepts values that Set refuses, since
// they were there. In the same Doc, the bytes come back as well; across Parse they do if the value was written in
// canonical form and no element was empty. Restoring an absence also removes what libvirt adds with the value when it
// stores a domain, such as mode='strict' with a nodeset.
func (d *Doc) Restore(path, value string, present bool) error {
	if !present {
		return d.drop(path, true)
	}
	p, v, err := d.check(path, value, true)
	if err == nil {
		d.put(p, v)
	}
	return err
}

func (d *Doc) put(p *place, v string) {
	if p.rule.last().key == byWholeNIC {
		d.putWhole(p, v)
		return
	}
	at, before := d.root, d.changes
	if len(p.chain) > 0 {
		at = p.chain[len(p.chain)-1]
	}
	var made []*element
	for i := len(p.chain); i < len(p.rule.steps); i++ {
		at = d.make(at, &p.rule.steps[i], p.key)
		made = append(made, at)
	}
	defer func() {
		if d.changes-before == len(made) {
			d.updateTables(made, p.key)
			d.dropNICsOf(p)
		} else {
			d.dropTablesOf(p)
		}
	}()
	switch {
	case p.rule.form != nil:
		p.rule.form.put(d, at, v)
	case p.rule.attr != "":
		d.setAttr(at, p.rule.attr, v, func(raw string) bool {
			c, ok := p.rule.value.canon(decode(raw))
			return ok && c == v
		})
	}
}

// make brings back a step's deleted element, or adds one.
func (d *Doc) make(at *element, s *step, key string) *element {
	name, keyAttr := s.name, s.attr
	if s.key == byName {
		name = key
	}
	for _, n := range at.kids {
		if e := n.el; e != nil && e.gone && e.name == name && (s.key == noKey || s.keyOf(e) == key) {
			d.bringBack(e)
			return e
		}
	}
	e := d.insert(at, name, keyAttr, key)
	if s.key == byPCI {
		d.makeHostdev(e, key)
	}
	if name, value, ok := strings.Cut(s.filler, "="); ok {
		d.addAttr(e, name, value).filler = true
	}
	return e
}

// Delete removes a value, and every element above it that becomes empty. An absent value is no error.
func (d *Doc) Delete(path string) error { return d.drop(path, false) }

func (d *Doc) drop(path string, undo bool) error {
	p, err := d.find(path)
	if err != nil {
		return err
	}
	if p.rule.readOnly {
		return &PathError{Path: p.path, Problem: "can be read but not set"}
	}
	if !d.present(p) {
		return nil
	}
	if err := d.checkSingle(p); err != nil {
		return err
	}
	last := len(p.chain) - 1
	if p.rule.attr == "" && p.rule.steps[last].must {
		return &PathError{Path: p.path, Problem: "is always there", Advice: "set it to another value"}
	}
	defer d.dropTablesOf(p)
	if f, partly := p.rule.form.(interface{ drop(*Doc, *element) }); partly {
		f.drop(d, p.chain[last])
	} else if p.rule.attr == "" {
		d.remove(p.chain[last])
		last--
	} else {
		p.chain[last].removeAttr(p.rule.attr)
	}
	for ; last >= 0; last-- {
		if s := &p.rule.steps[last]; s.must || !d.prune(p.chain[last], s, undo) {
			break
		}
	}
	return nil
}
