package domain

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// scanner reads XML 1.0 (fifth edition) without a document type declaration, so with the five predefined entities and
// character references only: nothing in it can expand.
type scanner struct {
	src    string
	pos    int
	nodes  int
	latin1 bool
}

func (s *scanner) fail(at int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Line: 1 + strings.Count(s.src[:min(at, len(s.src))], "\n"), Problem: fmt.Sprintf(format, args...)}
}

// checkCharacters finds the encoding and refuses bytes that no XML document may have (XML 1.0 section 2.2).
func (s *scanner) checkCharacters() error {
	if strings.TrimSpace(s.src) == "" {
		return &SyntaxError{Line: 1, Problem: "no text, expected a <domain> element"}
	}
	if strings.HasPrefix(s.src, "\xfe\xff") || strings.HasPrefix(s.src, "\xff\xfe") {
		return &SyntaxError{Line: 1, Problem: "encoded in UTF-16, expected UTF-8", Advice: "convert it: iconv -f UTF-16 -t UTF-8"}
	}
	declared, err := s.encoding()
	if err != nil {
		return err
	}
	switch strings.ToLower(declared) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
	case "iso-8859-1", "latin1":
		s.latin1 = true
	default:
		bad := s.fail(0, "encoding %q, expected UTF-8", clip(declared))
		bad.Advice = "convert it with iconv, and change the declaration"
		return bad
	}
	for i := 0; i < len(s.src); {
		c := s.src[i]
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' {
			return s.fail(i, "byte 0x%02x is not allowed in XML", c)
		}
		if c < utf8.RuneSelf || s.latin1 {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s.src[i:])
		if r == utf8.RuneError && n == 1 {
			return s.fail(i, "byte 0x%02x is not UTF-8", c)
		}
		if !legalRune(r) {
			return s.fail(i, "character U+%04X is not allowed in XML", r)
		}
		i += n
	}
	return nil
}

// encoding reads the declaration's encoding, if there is a declaration.
func (s *scanner) encoding() (string, error) {
	text := strings.TrimPrefix(s.src, "\ufeff")
	if !strings.HasPrefix(text, "<?xml") || len(text) < 6 || !isSpace(text[5]) {
		return "", nil
	}
	end := strings.Index(text, "?>")
	if end < 0 {
		return "", s.fail(0, "the XML declaration has no end")
	}
	sub := &scanner{src: text[:end], pos: 5}
	order := map[string]int{"version": 1, "encoding": 2, "standalone": 3}
	encoding, last := "", 0
	for {
		before := sub.pos
		if sub.space(); sub.pos == len(sub.src) {
			break
		}
		a, err := sub.attribute()
		if err != nil || before == sub.pos || !isSpace(sub.src[before]) {
			return "", s.fail(0, "the XML declaration is not well-formed")
		}
		rank := order[a.name]
		if rank <= last || last == 0 && rank != 1 {
			return "", s.fail(0, "the XML declaration has %q out of place", clip(a.name))
		}
		last = rank
		switch {
		case rank == 1 && a.raw != "1.0":
			return "", s.fail(0, "XML version %q, expected 1.0", clip(a.raw))
		case rank == 2:
			encoding = a.raw
		case rank == 3 && a.raw != "yes" && a.raw != "no":
			return "", s.fail(0, "standalone is %q in the XML declaration, expected yes or no", clip(a.raw))
		}
	}
	if last == 0 {
		return "", s.fail(0, "the XML declaration has no version")
	}
	return encoding, nil
}

// document reads the whole text.
func (s *scanner) document() (*Doc, error) {
	d := &Doc{latin1: s.latin1}
	s.pos = len(s.src) - len(strings.TrimPrefix(s.src, "\ufeff"))
	if rest := s.src[s.pos:]; strings.HasPrefix(rest, "<?xml") && len(rest) > 5 && isSpace(rest[5]) {
		s.pos += strings.Index(rest, "?>") + 2
	}
	if err := s.misc(); err != nil {
		return nil, err
	}
	if s.pos == len(s.src) {
		return nil, s.fail(s.pos, "no element, expected <domain>")
	}
	d.head = s.src[:s.pos]
	at := s.pos
	root, err := s.tree()
	if err != nil {
		return nil, err
	}
	if root.name != "domain" {
		bad := s.fail(at, "the document is a <%s>, expected <domain>", clip(root.name))
		bad.Advice = "virsh dumpxml NAME gives a domain"
		return nil, bad
	}
	d.root = root
	after := s.pos
	if err := s.misc(); err != nil {
		return nil, err
	}
	if s.pos != len(s.src) {
		return nil, s.fail(s.pos, "something follows the end of <domain>")
	}
	d.tail = s.src[after:]
	d.layout(s.src)
	return d, nil
}

// misc passes over comments, processing instructions and white space outside the root element.
func (s *scanner) misc() error {
	for {
		s.space()
		rest := s.src[s.pos:]
		switch {
		case strings.HasPrefix(rest, "<!--"), strings.HasPrefix(rest, "<?"):
			if _, err := s.aside(); err != nil {
				return err
			}
		case strings.HasPrefix(rest, "<!"):
			bad := s.fail(s.pos, "a document type declaration is not allowed")
			bad.Advice = "domain XML has none; remove it and write out the entities that it defines"
			return bad
		case rest == "" || rest[0] == '<':
			return nil
		default:
			return s.fail(s.pos, "text outside the <domain> element")
		}
	}
}

// tree reads one element with everything in it. It keeps its own stack: depth costs no goroutine stack.
func (s *scanner) tree() (*element, error) {
	root, err := s.startTag()
	if err != nil {
		return nil, err
	}
	e, depth := root, 1
	if root.selfClosed {
		return root, nil
	}
	for {
		at := s.pos
		next := strings.IndexByte(s.src[at:], '<')
		if next < 0 {
			return nil, s.fail(len(s.src), "the text ends inside <%s>", clip(e.name))
		}
		text := s.src[at : at+next]
		if err := s.checkText(at, text); err != nil {
			return nil, err
		}
		s.pos += next
		rest := s.src[s.pos:]
		switch {
		case strings.HasPrefix(rest, "</"):
			e.addText(text)
			if err := s.endTag(e); err != nil {
				return nil, err
			}
			e.bare = len(e.kids) == 0
			if e, depth = e.parent, depth-1; e == nil {
				return root, nil
			}
		case strings.HasPrefix(rest, "<!--"), strings.HasPrefix(rest, "<?"), strings.HasPrefix(rest, "<!["):
			e.addText(text)
			n, err := s.aside()
			if err != nil {
				return nil, err
			}
			e.kids = append(e.kids, n)
		case strings.HasPrefix(rest, "<!"):
			return nil, s.fail(s.pos, "a declaration inside an element")
		default:
			kid, err := s.startTag()
			if err != nil {
				return nil, err
			}
			text, kid.lead = splitLead(text)
			e.addText(text)
			kid.parent = e
			e.kids = append(e.kids, node{kind: elementNode, el: kid})
			if !kid.selfClosed {
				if depth++; depth > MaxDepth {
					return nil, s.fail(s.pos, "elements nested deeper than %d", MaxDepth)
				}
				e = kid
			}
		}
		if s.nodes += 2; s.nodes > 2*maxNodes {
			return nil, s.fail(s.pos, "more than %d elements", maxNodes)
		}
	}
}

func (e *element) addText(text string) {
	if text != "" {
		e.kids = append(e.kids, node{kind: textNode, raw: text})
	}
}

// splitLead parts the indentation of an element from the text before it.
func splitLead(text string) (rest, lead string) {
	i := len(text)
	for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') {
		i--
	}
	if i == 0 || text[i-1] != '\n' {
		return text, ""
	}
	i--
	if i > 0 && text[i-1] == '\r' {
		i--
	}
	return text[:i], text[i:]
}
