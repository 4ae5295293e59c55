// Package must is for the steps of a test that have to succeed: it fails the test with their error, at their line.
package must

import (
	"strings"
	"testing"
)

// Get returns the result of a call that must succeed: must.Get(os.Open(name))(t).
func Get[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return result
	}
}

// Do requires that there is no error.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Try requires that there is no error, and goes on if there is one.
func Try(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Contain requires that a text has each of some parts, and goes on if one is missing.
func Contain(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("expected %q in\n%s", part, text)
		}
	}
}

// Lack requires that a text has none of some parts, and goes on if it has one.
func Lack(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("found %q in\n%s", part, text)
		}
	}
}

// Fit requires that no line of a text takes more columns than there are, as visible counts them, and goes on if one
// does.
func Fit(t testing.TB, text string, columns int, visible func(line string) int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := visible(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("%d columns, expected at most %d: %q", n, columns, line)
		}
	}
}
