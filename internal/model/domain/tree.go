package domain

import "strings"

// element is one element with every byte that it was written with.
type element struct {
	parent     *element
	name       string
	lead       string // line end and indentation before the tag: goes and comes with the element
	attrs      []*attr
	gap        string // white space before > or />
	selfClosed bool   // written <a/>
	bare       bool   // nothing at all between its tags as parsed
	kids       []node
	end        string // the end tag as written; empty if selfClosed
	made       bool   // made by Set, not parsed
	gone       bool   // parsed, then deleted: kept so that Set brings back the same bytes
}

// node is an element (el is set) or anything else, as written.
type node struct {
	kind nodeKind
	raw  string
	el   *element
}

type nodeKind byte

const (
	textNode nodeKind = iota
	cdataNode
	commentNode // also processing instructions
	elementNode
)

// attr is one attribute with every byte that it was written with.
type attr struct {
	lead, name, eq string // white space before, name, "=" with white space around it
	quote          byte
	raw            string // value with its entities
	orig           string // raw as parsed
	made, gone     bool
	filler         bool // made only because libvirt's schema wants it beside the one that was set
}

func (e *element) write(b *strings.Builder) {
	b.WriteString(e.lead)
	b.WriteByte('<')
	b.WriteString(e.name)
	for _, a := range e.attrs {
		if a.gone {
			continue
		}
		b.WriteString(a.lead)
		b.WriteString(a.name)
		b.WriteString(a.eq)
		b.WriteByte(a.quote)
		b.WriteString(a.raw)
		b.WriteByte(a.quote)
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
		// It had no room for children: the end tag goes on a line of its own if they have got one.
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

// emptied reports whether deleting took everything out of an element. It is then written <a/>, as libvirt writes it.
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

// indent is the white space before the element on its own line.
func (e *element) indent() string { return indentOf(e.lead) }

// elements gives the child elements that exist now.
func (e *element) elements() []*element {
	var out []*element
	if e == nil {
		return nil
	}
	for _, n := range e.kids {
		if n.el != nil && !n.el.gone {
			out = append(out, n.el)
		}
	}
	return out
}

// all gives the child elements of one name that exist now.
func (e *element) all(name string) []*element {
	var out []*element
	if e == nil {
		return nil
	}
	for _, n := range e.kids {
		if n.el != nil && !n.el.gone && n.el.name == name {
			out = append(out, n.el)
		}
	}
	return out
}

// first follows names downwards, each time to the first child of that name. It gives nil if there is none.
func (e *element) first(names ...string) *element {
	for _, name := range names {
		if e == nil {
			return nil
		}
		var next *element
		for _, n := range e.kids {
			if n.el != nil && !n.el.gone && n.el.name == name {
				next = n.el
				break
			}
		}
		e = next
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

// get gives an attribute's value, or "" if it is absent.
func (e *element) get(d *Doc, name string) string {
	if a := e.attr(name); a != nil {
		return d.decode(a.raw)
	}
	return ""
}

// text gives the character data directly inside an element, without white space around it.
func (e *element) text(d *Doc) string {
	if e == nil {
		return ""
	}
	var b strings.Builder
	for _, n := range e.kids {
		switch n.kind {
		case textNode:
			b.WriteString(d.decode(n.raw))
		case cdataNode:
			b.WriteString(d.characters(strings.TrimSuffix(strings.TrimPrefix(n.raw, "<![CDATA["), "]]>")))
		}
	}
	return strings.TrimSpace(b.String())
}

func hasNewline(s string) bool { return strings.IndexByte(s, '\n') >= 0 }

// indentOf gives what follows the last line end of a lead; "" where the lead is on the line of what precedes it.
func indentOf(lead string) string {
	if i := strings.LastIndexByte(lead, '\n'); i >= 0 {
		return lead[i+1:]
	}
	return ""
}

// lineEnd gives the line end of a lead.
func lineEnd(lead string) string {
	if strings.Contains(lead, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

func blank(s string) bool { return strings.Trim(s, " \t\r\n") == "" }
