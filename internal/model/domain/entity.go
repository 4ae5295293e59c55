package domain

import (
	"strconv"
	"strings"
)

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
