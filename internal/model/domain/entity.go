package domain

import (
	"strconv"
	"strings"
)

// entities are those that a document type declares, beside the five of XML itself. Nothing outside the text is ever
// read.
type entities struct {
	text  map[string]string // internal general entities: replacement text, character references in it resolved
	alien map[string]bool   // external ones: what they stand for is not known
	loose bool              // there are declarations that are not read: a name may be declared there

	full map[string]expansion // what was worked out
}

// expansion is what an entity stands for.
type expansion struct {
	text   string
	markup bool // elements and the like: not looked into
	wrong  string
}

// Limits of what entities may stand for: a domain has none, an attack on its reader has many.
const (
	maxExpansion = 64 << 10 // of one reference, in bytes
	maxNesting   = 16
)

// reference is what stands behind an ampersand.
type reference struct {
	text   string
	length int  // of the reference itself; 0 if it is none
	opaque bool // its meaning is not known: elements, or an entity that is declared elsewhere
	wrong  string
}

// at reads the reference at the start of s.
func (t *entities) at(s string) reference {
	if r, n := character(s); n > 0 {
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

// expand works out what an internal entity stands for; the work is bounded because each is worked out once.
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
		r := t.inside(raw, depth)
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

// inside reads a reference in the replacement text of an entity.
func (t *entities) inside(s string, depth int) reference {
	end := strings.IndexByte(s[:min(len(s), 256)], ';')
	if end > 1 {
		if _, is := t.text[s[1:end]]; is {
			x := t.expand(s[1:end], depth+1)
			return reference{text: x.text, length: end + 1, opaque: x.markup, wrong: x.wrong}
		}
	}
	return t.at(s)
}

// character decodes a reference to one of the five predefined entities or to a character; n is its length, 0 if it is
// none.
func character(s string) (r rune, n int) {
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

// isName tells a name with at most one prefix.
func isName(text string) bool {
	s := &scanner{src: text}
	name, err := s.name("")
	return err == nil && name == text
}
