// Package layers holds no code: its test is the linter of the rules that give the tree its shape. A rule stands here
// and not in a linter's configuration because it needs nothing but the standard library and fails like any test.
package layers

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// imports lists, for each package, which packages of this module it may import directly. Imports point one way: what
// stands further down may use what stands above it.
var imports = map[string][]string{
	"datapath":        {},
	"setting":         {},
	"goal":            {"setting"},
	"domain":          {"setting"},
	"facts":           {"setting", "domain"},
	"facts/factstest": {"setting", "facts"},
	"placement":       {"setting", "facts", "goal"},
	"knob":            {"datapath", "setting", "facts", "goal", "placement", "domain"},
	"audit":           {"datapath", "setting", "facts", "goal", "knob", "placement"},
	"plan":            {"datapath", "setting", "facts", "goal", "knob", "audit", "placement"},
	"journal":         {"setting", "goal"},
	"apply":           {"setting", "facts", "goal", "plan", "journal"},
	"host":            {"setting", "facts", "domain"},
	"traffic":         {},
	"traffic/tcp":     {"traffic"},
	"traffic/agent":   {"traffic", "traffic/tcp"},
	"measure":         {},
	"measure/rig":     {"measure", "traffic", "traffic/agent", "traffic/tcp"},
	"report":          {"datapath", "setting", "facts", "goal", "knob", "audit", "plan", "journal", "apply", "measure"},
	"lab":             {},
	"lab/guestinit":   {},
	"lab/labtest":     {"lab"},
	"layers":          {},
}

// programs are the packages that may start programs or do so for a benchmark.
var programs = []string{"host", "lab", "lab/labtest", "traffic/genbench"}

// printers are the packages that may write to the standard streams.
var printers = []string{"report", "lab/guestinit", "traffic/genbench"}

type file struct {
	name, pkg string // pkg is relative to internal/
	imports   []string
	test      bool
}

func files(t *testing.T) []file {
	t.Helper()
	var all []file
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel("..", filepath.Dir(name))
		if err != nil {
			return err
		}
		f := file{name: name, pkg: filepath.ToSlash(pkg), test: strings.HasSuffix(name, "_test.go")}
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			f.imports = append(f.imports, path)
		}
		all = append(all, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("found %d files, expected the whole tree", len(all))
	}
	return all
}

func TestImportsPointOneWay(t *testing.T) {
	for _, f := range files(t) {
		if f.test {
			continue
		}
		allowed, listed := imports[f.pkg]
		if !listed && !slices.Contains(programs, f.pkg) {
			t.Errorf("%s: package %s is not in the table of layers", f.name, f.pkg)
			continue
		}
		for _, path := range f.imports {
			inner, ours := strings.CutPrefix(path, "mpps/internal/")
			if ours && listed && !slices.Contains(allowed, inner) {
				t.Errorf("%s: package %s must not import %s", f.name, f.pkg, inner)
			}
		}
	}
}

func TestProgramsAreStartedInOnePlace(t *testing.T) {
	for _, f := range files(t) {
		if f.test || slices.Contains(programs, f.pkg) {
			continue
		}
		if slices.Contains(f.imports, "os/exec") {
			t.Errorf("%s: only %s may start programs", f.name, strings.Join(programs, ", "))
		}
	}
}

func TestNothingElsePrints(t *testing.T) {
	for _, f := range files(t) {
		if f.test || slices.Contains(printers, f.pkg) {
			continue
		}
		if slices.Contains(f.imports, "log") || slices.Contains(f.imports, "log/slog") {
			t.Errorf("%s: packages return values and errors; only report prints", f.name)
		}
	}
}
