package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
	"mpps/internal/outcome"
)

// contents reads every file of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		text := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		files[e.Name()] = string(text)
	}
	return files
}

// TestDemoBegins: a demo has its directory to itself, removes what earlier ones left there and nothing else, and
// begins with a report of nothing.
func TestDemoBegins(t *testing.T) {
	dir := t.TempDir()
	for _, name := range append([]string{"notes.txt"}, demoFiles...) {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("earlier"), 0o644))
	}
	d := &demo{out: dir, pps: 500e3}
	log, unlock, err := d.begin()
	must.Do(t, err)
	defer log.Close()
	must.Get(log.WriteString("of the first\n"))(t)
	found := contents(t, dir)
	must.Hold(t, len(found) == 4 && found["notes.txt"] == "earlier" && found["demo.log"] == "of the first\n",
		"found %v", found)
	for _, part := range d.state.missing() {
		must.Hold(t, strings.Contains(found["report.html"], part) && strings.Contains(found["result.json"], part),
			"the first report does not say that %q is missing", part)
	}
	must.Try(t, valid("mpps.demo.2", found["result.json"]))

	_, _, err = (&demo{out: dir, pps: 1e6}).begin()
	if _, hint := outcome.Of(err); err == nil || hint == "" {
		t.Errorf("a second one in the directory: %v, hint %q", err, hint)
	}
	if again := contents(t, dir); !sameFiles(again, found) {
		t.Errorf("the second one changed %v", again)
	}
	unlock()
	log, unlock, err = d.begin()
	must.Need(t, err == nil, "after the first: %v", err)
	unlock()
	log.Close()
	must.Refuse(t, d.file("other.txt", nil), "a file that no later demo removes was written")
}

func sameFiles(a, b map[string]string) bool {
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestDemoExpects: the root tree is built before the first box, whose act announces how long it takes by what there is.
func TestDemoExpects(t *testing.T) {
	t.Setenv("MPPS_LAB", t.TempDir()) // there is no root tree
	acts := (&demo{app: &app{mpps: t.TempDir()}}).acts(t.Context())
	must.Hold(t, acts[0].noHost && !acts[1].noHost, "the tree is not built first, or more than that is")
	must.Hold(t, acts[1].expect != nil && acts[1].expect(t.Context()) == 0,
		"the time of the first box is fixed, or expected without programs")
	if at := slices.IndexFunc(acts, func(a act) bool { return a.about == 0 && a.expect == nil }); at >= 0 {
		t.Errorf("%s: no time", acts[at].what)
	}
}
