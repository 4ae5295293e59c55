package domain

import (
	"slices"
	"strconv"
	"strings"
)

// setAttr sets an attribute. If the parsed value means the same, its bytes come back.
func (d *Doc) setAttr(e *element, name, value string, same func(raw string) bool) {
	for _, a := range e.attrs {
		if a.name != name {
			continue
		}
		a.gone = false
		if !a.made && same(a.orig) {
			a.raw = a.orig
		} else if !same(a.raw) {
			a.raw = escape(value, a.quote)
		}
		return
	}
	d.addAttr(e, name, value)
}

// addAttr adds an attribute at libvirt's position, with the quotes of its neighbours.
func (d *Doc) addAttr(e *element, name, value string) *attr {
	order := attrOrder[e.name]
	at := len(e.attrs)
	if mine := slices.Index(order, name); mine >= 0 {
		before := func(a *attr) bool { return slices.Contains(order[:mine], a.name) }
		after := func(a *attr) bool { return slices.Contains(order[mine+1:], a.name) }
		if i := lastIndex(e.attrs, before); i >= 0 {
			at = i + 1
		} else if i := slices.IndexFunc(e.attrs, after); i >= 0 {
			at = i
		}
	}
	a := &attr{lead: " ", name: name, eq: "=", quote: d.quoteFor(e), made: true}
	if at > 0 && hasNewline(e.attrs[at-1].lead) {
		a.lead = e.attrs[at-1].lead
	}
	a.raw = escape(value, a.quote)
	e.attrs = slices.Insert(e.attrs, at, a)
	return a
}

// quoteFor returns the quotes of the element itself, of a sibling with the same name, or of the nearest ancestor that
// has attributes; libvirt's otherwise.
func (d *Doc) quoteFor(e *element) byte {
	if len(e.attrs) > 0 {
		return e.attrs[0].quote
	}
	for up := e.parent; up != nil; up = up.parent {
		for _, n := range up.kids {
			if n.el != nil && n.el != e && n.el.name == e.name && len(n.el.attrs) > 0 {
				return n.el.attrs[0].quote
			}
		}
		if len(up.attrs) > 0 {
			return up.attrs[0].quote
		}
	}
	return '\''
}

// removeAttr removes an attribute. It keeps the bytes of a parsed one for setAttr.
func (e *element) removeAttr(name string) {
	for i, a := range e.attrs {
		if a.name != name || a.gone {
			continue
		}
		if a.made {
			e.attrs = slices.Delete(e.attrs, i, i+1)
		} else {
			a.gone = true
		}
		return
	}
}

// insert adds an empty child element where libvirt would write it. A numeric key sorts it among elements of its name.
func (d *Doc) insert(e *element, name, keyAttr, key string) *element {
	kid := &element{name: name, selfClosed: true, bare: true}
	d.insertAt(e, kid, d.place(e, name, keyAttr, key))
	if keyAttr != "" {
		d.addAttr(kid, keyAttr, key)
	}
	return kid
}

// place returns the index in e.kids for a new element: among elements of its name by number, else after what libvirt
// writes before it, else before what libvirt writes after it.
func (d *Doc) place(e *element, name, keyAttr, key string) int {
	live := e.elements()
	after := func(k *element) int { return e.after(e.index(k)) }
	frontOf := func(k *element) int {
		if i := slices.Index(live, k); i > 0 {
			return after(live[i-1])
		}
		return 0
	}
	like := e.all(name)
	if number, ok := firstNumber(key); ok && keyAttr != "" && len(like) > 0 {
		smaller := func(k *element) bool {
			n, ok := firstNumber(k.get(keyAttr))
			return ok && n < number
		}
		if i := lastIndex(like, smaller); i >= 0 {
			return after(like[i])
		}
		return frontOf(like[0])
	}
	if len(like) > 0 {
		return after(like[len(like)-1])
	}
	order := childOrder[e.name]
	if e.name == "interface" && e.get("type") == "hostdev" {
		order = childOrder["interface of type hostdev"]
	}
	if mine := slices.Index(order, name); mine >= 0 {
		if i := lastIndex(live, func(k *element) bool { return slices.Contains(order[:mine], k.name) }); i >= 0 {
			return after(live[i])
		}
		if i := slices.IndexFunc(live, func(k *element) bool { return slices.Contains(order[mine:], k.name) }); i >= 0 {
			return frontOf(live[i])
		}
	}
	if len(live) > 0 {
		return after(live[len(live)-1])
	}
	end := len(e.kids)
	if end > 0 && e.kids[end-1].kind == textNode && blank(e.kids[end-1].raw) {
		end--
	}
	return end
}

// after returns the index after child i and after the comments on its line.
func (e *element) after(i int) int {
	at := i + 1
	for j := at; j < len(e.kids); j++ {
		switch n := e.kids[j]; {
		case n.kind == commentNode:
			at = j + 1
		case n.kind == textNode && blank(n.raw) && !hasNewline(n.raw):
		default:
			return at
		}
	}
	return at
}

// leadAt returns the white space before a new child at an index: its neighbours', else one level more than its
// parent's.
func (d *Doc) leadAt(e *element, at int) string {
	siblings := false
	nearest := slices.Clone(e.kids[:at])
	slices.Reverse(nearest)
	for _, n := range append(nearest, e.kids[at:]...) {
		if n.live() {
			if hasNewline(n.el.lead) {
				return n.el.lead
			}
			siblings = true
		}
	}
	switch {
	case siblings:
		return ""
	case e == d.root:
		return d.nl + d.rootIndent() + d.unit
	case hasNewline(e.lead):
		return d.nl + e.indent() + d.unit
	}
	return ""
}

// prune removes an element that an edit left empty: nothing but its key. An element that was parsed empty stays, so
// that setting a value and reverting it restores the bytes. undo is set when a value is put back to absent rather than
// deleted on purpose: then what libvirt added with it goes too.
func (d *Doc) prune(e *element, s *step, undo bool) bool {
	for _, a := range e.attrs {
		implied := undo && a.name+"="+a.raw == s.implied
		if !a.gone && !a.filler && a.name != s.attr && !implied {
			return false
		}
	}
	for _, n := range e.kids {
		if n.live() || n.el == nil && (n.kind != textNode || !blank(n.raw)) {
			return false
		}
	}
	if !e.made && !e.hadContent(s, undo) {
		return false
	}
	d.remove(e)
	return true
}

// hadContent reports whether a parsed element had anything that prune counts.
func (e *element) hadContent(s *step, undo bool) bool {
	for _, a := range e.attrs {
		implied := undo && !a.gone && a.name+"="+a.orig == s.implied
		if !a.made && a.name != s.attr && !implied {
			return true
		}
	}
	return slices.ContainsFunc(e.kids, func(n node) bool { return n.el != nil && !n.el.made })
}

// remove removes an element. A parsed one is kept, hidden, so that its bytes can come back.
func (d *Doc) remove(e *element) {
	d.changes++
	if !e.made {
		e.gone = true
		return
	}
	i := e.parent.index(e)
	e.parent.kids = slices.Delete(e.parent.kids, i, i+1)
}

// bringBack undoes remove.
func (d *Doc) bringBack(e *element) {
	if e.gone {
		e.gone = false
		d.changes++
	}
}

// firstNumber reads the digits at the start of a number or set.
func firstNumber(s string) (int, bool) {
	s = strings.TrimSpace(s)
	return atoi(s[:len(s)-len(strings.TrimLeft(s, "0123456789"))])
}

// lastIndex returns the index of the last element for which is holds, -1 if there is none.
func lastIndex[T any](all []T, is func(T) bool) int {
	for i := len(all) - 1; i >= 0; i-- {
		if is(all[i]) {
			return i
		}
	}
	return -1
}

func atoi(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0
}
