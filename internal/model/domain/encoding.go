package domain

import (
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// charset is a document's encoding. UTF-16 is edited as UTF-8 and written back as UTF-16. Encodings with one byte per
// character, whose lower half is ASCII, are edited as they are.
type charset byte

const (
	utf8Bytes charset = iota
	latin1            // ISO-8859-1: each byte is the code point
	oneByte           // another one-byte encoding: the meaning of the upper half is unknown here
	utf16LE
	utf16BE
)

// single reports whether each character is one byte.
func (c charset) single() bool { return c == latin1 || c == oneByte }

// wide returns the byte order of UTF-16, nil for other encodings.
func (c charset) wide() binary.ByteOrder {
	switch c {
	case utf16LE:
		return binary.LittleEndian
	case utf16BE:
		return binary.BigEndian
	}
	return nil
}

func (c charset) encode(text string) []byte {
	order := c.wide()
	if order == nil {
		return []byte(text)
	}
	units := utf16.Encode([]rune(text))
	out := make([]byte, 2*len(units))
	for i, u := range units {
		order.PutUint16(out[2*i:], u)
	}
	return out
}

// decodeText recognizes UTF-16 by its byte order mark, or by a first character < of two bytes, and returns the text in
// UTF-8.
func decodeText(raw []byte) (string, charset, error) {
	var is charset
	switch text := string(raw[:min(len(raw), 2)]); text {
	case "\xff\xfe", "<\x00":
		is = utf16LE
	case "\xfe\xff", "\x00<":
		is = utf16BE
	default:
		return string(raw), utf8Bytes, nil
	}
	bad := &SyntaxError{Line: 1, Problem: "looks like UTF-16 and is not", Advice: "write it in UTF-8"}
	if len(raw)%2 != 0 {
		return "", is, bad
	}
	order := is.wide()
	units := make([]uint16, len(raw)/2)
	for i := range units {
		units[i] = order.Uint16(raw[2*i:])
	}
	runes := utf16.Decode(units)
	if !slices.Equal(utf16.Encode(runes), units) {
		return "", is, bad // half a surrogate pair
	}
	return string(runes), is, nil
}

// checkCharacters determines the encoding and refuses bytes that no XML document may have (XML 1.0 section 2.2).
func (s *scanner) checkCharacters() error {
	if strings.TrimSpace(strings.TrimPrefix(s.src, "\ufeff")) == "" {
		return &SyntaxError{Line: 1, Problem: "no text, expected a <domain> element"}
	}
	declared, err := s.declaration()
	if err != nil {
		return err
	}
	if s.charset, err = s.charsetOf(declared); err != nil {
		return err
	}
	for i := 0; i < len(s.src); {
		c := s.src[i]
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' {
			return s.fail(i, "byte 0x%02x is not allowed in XML", c)
		}
		if c < utf8.RuneSelf || s.charset.single() {
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

// charsetOf returns the encoding for a declared name. UTF-16 was recognized by its bytes; a name that contradicts them
// is refused.
func (s *scanner) charsetOf(declared string) (charset, error) {
	name := strings.ToLower(declared)
	wide := strings.HasPrefix(name, "utf-16") || name == "utf16"
	switch {
	case s.charset.wide() != nil && (wide || name == ""):
		return s.charset, nil
	case s.charset.wide() != nil || wide:
	case slices.Contains([]string{"", "utf-8", "utf8", "us-ascii", "ascii"}, name):
		return utf8Bytes, nil
	case strings.HasPrefix(s.src, "\ufeff"):
	case name == "iso-8859-1" || name == "latin1":
		return latin1, nil
	case strings.HasPrefix(name, "iso-8859-"), strings.HasPrefix(name, "windows-125"), strings.HasPrefix(name, "koi8-"):
		return oneByte, nil
	}
	bad := s.fail(0, "encoding %q, expected UTF-8", clip(declared))
	bad.Advice = "convert it with iconv, and change the declaration"
	return utf8Bytes, bad
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
		case rank == 3:
			s.standalone = a.raw == "yes"
		}
	}
	if last == 0 {
		return "", s.fail(0, "the XML declaration has no version")
	}
	return encoding, nil
}
