package report

import (
	"slices"
	"testing"

	"mpps/internal/must"
)

func TestKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want []Key
		rest string
	}{
		{"q", []Key{"q"}, ""},
		{" s", []Key{" ", "s"}, ""},
		{"\x1b", []Key{KeyEscape}, ""},
		{"\x1b[A\x1bOB\x1b[5~\x1b[6~", []Key{KeyUp, KeyDown, KeyPageUp, KeyPageDown}, ""},
		{"\x1b[H\x1b[4~", []Key{KeyHome, KeyEnd}, ""},
		{"\x1b[1;5Cq", []Key{"q"}, ""}, // a key that means nothing here
		{"\x1b[", nil, "\x1b["},        // the rest comes later
		{"a\xc3", []Key{"a"}, "\xc3"},  // so does that of a character
		{"é\r\x7f", []Key{"é", KeyEnter, KeyBackspace}, ""},
		{"\x00\x01\xff", nil, ""},
		{"\x1b[00000000000000000000", nil, ""},
	} {
		got, rest := parseKeys(c.text)
		must.Hold(t, slices.Equal(got, c.want) && rest == c.rest,
			"%q: %q and %q, wanted %q and %q", c.text, got, rest, c.want, c.rest)
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("\x1b[A q")
	f.Fuzz(func(t *testing.T, text string) {
		if _, rest := parseKeys(text); len(rest) > 16 {
			t.Errorf("%d bytes wait for more", len(rest))
		}
	})
}
