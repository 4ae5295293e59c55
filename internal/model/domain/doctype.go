package domain

import "strings"

// A domain needs no document type declaration, but libvirt accepts one. It is kept as it is. Only its entities matter,
// which may be used in values (XML 1.0 sections 2.8 and 4.2).

// doctype skips <!DOCTYPE …> and collects the entities it declares.
func (s *scanner) doctype() error {
	at := s.pos
	s.pos += len("<!DOCTYPE")
	if err := s.gap(at); err != nil {
		return err
	}
	if _, err := s.name("a name after <!DOCTYPE"); err != nil {
		return err
	}
	s.entities = &entities{text: map[string]string{}, alien: map[string]bool{}}
	s.space()
	if outside, err := s.externalID(at); err != nil {
		return err
	} else if outside {
		s.entities.loose = !s.standalone
	}
	s.space()
	if s.pos < len(s.src) && s.src[s.pos] == '[' {
		s.pos++
		if err := s.subset(at); err != nil {
			return err
		}
		s.space()
	}
	if s.pos >= len(s.src) || s.src[s.pos] != '>' {
		return s.fail(at, "the document type declaration has no end")
	}
	s.pos++
	return nil
}

// gap skips required white space.
func (s *scanner) gap(at int) error {
	from := s.pos
	if s.space(); s.pos == from {
		return s.fail(at, "white space is missing in a declaration")
	}
	return nil
}

// word skips a word and reports whether it was there.
func (s *scanner) word(word string) bool {
	if strings.HasPrefix(s.src[s.pos:], word) {
		s.pos += len(word)
		return true
	}
	return false
}

// externalID skips SYSTEM 'uri' or PUBLIC 'id' 'uri' and reports whether one was there.
func (s *scanner) externalID(at int) (there bool, err error) {
	literals := 0
	switch {
	case s.word("SYSTEM"):
		literals = 1
	case s.word("PUBLIC"):
		literals = 2
	default:
		return false, nil
	}
	for range literals {
		if err := s.gap(at); err != nil {
			return true, err
		}
		if _, err := s.literal(at); err != nil {
			return true, err
		}
	}
	return true, nil
}

// literal reads quoted text.
func (s *scanner) literal(at int) (string, error) {
	if s.pos >= len(s.src) || s.src[s.pos] != '\'' && s.src[s.pos] != '"' {
		return "", s.fail(at, "a declaration lacks a text in quotes")
	}
	quote := s.src[s.pos]
	end := strings.IndexByte(s.src[s.pos+1:], quote)
	if end < 0 {
		return "", s.fail(at, "a text in a declaration has no closing quote")
	}
	text := s.src[s.pos+1 : s.pos+1+end]
	s.pos += end + 2
	return text, nil
}

// subset reads the declarations between [ and ].
func (s *scanner) subset(at int) error {
	for {
		s.space()
		rest := s.src[s.pos:]
		var err error
		switch {
		case rest == "":
			return s.fail(at, "the document type declaration has no end")
		case rest[0] == ']':
			s.pos++
			return nil
		case rest[0] == '%':
			// Parameter entities are not expanded, so later declarations may already have been made in one.
			s.pos++
			if _, err = s.name("a name after %"); err == nil && !s.word(";") {
				err = s.fail(at, "a parameter entity's reference has no end")
			}
			s.entities.loose = !s.standalone
		case strings.HasPrefix(rest, "<!--"), strings.HasPrefix(rest, "<?"):
			_, err = s.nonElement()
		case s.word("<!ENTITY"):
			err = s.entityDeclaration()
		case s.word("<!ELEMENT"), s.word("<!ATTLIST"), s.word("<!NOTATION"):
			err = s.otherDeclaration()
		default:
			err = s.fail(s.pos, "something in the document type declaration that is no declaration")
		}
		if err != nil {
			return err
		}
		if s.nodes++; s.nodes > 2*maxNodes {
			return s.fail(s.pos, "more than %d declarations", maxNodes)
		}
	}
}

// entityDeclaration reads the rest of <!ENTITY name 'text'>. The first declaration of a name counts.
func (s *scanner) entityDeclaration() error {
	at := s.pos
	if err := s.gap(at); err != nil {
		return err
	}
	parameter := s.word("%")
	if parameter {
		if err := s.gap(at); err != nil {
			return err
		}
	}
	name, err := s.name("an entity's name")
	if err != nil {
		return err
	}
	if err := s.gap(at); err != nil {
		return err
	}
	outside, err := s.externalID(at)
	text := ""
	if err == nil && !outside {
		if text, err = s.literal(at); err == nil {
			text, err = s.entityValue(at, text)
		}
	}
	if err != nil {
		return err
	}
	_, known := s.entities.text[name]
	switch {
	case parameter || known || s.entities.alien[name]:
	case outside:
		s.entities.alien[name] = true
	default:
		s.entities.text[name] = text
	}
	s.space()
	if outside && s.word("NDATA") {
		if err := s.gap(at); err != nil {
			return err
		}
		if _, err := s.name("a notation's name"); err != nil {
			return err
		}
		s.space()
	}
	if !s.word(">") {
		return s.fail(at, "the declaration of entity %s has no end", clip(name))
	}
	return nil
}

// entityValue expands the character references in an entity's text (section 4.5).
func (s *scanner) entityValue(at int, text string) (string, error) {
	if strings.Contains(text, "%") {
		return "", s.fail(at, "%% in an entity's text, expected &#37;")
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if strings.HasPrefix(text[i:], "&#") {
			r, n := charRef(text[i:])
			if n == 0 {
				return "", s.fail(at, "%q is not a known entity", clip(text[i:min(len(text), i+12)]))
			}
			b.WriteRune(r)
			i += n
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String(), nil
}

// otherDeclaration skips the rest of a declaration.
func (s *scanner) otherDeclaration() error {
	at := s.pos
	for s.pos < len(s.src) {
		switch s.src[s.pos] {
		case '>':
			s.pos++
			return nil
		case '<':
			return s.fail(at, "a declaration has no end")
		case '\'', '"':
			if _, err := s.literal(at); err != nil {
				return err
			}
		default:
			s.pos++
		}
	}
	return s.fail(at, "a declaration has no end")
}
