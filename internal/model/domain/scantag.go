package domain

import (
	"strings"
	"unicode/utf8"
)

// startTag reads <name a='b'> or <name/>.
func (s *scanner) startTag() (*element, error) {
	at := s.pos
	s.pos++
	name, err := s.name("an element name after <")
	if err != nil {
		return nil, err
	}
	e := &element{name: name}
	for {
		from := s.pos
		s.space()
		gap := s.src[from:s.pos]
		rest := s.src[s.pos:]
		switch {
		case rest == "":
			return nil, s.fail(at, "<%s has no end", clip(name))
		case rest[0] == '>':
			e.gap, s.pos = gap, s.pos+1
			return e, nil
		case strings.HasPrefix(rest, "/>"):
			e.gap, s.pos = gap, s.pos+2
			e.selfClosed, e.bare = true, true
			return e, nil
		case gap == "":
			return nil, s.fail(s.pos, "white space is missing in <%s", clip(name))
		}
		a, err := s.attribute()
		if err != nil {
			return nil, err
		}
		for _, other := range e.attrs {
			if other.name == a.name {
				return nil, s.fail(s.pos, "<%s> has the attribute %s twice", clip(name), clip(a.name))
			}
		}
		a.lead = gap
		if e.attrs = append(e.attrs, a); len(e.attrs) > maxAttrs {
			return nil, s.fail(s.pos, "<%s> has more than %d attributes", clip(name), maxAttrs)
		}
	}
}

// attribute reads a='b'.
func (s *scanner) attribute() (*attr, error) {
	name, err := s.name("an attribute name")
	if err != nil {
		return nil, err
	}
	from := s.pos
	s.space()
	if s.pos >= len(s.src) || s.src[s.pos] != '=' {
		return nil, s.fail(s.pos, "the attribute %s has no value", clip(name))
	}
	s.pos++
	s.space()
	eq := s.src[from:s.pos]
	if s.pos >= len(s.src) || (s.src[s.pos] != '\'' && s.src[s.pos] != '"') {
		return nil, s.fail(s.pos, "the value of %s is not in quotes", clip(name))
	}
	quote := s.src[s.pos]
	s.pos++
	end := strings.IndexByte(s.src[s.pos:], quote)
	if end < 0 {
		return nil, s.fail(s.pos, "the value of %s has no closing quote", clip(name))
	}
	raw := s.src[s.pos : s.pos+end]
	if i := strings.IndexByte(raw, '<'); i >= 0 {
		return nil, s.fail(s.pos+i, "< in the value of %s, expected &lt; or a closing quote before it", clip(name))
	}
	if err := s.checkReferences(s.pos, raw); err != nil {
		return nil, err
	}
	s.pos += end + 1
	return &attr{name: name, eq: eq, quote: quote, raw: raw, orig: raw}, nil
}

// endTag reads </name>, which must close e.
func (s *scanner) endTag(e *element) error {
	at := s.pos
	s.pos += 2
	name, err := s.name("an element name after </")
	if err != nil {
		return err
	}
	if name != e.name {
		return s.fail(at, "</%s> found, expected </%s>", clip(name), clip(e.name))
	}
	s.space()
	if s.pos >= len(s.src) || s.src[s.pos] != '>' {
		return s.fail(at, "</%s has no end", clip(name))
	}
	s.pos++
	e.end = s.src[at:s.pos]
	return nil
}

// nonElement reads a comment, a processing instruction or a CDATA section.
func (s *scanner) nonElement() (node, error) {
	at, rest := s.pos, s.src[s.pos:]
	switch {
	case strings.HasPrefix(rest, "<!--"):
		end := strings.Index(rest[4:], "--")
		if end < 0 {
			return node{}, s.fail(at, "a comment has no end")
		}
		end += 4
		if !strings.HasPrefix(rest[end:], "-->") {
			return node{}, s.fail(at+end, "-- inside a comment")
		}
		s.pos += end + 3
		return node{kind: commentNode, raw: rest[:end+3]}, nil
	case strings.HasPrefix(rest, "<![CDATA["):
		end := strings.Index(rest, "]]>")
		if end < 0 {
			return node{}, s.fail(at, "a CDATA section has no end")
		}
		s.pos += end + 3
		return node{kind: cdataNode, raw: rest[:end+3]}, nil
	case strings.HasPrefix(rest, "<?"):
		s.pos += 2
		target, err := s.name("a name after <?")
		if err != nil {
			return node{}, err
		}
		if strings.EqualFold(target, "xml") {
			return node{}, s.fail(at, "an XML declaration that is not at the start of the text")
		}
		end := strings.Index(s.src[s.pos:], "?>")
		if end < 0 {
			return node{}, s.fail(at, "a processing instruction has no end")
		}
		if end > 0 && !isSpace(s.src[s.pos]) {
			return node{}, s.fail(at, "white space is missing in a processing instruction")
		}
		s.pos += end + 2
		return node{kind: commentNode, raw: s.src[at:s.pos]}, nil
	}
	return node{}, s.fail(at, "<! is not followed by a comment or CDATA")
}

func (s *scanner) checkText(at int, text string) error {
	if i := strings.Index(text, "]]>"); i >= 0 {
		return s.fail(at+i, "]]> outside a CDATA section")
	}
	return s.checkReferences(at, text)
}

// checkReferences refuses references to anything but the predefined entities and legal characters.
func (s *scanner) checkReferences(at int, raw string) error {
	for i := 0; ; {
		amp := strings.IndexByte(raw[i:], '&')
		if amp < 0 {
			return nil
		}
		i += amp
		_, length := charRef(raw[i:])
		if length == 0 {
			bad := s.fail(at+i, "%q is not a known entity", clip(raw[i:min(len(raw), i+12)]))
			bad.Advice = "write & as &amp;"
			return bad
		}
		i += length
	}
}

func (s *scanner) space() {
	for s.pos < len(s.src) && isSpace(s.src[s.pos]) {
		s.pos++
	}
}

// name reads a name with at most one prefix (Namespaces in XML 1.0).
func (s *scanner) name(what string) (string, error) {
	from, colons := s.pos, 0
	for s.pos < len(s.src) {
		r, n := utf8.DecodeRuneInString(s.src[s.pos:])
		if r == ':' {
			colons++
		} else if !nameRune(r, s.pos == from || s.src[s.pos-1] == ':') {
			break
		}
		s.pos += n
	}
	name := s.src[from:s.pos]
	if name == "" {
		return "", s.fail(from, "expected %s", what)
	}
	if colons > 1 || name[0] == ':' || name[len(name)-1] == ':' {
		return "", s.fail(from, "%q is not a name with a prefix", clip(name))
	}
	return name, nil
}

// nameRune follows NameStartChar and NameChar of XML 1.0 (fifth edition) section 2.3, without the colon.
func nameRune(r rune, first bool) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '_':
		return true
	case r >= '0' && r <= '9', r == '-', r == '.', r == 0xB7, r >= 0x300 && r <= 0x36F, r >= 0x203F && r <= 0x2040:
		return !first
	case r < 0xC0, r == 0xD7, r == 0xF7, r == 0x37E:
		return false
	}
	return r <= 0x1FFF || r == 0x200C || r == 0x200D || r >= 0x2070 && r <= 0x218F || r >= 0x2C00 && r <= 0x2FEF ||
		r >= 0x3001 && r <= 0xD7FF || r >= 0xF900 && r <= 0xFDCF || r >= 0xFDF0 && r <= 0xFFFD || r >= 0x10000 &&
		r <= 0xEFFFF
}

func legalRune(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD ||
		r >= 0x10000 && r <= 0x10FFFF
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// decode expands references and turns white space into spaces, as in attribute values.
func decode(raw string) string {
	var b strings.Builder
	for i := 0; i < len(raw); {
		if r, length := charRef(raw[i:]); raw[i] == '&' && length > 0 {
			b.WriteRune(r)
			i += length
			continue
		}
		if c := raw[i]; isSpace(c) {
			b.WriteByte(' ')
		} else {
			b.WriteByte(c)
		}
		i++
	}
	return b.String()
}

// escape encodes a value for an attribute in the given quotes.
func escape(value string, quote byte) string {
	r := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\n", "&#10;", "\t", "&#9;", "\r", "&#13;")
	value = r.Replace(value)
	if quote == '"' {
		return strings.ReplaceAll(value, `"`, "&quot;")
	}
	return strings.ReplaceAll(value, "'", "&apos;")
}
