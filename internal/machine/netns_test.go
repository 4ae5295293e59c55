//go:build netns

package machine

import "testing"

func liveMachine(t *testing.T) *Machine {
	t.Helper()
	m, err := Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}
