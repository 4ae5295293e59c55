package domain

import (
	"fmt"
	"strconv"
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
	return leaf != nil && (p.rule.attr == "" || leaf.attr(p.rule.attr) != nil)
}

// raw gives the value of a place that is present, as written.
func (d *Doc) raw(p *place) string {
	switch {
	case p.rule.pages:
		return d.rawPages(p.leaf(), func(e *element) bool { return !e.gone })
	case p.rule.attr == "":
		return "yes"
	}
	return p.leaf().get(d, p.rule.attr)
}

// Check tells whether Set would take a value, and gives its canonical form.
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
		if bad := f(v, p.anchor(), d); bad != nil {
			bad.Path, bad.Found = p.path, value
			return nil, "", bad
		}
	}
	return p, v, d.fits(p)
}

// single refuses to edit an element that is there twice: libvirt refuses most such domains, and of the rest it reads one.
func (d *Doc) single(p *place) error {
	for i, e := range p.chain {
		s, n := &p.rule.steps[i], 0
		if s.key == byNIC || s.name == "devices" {
			continue
		}
		for _, other := range e.parent.all(e.name) {
			if s.key == noKey || s.keyOf(d, other) == p.key {
				n++
			}
		}
		if n > 1 {
			return &PathError{Path: p.path, Problem: fmt.Sprintf("there are %d such <%s> elements, expected one", n, e.name),
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

// fits refuses keys that libvirt would refuse or ignore.
func (d *Doc) fits(p *place) error {
	vcpus, known := atoi(d.root.first("vcpu").text(d))
	s := &p.rule.steps[len(p.rule.steps)-1]
	switch {
	case s.name == "vcpupin" && known:
		if n, _ := atoi(p.key); n >= vcpus {
			// libvirt only warns and drops it: src/conf/domain_conf.c, virDomainVcpuPinDefParseXML.
			return &PathError{Path: p.path, Problem: fmt.Sprintf("found vCPU %d, expected 0 to %d", n, vcpus-1),
				Advice: "libvirt would drop the pin silently"}
		}
	case s.name == "iothreadpin" && p.key == "0":
		return &PathError{Path: p.path, Problem: "found I/O thread 0, expected 1 or above", Advice: "libvirt counts I/O threads from 1"}
	case s.key == bySet:
		mine, _ := ParseSet(p.key)
		if known && mine[len(mine)-1] >= vcpus {
			return &PathError{Path: p.path, Problem: fmt.Sprintf("found vCPU %d, expected 0 to %d", mine[len(mine)-1], vcpus-1)}
		}
		for _, e := range d.root.first("cputune").all(s.name) {
			if other := s.keyOf(d, e); other != p.key && overlap(other, mine) {
				return &PathError{Path: p.path, Problem: "vCPUs " + other + " have a scheduler together",
					Advice: fmt.Sprintf("set vcpusched/%s.scheduler, or delete it first", other)}
			}
		}
	}
	return nil
}

func overlap(set string, with []int) bool {
	a, err := ParseSet(set)
	if err != nil {
		return false
	}
	in := map[int]bool{}
	for _, n := range a {
		in[n] = true
	}
	for _, n := range with {
		if in[n] {
			return true
		}
	}
	return false
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
// canonical form and no element had stood empty. Putting back an absence also takes away what libvirt adds by itself beside
// the value when it stores a domain, such as mode='strict' beside a nodeset.
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
	defer d.edited()
	at := d.root
	if len(p.chain) > 0 {
		at = p.chain[len(p.chain)-1]
	}
	for i := len(p.chain); i < len(p.rule.steps); i++ {
		at = d.make(at, &p.rule.steps[i], p.key)
	}
	switch {
	case p.rule.pages:
		d.putPages(at, v)
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
		if e := n.el; e != nil && e.gone && e.name == name && (keyAttr == "" || s.keyOf(d, e) == key) {
			e.gone = false
			return e
		}
	}
	e := d.insert(at, name, keyAttr, key)
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
	if !d.present(p) {
		return nil
	}
	if err := d.single(p); err != nil {
		return err
	}
	defer d.edited()
	last := len(p.chain) - 1
	if p.rule.attr == "" {
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

// rawPages writes the <page> children of <hugepages> as a value.
func (d *Doc) rawPages(e *element, which func(*element) bool) string {
	var pages []page
	for _, n := range e.kids {
		if n.el == nil || n.el.name != "page" || !which(n.el) {
			continue
		}
		size, err := strconv.ParseUint(strings.TrimSpace(n.el.get(d, "size")), 10, 64)
		kib, ok := scaleKiB(size, n.el.get(d, "unit"))
		nodes := ""
		if n.el.attr("nodeset") != nil {
			var fine bool
			nodes, fine = canonSet(n.el.get(d, "nodeset"))
			ok = ok && fine
		}
		if err != nil || !ok || kib == 0 {
			return "page size " + n.el.get(d, "size") + n.el.get(d, "unit") + " for cells " + n.el.get(d, "nodeset")
		}
		pages = append(pages, page{kib: kib, nodes: nodes})
	}
	return formatPages(pages)
}

// putPages replaces the <page> children, or brings back those that were parsed if they mean the same.
func (d *Doc) putPages(e *element, v string) {
	if d.rawPages(e, func(p *element) bool { return !p.gone }) == v {
		return
	}
	parsed := func(p *element) bool { return !p.made }
	back := !e.made && d.rawPages(e, parsed) == v
	var kids []*element
	for _, n := range e.kids {
		if n.el != nil && n.el.name == "page" {
			kids = append(kids, n.el)
		}
	}
	for _, k := range kids {
		if k.made {
			d.remove(k)
		} else {
			k.gone = !back
		}
	}
	if back {
		return
	}
	pages, _ := parsePages(v)
	for _, p := range pages {
		k := d.insert(e, "page", "", "")
		d.addAttr(k, "size", strconv.FormatUint(p.kib, 10))
		d.addAttr(k, "unit", "KiB")
		if p.nodes != "" {
			d.addAttr(k, "nodeset", p.nodes)
		}
	}
}
