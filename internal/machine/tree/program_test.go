package tree_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mpps/internal/machine/tree"
	"mpps/internal/machine/tree/treetest"
	"mpps/internal/model/setting"
)

// TestChangeInDoubt: of a program that was ended before it was done it is not known what comes of what it asked for; of
// one that ended by itself it is.
func TestChangeInDoubt(t *testing.T) {
	m, err := tree.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		lines string
		doubt bool
		says  string
	}{
		"hangs":              {"exec sleep 60", true, "deadline exceeded"},
		"its children hang":  {"echo waiting >&2; sleep 3", true, "waiting"},
		"killed by somebody": {"kill -9 $$", true, "killed"},
		"refused":            {"echo no such guest >&2; exit 1", false, "exit status 1: no such guest"},
		"done":               {"cat >/dev/null", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := 10 * time.Second
			if strings.Contains(c.lines, "sleep") {
				patience = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			began := time.Now()
			err := m.Change(ctx, "text", treetest.Program(t, c.lines))
			if took := time.Since(began); took > patience+time.Second+time.Second {
				t.Errorf("took %v", took)
			}
			if errors.Is(err, setting.ErrInDoubt) != c.doubt || (err == nil) != (c.says == "") || err != nil &&
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("found %v; expected doubt %v and %q", err, c.doubt, c.says)
			}
		})
	}
	if err := m.Change(t.Context(), "", filepath.Join(t.TempDir(), "none")); err == nil ||
		errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("a program that is not there: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := m.Command(ctx, "", treetest.Program(t, "exec sleep 60")); err == nil ||
		errors.Is(err, setting.ErrInDoubt) {
		t.Errorf("a program that only reads: %v; expected an error without doubt about a write", err)
	}
}
