package domain

import (
	"fmt"
	"strings"
)

// Get reads a value in canonical form. present is false where the document does not have it. The error is a *PathError
// for a path that means nothing here, or a *ValueError for a value in the document that libvirt could not read either.
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
	if f, partly := p.rule.form.(interface{ has(*Doc, *element) bool }); partly && leaf != nil {
		return f.has(d, leaf)
	}
	return leaf != nil && (p.rule.attr == "" || leaf.attr(p.rule.attr) != nil)
}

// raw gives the value of a place that is present, as written.
func (d *Doc) raw(p *place) string {
	switch {
	case p.rule.form != nil:
		return p.rule.form.get(d, p.leaf())
	case p.rule.attr == "":
		return "yes"
	}
	return p.leaf().get(d, p.rule.attr)
}

// Check reports whether Set would take a value, and gives its canonical form.
func (d *Doc) Check(path, value string) (string, error) {
	_, v, err := d.check(path, value, true)
	return v, err
}

func (d *Doc) check(path, value string, wanted bool) (*place, string, error) {
	p, err := d.find(path)
	if err != nil {
		return nil, "", err
	}
	if p.rule.readOnly {
		return nil, "", &PathError{Path: p.path, Problem: "can be read but not set"}
	}
	if err := d.whole(p); err != nil {
		return nil, "", err
	}
	if err := d.single(p); err != nil {
		return nil, "", err
	}
	v, ok := p.rule.value.canon(value)
	if !ok {
		return nil, "", &ValueError{Path: p.path, Found: value, Allowed: p.rule.value.allowed}
	}
	if !wanted {
		return p, v, nil
	}
	if f := p.rule.value.wanted; f != nil {
		if bad := f(v); bad != nil {
			bad.Path, bad.Found = p.path, value
			return nil, "", bad
		}
	}
	if f := p.rule.value.suits; f != nil {
		if bad := f(v, p.anchor(), d); bad != nil {
			bad.Path, bad.Found = p.path, value
			return nil, "", bad
		}
	}
	if p.rule.last().key == byWholeNIC {
		if err := d.nicFits(p, v); err != nil {
			return nil, "", err
		}
	}
	return p, v, d.fits(p)
}

// CheckPath reports whether a path names a value that any document could have set.
func CheckPath(path string) error {
	r, key := match(path)
	if r == nil {
		return &PathError{Path: clip(path), Problem: "is not a path that can be read or set", Advice: nearest(path)}
	}
	if _, err := r.canonKey(path, key); err != nil {
		return err
	}
	if r.readOnly {
		return &PathError{Path: clip(path), Problem: "can be read but not set"}
	}
	return nil
}

// CheckValue reports whether any document could take a value at a path, and gives its canonical form: what is wrong
// with the value alone, without a document to look at.
func CheckValue(path, value string) (string, error) {
	if err := CheckPath(path); err != nil {
		return "", err
	}
	r, _ := match(path)
	v, ok := r.value.canon(value)
	if !ok {
		return "", &ValueError{Path: clip(path), Found: value, Allowed: r.value.allowed}
	}
	if r.value.wanted != nil {
		if bad := r.value.wanted(v); bad != nil {
			bad.Path, bad.Found = clip(path), value
			return "", bad
		}
	}
	return v, nil
}

// single refuses to edit an element that is there twice: libvirt refuses most such domains, and of the rest it reads
// one.
func (d *Doc) single(p *place) error {
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

// whole refuses to edit a document of which a part stands elsewhere: what would be made may be there already.
func (d *Doc) whole(p *place) error {
	if d.hidden == "" {
		return nil
	}
	return &PathError{Path: p.path,
		Problem: fmt.Sprintf("%q in the document stands for elements that are not looked into", clip(d.hidden)),
		Advice:  "write out what it stands for"}
}

func (p *place) anchor() *element {
	if p.rule.anchor < len(p.chain) {
		return p.chain[p.rule.anchor]
	}
	return nil
}

// Set gives a value, making what is missing. It refuses, before it changes anything, what libvirt or QEMU would refuse,
// ignore or cut down: a *ValueError or *PathError. A value equal to the present one changes no byte.
func (d *Doc) Set(path, value string) error {
	p, v, err := d.check(path, value, true)
	if err != nil {
		return err
	}
	d.put(p, v)
	return nil
}

// Restore puts back what Get gave earlier: the value, or its absence. It takes values that Set refuses, since they were
// there. In the same Doc, the bytes come back as well; across Parse they do wherever the value had been written in
// canonical form and no element had stood empty. Putting back an absence also takes away what libvirt adds by itself
// beside the value when it stores a domain, such as mode='strict' beside a nodeset.
func (d *Doc) Restore(path, value string, present bool) error {
	if !present {
		return d.drop(path, true)
	}
	p, v, err := d.check(path, value, false)
	if err != nil {
		return err
	}
	d.put(p, v)
	return nil
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
			d.grown(made, p.key)
		} else {
			d.edited()
		}
	}()
	switch {
	case p.rule.form != nil:
		p.rule.form.put(d, at, v)
	case p.rule.attr != "":
		d.setAttr(at, p.rule.attr, v, func(raw string) bool {
			c, ok := p.rule.value.canon(d.decode(raw))
			return ok && c == v
		})
	}
}

// make brings back the element of a step if it was deleted, or makes it.
func (d *Doc) make(at *element, s *step, key string) *element {
	name, keyAttr := s.name, s.attr
	if s.key == byName {
		name = key
	}
	for _, n := range at.kids {
		if e := n.el; e != nil && e.gone && e.name == name && (s.key == noKey || s.keyOf(d, e) == key) {
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

// Delete takes a value away, and every element above it that has nothing left. What is absent already is no error.
func (d *Doc) Delete(path string) error { return d.drop(path, false) }

func (d *Doc) drop(path string, undo bool) error {
	p, err := d.find(path)
	if err != nil {
		return err
	}
	if p.rule.readOnly {
		return &PathError{Path: p.path, Problem: "can be read but not set"}
	}
	if err := d.whole(p); err != nil {
		return err
	}
	if !d.present(p) {
		return nil
	}
	if err := d.single(p); err != nil {
		return err
	}
	last := len(p.chain) - 1
	if p.rule.attr == "" && p.rule.steps[last].must {
		return &PathError{Path: p.path, Problem: "is always there", Advice: "set it to another value"}
	}
	defer d.edited()
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
