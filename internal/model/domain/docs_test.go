package domain

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestDocumentedPaths: docs/domain.md names every path, and none that is not.
func TestDocumentedPaths(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "domain.md")))(t)
	named := map[string]bool{}
	for _, found := range regexp.MustCompile("`([a-zA-Z0-9_/.]+)`").FindAllStringSubmatch(string(text), -1) {
		form := found[1]
		for _, key := range []string{"/KEY", "/INDEX", "/NAME", "/N", "/CELL", "/ADDRESS", "/MAC"} {
			if before, after, ok := strings.Cut(form, key); ok &&
				(after == "" || strings.ContainsAny(after[:1], "/.")) {
				form = before + "/*" + after
			}
		}
		named[form] = true
		if strings.HasPrefix(form, ".") {
			named["numatune/memory"+form], named["numatune/memnode/*"+form] = true, true
			delete(named, form)
		}
	}
	delete(named, "qemu") // of a name space
	for i := range rules {
		if r := &rules[i]; !named[r.path] && !r.readOnly {
			t.Errorf("docs/domain.md does not name %s", r.path)
		}
		delete(named, rules[i].path)
	}
	for form := range named {
		t.Errorf("docs/domain.md names %s, which is no path", form)
	}
}
