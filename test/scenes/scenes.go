// Package scenes knows the long scenes of the emulated host, the tests that call labtest.Long: how long each takes and
// in which of four turns it is played. The program test/scenes/play plays a turn.
package scenes

import (
	"bufio"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Turns is how many successive commits of a branch have all turns.
const Turns = 4

// Every is the turn of a scene that belongs to all turns.
const Every = -1

// unknown is how many seconds a scene counts of which none are recorded.
const unknown = 120

// longest is how many seconds the scenes of a set take together at most: long sets are what no time is left for.
const longest = 600

// Scene is a long test of the emulated host.
type Scene struct {
	Package string // from the top of the tree: test/sriov
	Test    string
	Turn    int // 0 to Turns-1, or Every
	Seconds float64
}

// In reports whether a turn plays the scene.
func (s Scene) In(turn int) bool { return s.Turn == Every || s.Turn == turn }

//go:embed scenes.txt
var recorded string

// All returns every long scene of the tree at top, sorted by package and test. A scene without a line in scenes.txt
// gets the turn that has least to do, so that it moves no other.
func All(top string) ([]Scene, error) {
	found, err := find(top)
	if err != nil {
		return nil, err
	}
	lines, _, err := parse(recorded)
	if err != nil {
		return nil, err
	}
	return join(found, lines), nil
}

// Packages returns the seconds that each package of the emulated host takes in make test.
func Packages() (map[string]float64, error) {
	_, packages, err := parse(recorded)
	return packages, err
}

func join(found, lines []Scene) []Scene {
	var all []Scene
	var load [Turns]float64
	for _, s := range found {
		if i := slices.IndexFunc(lines, func(l Scene) bool {
			return l.Package == s.Package && l.Test == s.Test
		}); i >= 0 {
			s.Turn, s.Seconds = lines[i].Turn, lines[i].Seconds
			if s.Turn != Every {
				load[s.Turn] += s.Seconds
			}
			all = append(all, s)
		}
	}
	for _, s := range found {
		if slices.ContainsFunc(all, func(a Scene) bool { return a.Package == s.Package && a.Test == s.Test }) {
			continue
		}
		s.Seconds = unknown
		for i := range load {
			if load[i] < load[s.Turn] {
				s.Turn = i
			}
		}
		load[s.Turn] += s.Seconds
		all = append(all, s)
	}
	slices.SortFunc(all, byName)
	return all
}

func byName(a, b Scene) int {
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Test, b.Test))
}

// parse reads scenes.txt: lines of a package, a test, a turn and seconds; "-" stands for the tests and the turn of a
// package as make test plays it.
func parse(text string) (scenes []Scene, packages map[string]float64, err error) {
	packages = map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		f := strings.Fields(lines.Text())
		if len(f) == 0 || strings.HasPrefix(f[0], "#") {
			continue
		}
		if len(f) != 5 || f[4] != "measured" && f[4] != "estimate" {
			return nil, nil, fmt.Errorf("scenes.txt:%d: expected package, test, turn, seconds and measured or estimate",
				n)
		}
		s := Scene{Package: f[0], Test: f[1], Turn: Every}
		if s.Seconds, err = strconv.ParseFloat(f[3], 64); err != nil || s.Seconds <= 0 {
			return nil, nil, fmt.Errorf("scenes.txt:%d: %q is no number of seconds", n, f[3])
		}
		if f[1] == "-" {
			packages[f[0]] = s.Seconds
			continue
		}
		if f[2] != "every" {
			if s.Turn, err = strconv.Atoi(f[2]); err != nil || s.Turn < 0 || s.Turn >= Turns {
				return nil, nil, fmt.Errorf("scenes.txt:%d: expected a turn from 0 to %d or every, found %q", n,
					Turns-1, f[2])
			}
		}
		scenes = append(scenes, s)
	}
	return scenes, packages, nil
}

// find returns the tests below top that call labtest.Long.
func find(top string) ([]Scene, error) {
	var found []Scene
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		tests, err := longTests(file)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		dir, err := filepath.Rel(top, filepath.Dir(name))
		for _, test := range tests {
			found = append(found, Scene{Package: filepath.ToSlash(dir), Test: test})
		}
		return err
	})
	slices.SortFunc(found, byName)
	return found, err
}

// longTests returns the tests of a file that call labtest.Long. Elsewhere the call is an error: what a helper skips
// could not be named.
func longTests(file *ast.File) ([]string, error) {
	var tests []string
	for _, d := range file.Decls {
		var calls bool
		ast.Inspect(d, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Long" {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Name == "labtest" {
					calls = true
				}
			}
			return true
		})
		if !calls {
			continue
		}
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
			return nil, errors.New("labtest.Long is used outside a test")
		}
		tests = append(tests, f.Name.Name)
	}
	return tests, nil
}

// Set is what one go test plays.
type Set struct {
	Package string
	Tests   []string
	Seconds float64
	every   bool
}

// Pattern is the set's -run.
func (s Set) Pattern() string { return "^(" + strings.Join(s.Tests, "|") + ")$" }

// Turn returns the sets of a turn in the order in which they begin: what every turn has, then two halves, the longest
// of each first. visit is how often the turn came before. The halves change places with each visit, so that the next
// one begins with what this one had no time for. On a machine that does not get through half a turn, each set still
// comes first in some visit.
func Turn(all []Scene, turn, visit int) []Set {
	sets := setsOf(all, turn)
	slices.SortStableFunc(sets, func(a, b Set) int { return cmp.Compare(b.Seconds, a.Seconds) })
	var first []Set
	var halves [2][]Set
	half := visit % 2
	for _, s := range sets {
		if s.every {
			first = append(first, s)
			continue
		}
		halves[half] = append(halves[half], s)
		half = 1 - half
	}
	if n := len(halves[0]); n > 0 {
		at := visit / 2 % n
		first = append(first, halves[0][at])
		halves[0] = slices.Delete(halves[0], at, at+1)
	}
	return slices.Concat(first, halves[0], halves[1])
}

// setsOf groups the scenes of a turn by package.
func setsOf(all []Scene, turn int) (sets []Set) {
	for _, s := range all {
		if !s.In(turn) {
			continue
		}
		if last := len(sets) - 1; last < 0 || sets[last].Package != s.Package ||
			sets[last].Seconds+s.Seconds > longest {
			sets = append(sets, Set{Package: s.Package})
		}
		set := &sets[len(sets)-1]
		set.Tests = append(set.Tests, s.Test)
		set.Seconds += s.Seconds
		set.every = set.every || s.Turn == Every
	}
	return sets
}
