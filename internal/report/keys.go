package report

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key is one press of a key: a character, or one of those below.
type Key string

// Keys without a character.
const (
	KeyUp        Key = "up"
	KeyDown      Key = "down"
	KeyPageUp    Key = "page up"
	KeyPageDown  Key = "page down"
	KeyHome      Key = "home"
	KeyEnd       Key = "end"
	KeyEnter     Key = "enter"
	KeyEscape    Key = "escape"
	KeyBackspace Key = "backspace"
)

// sequences are what terminals send for them after an escape (xterm's and the console's).
var sequences = map[string]Key{
	"[A": KeyUp, "[B": KeyDown, "OA": KeyUp, "OB": KeyDown, "[5~": KeyPageUp, "[6~": KeyPageDown,
	"[H": KeyHome, "[F": KeyEnd, "OH": KeyHome, "OF": KeyEnd, "[1~": KeyHome, "[4~": KeyEnd, "[7~": KeyHome, "[8~": KeyEnd,
}

// Keys reads the keyboard until it ends. The channel is closed then; where there is no keyboard it never gives anything.
func (s *Screen) Keys() <-chan Key {
	keys := make(chan Key)
	if s.in == nil {
		return keys
	}
	go func() {
		defer s.Guard()
		defer close(keys)
		buffer := make([]byte, 256)
		rest := ""
		for {
			n, err := s.in.Read(buffer)
			if n > 0 {
				var all []Key
				all, rest = parseKeys(rest + string(buffer[:n]))
				for _, k := range all {
					keys <- k
				}
			}
			if err != nil || n == 0 {
				return
			}
		}
	}()
	return keys
}

// parseKeys reads what a terminal sent, and returns what is not complete yet.
func parseKeys(text string) (keys []Key, rest string) {
	for text != "" {
		switch c := text[0]; {
		case c == 0x1b:
			if len(text) == 1 || text[1] != '[' && text[1] != 'O' { // a key alone: sequences come in one piece
				keys, text = append(keys, KeyEscape), text[1:]
				continue
			}
			end := strings.IndexFunc(text[2:], func(r rune) bool { return r >= 0x40 && r <= 0x7e })
			if end < 0 {
				if len(text) > 16 { // no key is so long
					return keys, ""
				}
				return keys, text
			}
			if k, known := sequences[text[1:2+end+1]]; known {
				keys = append(keys, k)
			}
			text = text[2+end+1:]
		case c == '\r' || c == '\n':
			keys, text = append(keys, KeyEnter), text[1:]
		case c == 0x7f || c == 0x08:
			keys, text = append(keys, KeyBackspace), text[1:]
		default:
			if !utf8.FullRuneInString(text) {
				return keys, text
			}
			r, size := utf8.DecodeRuneInString(text)
			if unicode.IsPrint(r) && r != utf8.RuneError {
				keys = append(keys, Key(string(r)))
			}
			text = text[size:]
		}
	}
	return keys, ""
}
