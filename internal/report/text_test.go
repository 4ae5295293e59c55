package report

import "testing"

func TestWrapped(t *testing.T) {
	have := Draw(20, func(t *Text) { t.Wrap("ab: ", "one two three four five six") })
	want := "ab: one two three\n    four five six\n"
	if have != want {
		t.Errorf("wrapped to\n%s, expected\n%s", have, want)
	}
	share := Draw(20, func(t *Text) { t.Wrap("", "it is at 93 of 94 %, no more") })
	if share != "it is at 93 of 94 %,\nno more\n" {
		t.Errorf("a share made\n%q", share)
	}
	share = Draw(19, func(t *Text) { t.Wrap("", "it is at 93 of 94 %, no more") })
	if share != "it is at 93 of\n94 %, no more\n" {
		t.Errorf("a share at the end of a line made\n%q", share)
	}
	long := Draw(20, func(t *Text) { t.Wrap("a prefix longer than the width: ", "x y") })
	if long != "a prefix longer than\nthe width:\n    x y\n" {
		t.Errorf("a long prefix made\n%q", long)
	}
}

func TestWrappedWide(t *testing.T) {
	for width, want := range map[int]string{
		21: "一二三四，五六 CPU 七\n八（九）。\n",
		9:  "一二三\n四，五六\nCPU 七八\n（九）。\n", // no comma begins a line
		10: "一二三四，\n五六 CPU\n七八\n（九）。\n", // and no parenthesis ends one
	} {
		if have := Draw(width, func(t *Text) { t.Wrap("", "一二三四，五六 CPU 七八（九）。") }); have != want {
			t.Errorf("%d columns:\n%sexpected\n%s", width, have, want)
		}
	}
	if have := Cut("一二三四", 7); have != "一二三…" {
		t.Errorf("cut to %q", have)
	}
	if have := Cut("一二三四", 6); have != "一二…" {
		t.Errorf("cut to %q", have)
	}
}
