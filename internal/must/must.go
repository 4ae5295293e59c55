// Package must has the assertions of tests, each in one line. A test fails at the line of the assertion. A library
// would have more than these few, and be one more dependency.
package must

import (
	"errors"
	"fmt"
	"reflect"
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

// Try requires that there is no error, and continues if there is one.
func Try(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// Contain requires that a text has each of some parts, and continues if one is missing.
func Contain(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("expected %q in\n%s", part, text)
		}
	}
}

// Lack requires that a text has none of some parts, and continues if it has one.
func Lack(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if strings.Contains(text, part) {
			t.Errorf("found %q in\n%s", part, text)
		}
	}
}

// Equal requires that a result is the expected one, and continues if it is not. The format says what it is the result
// of.
func Equal[T comparable](t testing.TB, found, expected T, format string, args ...any) {
	t.Helper()
	if found == expected {
		return
	}
	what := fmt.Sprintf(format, args...)
	if text := fmt.Sprint(found, expected); strings.Contains(text, "\n") {
		t.Errorf("%s: found\n%v\nexpected\n%v", what, found, expected)
		return
	}
	verb := "%+v"
	if reflect.TypeFor[T]().Kind() == reflect.String {
		verb = "%q"
	}
	t.Errorf("%s: found "+verb+", expected "+verb, what, found, expected)
}

// Refuse requires an error, and continues if there is none. The format says what was wrongly accepted.
func Refuse(t testing.TB, err error, format string, args ...any) {
	t.Helper()
	if err == nil {
		t.Errorf(format, args...)
	}
}

// Fail requires that a call fails, like Refuse: must.Fail(os.Open(name))(t, "%s was opened", name).
func Fail(_ any, err error) func(t testing.TB, format string, args ...any) {
	return func(t testing.TB, format string, args ...any) {
		t.Helper()
		Refuse(t, err, format, args...)
	}
}

// Succeed requires that there is no error, and continues if there is one. The format says what failed.
func Succeed(t testing.TB, err error, format string, args ...any) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", fmt.Sprintf(format, args...), err)
	}
}

// Pass requires that a call succeeds, like Succeed, and drops its result.
func Pass(_ any, err error) func(t testing.TB, format string, args ...any) {
	return func(t testing.TB, format string, args ...any) {
		t.Helper()
		Succeed(t, err, format, args...)
	}
}

// Is requires an error that wraps the expected one, and continues if it is another or none.
func Is(t testing.TB, err, expected error, format string, args ...any) {
	t.Helper()
	if !errors.Is(err, expected) {
		t.Errorf("%s: error %v, expected %v", fmt.Sprintf(format, args...), err, expected)
	}
}

// Say requires an error whose text has a part, and continues if it has not, or if there is no error.
func Say(t testing.TB, err error, part, format string, args ...any) {
	t.Helper()
	if text := fmt.Sprint(err); err == nil || !strings.Contains(text, part) {
		t.Errorf("%s: error %s, expected %q in it", fmt.Sprintf(format, args...), text, part)
	}
}

// Same is Equal for what Go does not compare: lists, maps and what holds them. Empty and nil differ.
func Same[T any](t testing.TB, found, expected T, format string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(found, expected) {
		t.Errorf("%s: found %+v, expected %+v", fmt.Sprintf(format, args...), found, expected)
	}
}

// Empty requires a list without elements, and continues if it has some. The format says what they are.
func Empty[T any](t testing.TB, list []T, format string, args ...any) {
	t.Helper()
	if len(list) > 0 {
		t.Errorf("%s: %+v", fmt.Sprintf(format, args...), list)
	}
}

// Fit requires that no line of a text takes more columns than there are, as visible counts them, and continues if one
// does.
func Fit(t testing.TB, text string, columns int, visible func(line string) int) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := visible(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("%d columns, expected at most %d: %q", n, columns, line)
		}
	}
}

// Hold requires a condition, and continues if it does not hold. The format says what was found.
func Hold(t testing.TB, condition bool, format string, args ...any) {
	t.Helper()
	if !condition {
		t.Errorf(format, args...)
	}
}

// Need requires a condition, and ends the test if it does not hold.
func Need(t testing.TB, condition bool, format string, args ...any) {
	t.Helper()
	if !condition {
		t.Fatalf(format, args...)
	}
}

// NoDiff requires that two values do not differ, as cmp.Diff shows it, and continues if they do. The format says what
// they are.
func NoDiff(t testing.TB, diff, format string, args ...any) {
	t.Helper()
	if diff != "" {
		t.Errorf("%s:\n%s", fmt.Sprintf(format, args...), diff)
	}
}

// Err is the error of a call, whose result is dropped: must.Is(t, must.Err(os.Open(name)), fs.ErrNotExist, "%s", name).
func Err(_ any, err error) error { return err }
