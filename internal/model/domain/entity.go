package domain

import (
	"strconv"
	"strings"
)

// entities are declared by a document type, in addition to XML's own five. Nothing outside the text is read.
type entities struct {
	text  map[string]string // internal general entities: replacement text, with character references expanded
	alien map[string]bool   // external entities: unknown replacement
	loose bool              // some declarations are not read: any name may be declared there

	full map[string]expansion // cache of expansions
}

// expansion is the replacement of an entity.
type expansion struct {
	text   string
	markup bool // contains elements or other markup: not expanded
	wrong  string
}

// Limits of expansion: a domain needs no entities, an attack on its reader uses many.
const (
	maxExpansion = 64 << 10 // of one reference, in bytes
	maxNesting   = 16
)

// reference is the meaning of an ampersand and what follows.
type reference struct {
	text   string
	length int  // of the reference itself; 0 if it is not one
	opaque bool // unknown: elements, or an entity declared elsewhere
	wrong  string
}

// lookup reads the reference at the start of s.
func (t *entities) lookup(s string) reference {
	if r, n := charRef(s); n > 0 {
		return reference{text: string(r), length: n}
	}
	if t == nil {
		return reference{}
	}
	end := strings.IndexByte(s[:min(len(s), 256)], ';')
	if end < 2 {
		return reference{}
	}
	name := s[1:end]
	if _, is := t.text[name]; is {
		x := t.expand(name, 0)
		return reference{text: x.text, length: end + 1, opaque: x.markup, wrong: x.wrong}
	}
	if t.alien[name] || t.loose && isName(name) {
		return reference{length: end + 1, opaque: true}
	}
	return reference{}
}

// expand returns the replacement of an internal entity. Each is expanded once, which bounds the work.
func (t *entities) expand(name string, depth int) expansion {
	if x, known := t.full[name]; known {
		return x
	}
	if depth > maxNesting {
		return expansion{wrong: "is nested deeper than " + strconv.Itoa(maxNesting) + ", or in itself"}
	}
	if t.full == nil {
		t.full = map[string]expansion{}
	}
	var b strings.Builder
	x := expansion{}
	for raw := t.text[name]; raw != "" && x.wrong == ""; {
		amp := strings.IndexByte(raw, '&')
		if amp < 0 {
			amp = len(raw)
		}
		x.markup = x.markup || strings.Contains(raw[:amp], "<")
		b.WriteString(raw[:amp])
		if raw = raw[amp:]; raw == "" {
			break
		}
		r := t.lookupNested(raw, depth)
		if r.length == 0 && r.wrong == "" {
			r.wrong = "holds an ampersand that begins no reference"
		}
		x.wrong, x.markup = r.wrong, x.markup || r.opaque
		b.WriteString(r.text)
		if raw = raw[r.length:]; b.Len() > maxExpansion {
			x.wrong = "stands for more than " + strconv.Itoa(maxExpansion) + " bytes"
		}
	}
	x.text = b.String()
	t.full[name] = x
	return x
}

// lookupNested reads a reference in the replacement text of an entity.
func (t *entities) lookupNested(s string, depth int) reference {
	end := strings.IndexByte(s[:min(len(s), 256)], ';')
	if end > 1 {
		if _, is := t.text[s[1:end]]; is {
			x := t.expand(s[1:end], depth+1)
			return reference{text: x.text, length: end + 1, opaque: x.markup, wrong: x.wrong}
		}
	}
	return t.lookup(s)
}

// charRef decodes a reference to a character or to one of the five predefined entities. n is its length, 0 if it is
// neither.
func charRef(s string) (r rune, n int) {
	const longest = len("&#x000010ffff;")
	end := strings.IndexByte(s[:min(len(s), longest)], ';')
	if end < 2 {
		return 0, 0
	}
	name := s[1:end]
	switch name {
	case "lt":
		return '<', end + 1
	case "gt":
		return '>', end + 1
	case "amp":
		return '&', end + 1
	case "apos":
		return '\'', end + 1
	case "quot":
		return '"', end + 1
	}
	base := 10
	digits, ok := strings.CutPrefix(name, "#")
	if hex, isHex := strings.CutPrefix(digits, "x"); isHex {
		digits, base = hex, 16
	}
	v, err := strconv.ParseUint(digits, base, 32)
	if !ok || err != nil || !legalRune(rune(v)) {
		return 0, 0
	}
	return rune(v), end + 1
}

// isName reports whether a text is a name with at most one prefix.
func isName(text string) bool {
	s := &scanner{src: text}
	name, err := s.name("")
	return err == nil && name == text
}
