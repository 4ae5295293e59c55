package report

import (
	"slices"
	"testing"
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
		if !slices.Equal(got, c.want) || rest != c.rest {
			t.Errorf("%q: %q and %q, wanted %q and %q", c.text, got, rest, c.want, c.rest)
		}
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

// TestPress plays keys and looks at what the view has become.
func TestPress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys []Key
		want TopView
		quit bool
	}{
		{[]Key{"q"}, TopView{}, true},
		{[]Key{" "}, TopView{Paused: true}, false},
		{[]Key{" ", " "}, TopView{}, false},
		{[]Key{"s"}, TopView{Sort: SortRate}, false},
		{[]Key{"s", "s", "s", "s"}, TopView{Sort: SortPath}, false},
		{[]Key{"d"}, TopView{Detail: DetailAll}, false},
		{[]Key{"d", "d", "d"}, TopView{Detail: DetailFit}, false},
		{[]Key{"i"}, TopView{Idle: true}, false},
		{[]Key{"g", "v", "q", KeyBackspace, "m", KeyEnter}, TopView{Guest: "vm"}, false}, // q is a letter here
		{[]Key{"g", "v", KeyEnter, KeyEscape}, TopView{}, false},
		{[]Key{"g", "v", KeyEscape}, TopView{}, false},
		{[]Key{"g", KeyUp, KeyBackspace}, TopView{Typing: true}, false},
		{[]Key{"?"}, TopView{Help: true}, false},
		{[]Key{"?", "s"}, TopView{}, false},
		{[]Key{"?", "q"}, TopView{}, true},
		{[]Key{KeyUp}, TopView{}, false},
		{[]Key{KeyDown, KeyPageDown}, TopView{Offset: 11}, false},
		{[]Key{KeyEnd, KeyDown}, TopView{Offset: 30}, false},
		{[]Key{KeyEnd, KeyPageUp, KeyHome, "j"}, TopView{Offset: 1}, false},
	} {
		v, quit := TopView{}, false
		for _, k := range c.keys {
			quit = v.Press(k, 30, 10)
		}
		if v != c.want || quit != c.quit {
			t.Errorf("%q: %+v, quit %v; wanted %+v, %v", c.keys, v, quit, c.want, c.quit)
		}
	}
}
