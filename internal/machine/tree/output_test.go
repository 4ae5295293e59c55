package tree_test

import (
	"testing"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/must"
)

// TestProgramOutput: a program that prints without end is ended; of its complaints the first are kept.
func TestProgramOutput(t *testing.T) {
	m := must.Get(tree.Open("/"))(t)
	defer m.Close()
	began := time.Now()
	_, err := m.Command(t.Context(), "", treetest.Program(t, "exec cat /dev/zero"))
	must.Is(t, err, tree.ErrOutput, "printing without end")
	_, complaint, _, err := m.Program(t.Context(), "", treetest.Program(t, "head -c 1000000 /dev/zero >&2; exit 1"))
	if err == nil || len(complaint) > 64<<10 {
		t.Errorf("%d bytes of complaint, %v", len(complaint), err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("after %v", took)
	}
}
