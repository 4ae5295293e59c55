package domain

import (
	"strconv"
	"strings"
)

// setAttr gives an attribute a value. A value that means what was parsed brings back the bytes that were parsed.
func (d *Doc) setAttr(e *element, name, value string, same func(raw string) bool) *attr {
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
		return a
	}
	return d.addAttr(e, name, value)
}

// addAttr makes an attribute at libvirt's place among the others, in the quotes of its neighbours.
func (d *Doc) addAttr(e *element, name, value string) *attr {
	order := attrOrder[e.name]
	mine, at := rank(order, name), len(e.attrs)
	if mine >= 0 {
		at = -1
		for i, a := range e.attrs {
			if r := rank(order, a.name); r >= 0 && r < mine {
				at = i + 1
			}
		}
		for i := 0; at < 0 && i < len(e.attrs); i++ {
			if rank(order, e.attrs[i].name) > mine {
				at = i
			}
		}
		if at < 0 {
			at = len(e.attrs)
		}
	}
	a := &attr{lead: " ", name: name, eq: "=", quote: d.quoteFor(e), made: true}
	if at > 0 && hasNewline(e.attrs[at-1].lead) {
		a.lead = e.attrs[at-1].lead
	}
	a.raw = escape(value, a.quote)
	e.attrs = append(e.attrs, nil)
	copy(e.attrs[at+1:], e.attrs[at:])
	e.attrs[at] = a
	return a
}

// quoteFor gives the quotes of the element itself, or of an earlier or later element of the same name beside it, or of
// the first element above it that has attributes; else libvirt's.
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

// removeAttr takes an attribute away; the bytes of one that was parsed are kept for setAttr.
func (e *element) removeAttr(name string) {
	for i, a := range e.attrs {
		if a.name != name || a.gone {
			continue
		}
		if a.made {
			e.attrs = append(e.attrs[:i], e.attrs[i+1:]...)
		} else {
			a.gone = true
		}
		return
	}
}

// insert makes an empty child element where libvirt would write it. key, if it is a number, sorts it among its like.
func (d *Doc) insert(e *element, name, keyAttr, key string) *element {
	d.changes++
	kid := &element{parent: e, name: name, selfClosed: true, bare: true, made: true}
	at := d.place(e, name, keyAttr, key)
	kid.lead = d.leadAt(e, at)
	e.kids = append(e.kids, node{})
	copy(e.kids[at+1:], e.kids[at:])
	e.kids[at] = node{kind: elementNode, el: kid}
	if keyAttr != "" {
		d.addAttr(kid, keyAttr, key)
	}
	return kid
}

// place gives the index in e.kids for a new element: among its like by number, else behind everything that libvirt
// writes before it, else in front of everything that libvirt writes after it.
func (d *Doc) place(e *element, name, keyAttr, key string) int {
	var live, like []int // indices in e.kids; like: positions in live
	for i, n := range e.kids {
		if n.el == nil || n.el.gone {
			continue
		}
		if n.el.name == name {
			like = append(like, len(live))
		}
		live = append(live, i)
	}
	frontOf := func(k int) int {
		if k == 0 {
			return 0
		}
		return e.behind(live[k-1])
	}
	if number, ok := firstNumber(key); ok && keyAttr != "" {
		for j := len(like) - 1; j >= 0; j-- {
			if k, ok := firstNumber(e.kids[live[like[j]]].el.get(d, keyAttr)); ok && k < number {
				return e.behind(live[like[j]])
			}
		}
		if len(like) > 0 {
			return frontOf(like[0])
		}
	}
	if len(like) > 0 {
		return e.behind(live[like[len(like)-1]])
	}
	order := childOrder[e.name]
	if e.name == "interface" && e.get(d, "type") == "hostdev" {
		order = childOrder["interface of type hostdev"]
	}
	if mine := rank(order, name); mine >= 0 {
		for k := len(live) - 1; k >= 0; k-- {
			if r := rank(order, e.kids[live[k]].el.name); r >= 0 && r < mine {
				return e.behind(live[k])
			}
		}
		for k := range live {
			if rank(order, e.kids[live[k]].el.name) > mine {
				return frontOf(k)
			}
		}
	}
	if len(live) > 0 {
		return e.behind(live[len(live)-1])
	}
	end := len(e.kids)
	if end > 0 && e.kids[end-1].kind == textNode && blank(e.kids[end-1].raw) {
		end--
	}
	return end
}

// behind gives the index behind child i and the comments that stand on its line.
func (e *element) behind(i int) int {
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

// leadAt gives the white space before a new child at an index: that of its neighbours, else one level below its parent.
func (d *Doc) leadAt(e *element, at int) string {
	siblings := false
	for i := at - 1; i >= 0; i-- {
		if k := e.kids[i].el; k != nil && !k.gone {
			if hasNewline(k.lead) {
				return k.lead
			}
			siblings = true
		}
	}
	for _, n := range e.kids[at:] {
		if n.el != nil && !n.el.gone {
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

// prune takes away an element that an edit has left empty: one that carries nothing but its key. An element that was
// already empty when it was parsed stays, so that setting a value and taking it back leaves the same bytes. undo says
// that a value is being put back to absent, not deleted on purpose: what libvirt added beside it goes as well.
func (d *Doc) prune(e *element, s *step, undo bool) bool {
	for _, a := range e.attrs {
		implied := undo && a.name+"="+a.raw == s.implied
		if !a.gone && !a.filler && a.name != s.attr && !implied {
			return false
		}
	}
	parsed := !e.made
	for _, n := range e.kids {
		switch {
		case n.el != nil && !n.el.gone:
			return false
		case n.el == nil && (n.kind != textNode || !blank(n.raw)):
			return false
		}
	}
	if parsed && !e.hadContent(s, undo) {
		return false
	}
	d.remove(e)
	return true
}

// hadContent reports whether a parsed element had anything but its key and what prune does not count.
func (e *element) hadContent(s *step, undo bool) bool {
	for _, a := range e.attrs {
		implied := undo && !a.gone && a.name+"="+a.orig == s.implied
		if !a.made && a.name != s.attr && !implied {
			return true
		}
	}
	for _, n := range e.kids {
		if n.el != nil && !n.el.made {
			return true
		}
	}
	return false
}

// remove takes an element away; one that was parsed is kept, unseen, so that its bytes can come back.
func (d *Doc) remove(e *element) {
	d.changes++
	if !e.made {
		e.gone = true
		return
	}
	for i, n := range e.parent.kids {
		if n.el == e {
			e.parent.kids = append(e.parent.kids[:i], e.parent.kids[i+1:]...)
			return
		}
	}
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

func atoi(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 0
}
