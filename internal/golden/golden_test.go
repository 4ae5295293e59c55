package golden_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/golden"
	"mpps/internal/must"
)

// recorder collects what a test is recorder in place of this one.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Errorf(format string, _ ...any) { r.errors = append(r.errors, format) }

func TestPart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const page = "before\n<!-- kinds -->\nold\n<!-- /kinds -->\nbehind\n"
	must.Do(t, os.WriteFile(file, []byte(page), 0o644))
	t.Setenv("MPPS_UPDATE", "")
	same := &recorder{TB: t}
	if golden.Part(same, file, "kinds", "old\n"); len(same.errors) > 0 {
		t.Errorf("the same text: %v", same.errors)
	}
	other := &recorder{TB: t}
	if golden.Part(other, file, "kinds", "new\n"); len(other.errors) != 1 {
		t.Errorf("another text: %v", other.errors)
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
	missing := &recorder{TB: t}
	if golden.File(missing, file, "text"); len(missing.errors) != 1 {
		t.Errorf("no file: %v", missing.errors)
	}
	t.Setenv("MPPS_UPDATE", "1")
	golden.File(t, file, "text")
	if now, err := os.ReadFile(file); err != nil || string(now) != "text" {
		t.Errorf("%v: %q", err, now)
	}
}
