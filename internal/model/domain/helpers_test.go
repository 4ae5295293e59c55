package domain

import (
	"os"
	"path/filepath"
	"testing"

	"mpps/internal/must"
)

// samples gives every domain under testdata and, where it is there, the shared corpus.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, dir := range []string{"testdata", corpusDir()} {
		files := must.Get(filepath.Glob(filepath.Join(dir, "*.xml")))(t)
		for _, f := range files {
			text := must.Get(os.ReadFile(f))(t)
			out[filepath.Base(f)] = text
		}
	}
	must.Need(t, len(out) >= 8, "found %d sample domains, expected at least 8", len(out))
	return out
}

func corpusDir() string {
	base := os.Getenv("MPPS_CORPUS")
	if base == "" {
		base = filepath.Join("..", "..", "..", "..", "shared", "corpus")
	}
	return filepath.Join(base, "domains")
}

func sample(t testing.TB, name string) *Doc {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return parse(t, string(text))
}

func parse(t testing.TB, text string) *Doc {
	t.Helper()
	d := must.Get(Parse([]byte(text)))(t)
	return d
}

func set(t testing.TB, d *Doc, path, value string) {
	t.Helper()
	if err := d.Set(path, value); err != nil {
		t.Fatalf("set %s to %s: %v", path, value, err)
	}
}

// taken gives the second value too where the document takes it.
func taken(d *Doc, path string, values [2]string) [2]string {
	if _, err := d.Check(path, values[1]); err != nil {
		values[1] = values[0]
	}
	return values
}

// knownPaths returns the forms of all paths, with * for a key.
func knownPaths() []string {
	var out []string
	for i := range rules {
		out = append(out, rules[i].path)
	}
	return out
}
