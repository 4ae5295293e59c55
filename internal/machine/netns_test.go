//go:build netns

package machine

import (
	"testing"

	"mpps/internal/must"
)

func liveMachine(t *testing.T) *Machine {
	t.Helper()
	m := must.Get(Open("/"))(t)
	t.Cleanup(func() { m.Close() })
	return m
}
