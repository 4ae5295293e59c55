package domain

import (
	"slices"
	"strings"
)

// element is an element with the exact bytes it was parsed from.
type element struct {
	parent     *element
	name       string
	lead       string // line end and indentation before the tag; removed and added with the element
	attrs      []*attr
	gap        string // white space before > or />
	selfClosed bool   // written <a/>
	bare       bool   // parsed with nothing between its tags
	kids       []node
	end        string // the end tag as written; empty if selfClosed
	made       bool   // added by Set, not parsed
	gone       bool   // parsed and then deleted: kept so that Set can bring back the same bytes
}

// node is an element (el is set) or anything else, as written.
type node struct {
	kind nodeKind
	raw  string
	el   *element
}

// live reports whether a node is an element that is not deleted.
func (n node) live() bool { return n.el != nil && !n.el.gone }

type nodeKind byte

const (
	textNode nodeKind = iota
	cdataNode
	commentNode // also processing instructions
	elementNode
)

// attr is an attribute with the exact bytes it was parsed from.
type attr struct {
	lead, name, eq string // white space before, name, "=" with white space around it
	quote          byte
	raw            string // value, entities not expanded
	orig           string // raw as parsed
	made, gone     bool
	filler         bool // added only because libvirt's schema requires it with another attribute
}

func (e *element) write(b *strings.Builder) {
	b.WriteString(e.lead + "<" + e.name)
	for _, a := range e.attrs {
		if !a.gone {
			quote := string(a.quote)
			b.WriteString(a.lead + a.name + a.eq + quote + a.raw + quote)
		}
	}
	kids := e.elements()
	if len(kids) == 0 && (e.selfClosed || e.emptied()) {
		if e.selfClosed {
			b.WriteString(e.gap)
		}
		b.WriteString("/>")
		return
	}
	if !e.selfClosed {
		b.WriteString(e.gap)
	}
	b.WriteByte('>')
	for _, n := range e.kids {
		switch {
		case n.el == nil:
			b.WriteString(n.raw)
		case !n.el.gone:
			n.el.write(b)
		}
	}
	if e.selfClosed || e.bare {
		// It was written without room for children: if it has some now, its end tag gets its own line.
		if len(kids) > 0 && hasNewline(kids[len(kids)-1].lead) {
			b.WriteString(lineEnd(kids[0].lead) + e.indent())
		}
	}
	if e.selfClosed {
		b.WriteString("</" + e.name + ">")
		return
	}
	b.WriteString(e.end)
}

// emptied reports whether deletions took everything out of an element. Like libvirt, write prints it as <a/> then.
func (e *element) emptied() bool {
	had := false
	for _, n := range e.kids {
		switch {
		case n.el != nil && n.el.gone:
			had = true
		case n.kind != textNode || !blank(n.raw):
			return false
		}
	}
	return had
}

// indent returns the white space before the element on its line.
func (e *element) indent() string { return indentOf(e.lead) }

// elements returns the child elements, without deleted ones.
func (e *element) elements() []*element {
	return e.all("")
}

// all returns the child elements with a name ("": any name), without deleted ones.
func (e *element) all(name string) []*element {
	var out []*element
	if e == nil {
		return nil
	}
	for _, n := range e.kids {
		if n.live() && (name == "" || n.el.name == name) {
			out = append(out, n.el)
		}
	}
	return out
}

// first follows names downwards, always to the first child with that name; nil if there is none.
func (e *element) first(names ...string) *element {
	for _, name := range names {
		if e == nil {
			return nil
		}
		i := slices.IndexFunc(e.kids, func(n node) bool { return n.live() && n.el.name == name })
		if i < 0 {
			return nil
		}
		e = e.kids[i].el
	}
	return e
}

func (e *element) attr(name string) *attr {
	if e == nil {
		return nil
	}
	for _, a := range e.attrs {
		if !a.gone && a.name == name {
			return a
		}
	}
	return nil
}

// get returns an attribute's value, "" if it is absent.
func (e *element) get(name string) string {
	if a := e.attr(name); a != nil {
		return decode(a.raw)
	}
	return ""
}

// text returns the character data directly inside an element, trimmed.
func (e *element) text() string {
	if e == nil {
		return ""
	}
	var b strings.Builder
	for _, n := range e.kids {
		switch n.kind {
		case textNode:
			b.WriteString(decode(n.raw))
		case cdataNode:
			b.WriteString(strings.TrimSuffix(strings.TrimPrefix(n.raw, "<![CDATA["), "]]>"))
		}
	}
	return strings.TrimSpace(b.String())
}

func hasNewline(s string) bool { return strings.IndexByte(s, '\n') >= 0 }

// indentOf returns what follows the last line end of a lead; "" if the element starts on the line of its predecessor.
func indentOf(lead string) string {
	if i := strings.LastIndexByte(lead, '\n'); i >= 0 {
		return lead[i+1:]
	}
	return ""
}

func lineEnd(lead string) string {
	if strings.Contains(lead, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

func blank(s string) bool { return strings.Trim(s, " \t\r\n") == "" }
