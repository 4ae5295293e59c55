// Package must is for the steps of a test that have to succeed: it fails the test with their error, at their line.
package must

import "testing"

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
