package report

import "testing"

func TestWrapped(t *testing.T) {
	have := draw(20, func(t *Text) { t.Wrap("ab: ", "one two three four five six") })
	want := "ab: one two three\n    four five six\n"
	if have != want {
		t.Errorf("wrapped to\n%s, expected\n%s", have, want)
	}
	share := draw(20, func(t *Text) { t.Wrap("", "it is at 93 of 94 %, no more") })
	if share != "it is at 93 of 94 %,\nno more\n" {
		t.Errorf("a share made\n%q", share)
	}
	share = draw(19, func(t *Text) { t.Wrap("", "it is at 93 of 94 %, no more") })
	if share != "it is at 93 of\n94 %, no more\n" {
		t.Errorf("a share at the end of a line made\n%q", share)
	}
	long := draw(20, func(t *Text) { t.Wrap("a prefix longer than the width: ", "x y") })
	if long != "a prefix longer than\nthe width:\n    x y\n" {
		t.Errorf("a long prefix made\n%q", long)
	}
}
