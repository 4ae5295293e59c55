package domain

import (
	"fmt"
	"strings"
)

// scanner reads XML 1.0 (fifth edition) without a document type declaration, which libvirt never prints.
type scanner struct {
	src   string
	pos   int
	nodes int
}

func (s *scanner) fail(at int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Line: 1 + strings.Count(s.src[:min(at, len(s.src))], "\n"),
		Problem: fmt.Sprintf(format, args...)}
}

func (s *scanner) document() (*Doc, error) {
	d := &Doc{}
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

// misc skips comments, processing instructions and white space outside the root element.
func (s *scanner) misc() error {
	for {
		s.space()
		rest := s.src[s.pos:]
		switch {
		case strings.HasPrefix(rest, "<!--"), strings.HasPrefix(rest, "<?"):
			if _, err := s.nonElement(); err != nil {
				return err
			}
		case strings.HasPrefix(rest, "<!DOCTYPE"):
			bad := s.fail(s.pos, "a document type declaration, expected none")
			bad.Advice = "take it out, and write out the entities that it declares; virsh dumpxml NAME has none"
			return bad
		case strings.HasPrefix(rest, "<!"):
			return s.fail(s.pos, "a declaration out of place")
		case rest == "" || rest[0] == '<':
			return nil
		default:
			return s.fail(s.pos, "text outside the <domain> element")
		}
	}
}

// tree reads one element with its content. It keeps its own stack, so nesting costs no goroutine stack.
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
			n, err := s.nonElement()
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

// splitLead splits an element's indentation off the text before it.
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
