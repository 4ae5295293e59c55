package machine

import (
	"testing"

	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// live opens the machine that the test runs on.
func live(tb testing.TB) *Machine { return opened(tb, "/") }

// lines returns a machine with a few files of one line each, for cases without a recording.
func lines(tb testing.TB, files map[string]string) *Machine {
	return opened(tb, treetest.Lines(tb, files).Path)
}

// recorded writes files, as treetest does, and opens them as a recorded machine.
func recorded(tb testing.TB, files map[string]string) *Machine {
	return opened(tb, treetest.Recorded(tb, files).Path)
}

func opened(tb testing.TB, root string) *Machine {
	tb.Helper()
	m := must.Get(Open(root))(tb)
	tb.Cleanup(func() { m.Close() })
	return m
}
