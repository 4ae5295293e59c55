package golden_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/golden"
)

// told collects what a test is told in place of this one.
type told struct {
	testing.TB
	said []string
}

func (r *told) Errorf(format string, _ ...any) { r.said = append(r.said, format) }

func TestPart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const page = "before\n<!-- kinds -->\nold\n<!-- /kinds -->\nbehind\n"
	if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("MPPS_UPDATE", "")
	same := &told{TB: t}
	if golden.Part(same, file, "kinds", "old\n"); len(same.said) > 0 {
		t.Errorf("the same text: %v", same.said)
	}
	other := &told{TB: t}
	if golden.Part(other, file, "kinds", "new\n"); len(other.said) != 1 {
		t.Errorf("another text: %v", other.said)
	}
	t.Setenv("MPPS_UPDATE", "1")
	golden.Part(t, file, "kinds", "new\n")
	if now, err := os.ReadFile(file); err != nil || string(now) != strings.Replace(page, "old", "new", 1) {
		t.Errorf("%v: %q", err, now)
	}
}

func TestFileThatIsNotThere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new.txt")
	t.Setenv("MPPS_UPDATE", "")
	missing := &told{TB: t}
	if golden.File(missing, file, "text"); len(missing.said) != 1 {
		t.Errorf("no file: %v", missing.said)
	}
	t.Setenv("MPPS_UPDATE", "1")
	golden.File(t, file, "text")
	if now, err := os.ReadFile(file); err != nil || string(now) != "text" {
		t.Errorf("%v: %q", err, now)
	}
}
