//go:build netns

package host

import (
	"slices"
	"testing"
)

func liveMachine(t *testing.T) *Machine {
	t.Helper()
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func names[T any](list []T, name func(T) string) []string {
	var all []string
	for _, item := range list {
		all = append(all, name(item))
	}
	slices.Sort(all)
	return all
}
