package domain

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// libvirt prints UTF-8 without a document type. Other encodings are refused: what is edited is written back.

// iconvAdvice is for documents in other encodings.
const iconvAdvice = "convert it with iconv, and change the declaration"

// utf16Starts are the first bytes of UTF-16: a byte order mark, or a first character < of two bytes.
var utf16Starts = []string{"\xff\xfe", "\xfe\xff", "<\x00", "\x00<"}

// checkCharacters refuses other encodings than UTF-8, and bytes that no XML document may have (XML 1.0 section 2.2).
func (s *scanner) checkCharacters() error {
	if slices.ContainsFunc(utf16Starts, func(start string) bool { return strings.HasPrefix(s.src, start) }) {
		return &SyntaxError{Line: 1, Problem: "encoding UTF-16, expected UTF-8", Advice: iconvAdvice}
	}
	if strings.TrimSpace(strings.TrimPrefix(s.src, "\ufeff")) == "" {
		return &SyntaxError{Line: 1, Problem: "no text, expected a <domain> element"}
	}
	declared, err := s.declaration()
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "ascii"}, strings.ToLower(declared)) {
		bad := s.fail(0, "encoding %q, expected UTF-8", clip(declared))
		bad.Advice = iconvAdvice
		return bad
	}
	for i := 0; i < len(s.src); {
		c := s.src[i]
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' {
			return s.fail(i, "byte 0x%02x is not allowed in XML", c)
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

// declaration reads the XML declaration, if there is one, and returns the encoding that it names.
func (s *scanner) declaration() (string, error) {
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
		switch minor, one := strings.CutPrefix(a.raw, "1."); {
		case rank == 1 && (!one || minor == "" || strings.Trim(minor, "0123456789") != ""):
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
