package report

import (
	"testing"

	"mpps/internal/must"
)

func TestWrapped(t *testing.T) {
	have := Draw(20, func(t *Text) { t.Wrap("ab: ", "one two three four five six") })
	want := "ab: one two three\n    four five six\n"
	must.Equal(t, have, want, "wrapped")
	share := Draw(20, func(t *Text) { t.Wrap("", "it is at 93 of 94 %, no more") })
	must.Equal(t, share, "it is at 93 of 94 %,\nno more\n", "a share made")
	share = Draw(19, func(t *Text) { t.Wrap("", "it is at 93 of 94 %, no more") })
	must.Equal(t, share, "it is at 93 of\n94 %, no more\n", "a share at the end of a line made")
	long := Draw(20, func(t *Text) { t.Wrap("a prefix longer than the width: ", "x y") })
	must.Equal(t, long, "a prefix longer than\nthe width:\n    x y\n", "a long prefix made")
}

func TestWrappedWide(t *testing.T) {
	for width, want := range map[int]string{
		21: "一二三四，五六 CPU 七\n八（九）。\n",
		9:  "一二三\n四，五六\nCPU 七八\n（九）。\n", // no comma begins a line
		10: "一二三四，\n五六 CPU\n七八\n（九）。\n", // and no parenthesis ends one
	} {
		must.Equal(t, Draw(width, func(t *Text) { t.Wrap("", "一二三四，五六 CPU 七八（九）。") }), want, "%d columns", width)
	}
	must.Equal(t, Cut("一二三四", 7), "一二三…", "cut")
	must.Equal(t, Cut("一二三四", 6), "一二…", "cut")
}
