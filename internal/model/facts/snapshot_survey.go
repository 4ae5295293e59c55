package facts

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Bounds that are checked before anything is decoded: a few bytes of JSON can stand for a large structure ("{}" in a
// list of NICs), and a CPU list of seven bytes for 16384 numbers.
const (
	maxDepth    = 32
	maxObjects  = 500_000
	maxElements = 2_000_000 // in all lists and objects
	maxListed   = 8_000_000 // CPUs in all CPU lists
)

// checkBounds checks the schema and the bounds in one pass over the text. It only looks at structure and leaves syntax
// errors to the decoder. objectsAllowed is the most objects that the text may have.
func checkBounds(text []byte, objectsAllowed int) error {
	var depth, objects, elements, listed int
	schema, key, named := "", "", false
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
			if text[i] == '{' {
				objects++
			}
		case '}', ']':
			depth--
		case ',':
			elements++
		case '"':
			end := i + 1
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			content := text[i+1 : min(end, len(text))]
			if depth == 1 && isKey(text, end) {
				key = string(content[:min(len(content), 64)])
			} else if depth == 1 && key == "schema" && !named && end < len(text) {
				schema, named = string(content[:min(len(content), 64)]), true
			}
			listed += listedCPUs(content)
			i = end
		}
		if depth > maxDepth || objects > objectsAllowed || elements > maxElements || listed > maxListed {
			return invalid(remake,
				"it holds more than a host can have (nesting, elements or CPU lists beyond all bounds)")
		}
	}
	switch {
	case !named && !json.Valid(text):
		return nil // the decoder says what is wrong with it
	case !named:
		return invalid(remake, "it names no schema; expected %q", Schema)
	case schema == Schema:
		return nil
	case strings.HasPrefix(schema, "mpps.snapshot/"):
		return invalid("make a new one with this version of mpps, or read it with the version that made it",
			"it has schema %q, this version reads %q", clip([]byte(schema), 40), Schema)
	case strings.HasPrefix(schema, "mpps."):
		return invalid("this is the answer of another command; "+remake, "it has schema %q, expected %q",
			clip([]byte(schema), 40), Schema)
	}
	return invalid(remake, "it has schema %q, expected %q", clip([]byte(schema), 40), Schema)
}

// isKey reports whether a colon follows the string that ends at end.
func isKey(text []byte, end int) bool {
	if end+1 > len(text) {
		return false
	}
	rest := bytes.TrimLeft(text[min(end+1, len(text)):], " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

// listedCPUs returns the number of CPUs in a CPU list, 0 for other strings.
func listedCPUs(content []byte) int {
	if bytes.IndexByte(content, '-') < 0 {
		return 0
	}
	total, number, from := 0, 0, -1
	end := func() {
		if from >= 0 && number > from {
			total += min(number-from, maxCPUs)
		}
		number, from = 0, -1
	}
	for _, c := range content {
		switch {
		case c >= '0' && c <= '9':
			number = min(number*10+int(c-'0'), 1<<30)
		case c == '-':
			from, number = number, 0
		case c == ',' || c == ' ':
			end()
		default:
			return 0
		}
	}
	end()
	return total
}
