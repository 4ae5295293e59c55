package scenes

import (
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"mpps/internal/must"
)

const top = "../.."

var once = sync.OnceValues(func() ([]Scene, error) { return All(top) })

func all(t *testing.T) []Scene {
	t.Helper()
	return must.Get(once())(t)
}

// TestFourTurnsPlayEverything: what the four turns play is what git grep finds, and every scene has a line in
// scenes.txt.
func TestFourTurnsPlayEverything(t *testing.T) {
	played := map[string]bool{}
	for turn := range Turns {
		for _, set := range Turn(all(t), turn, 0) {
			for _, test := range set.Tests {
				played[set.Package+" "+test] = true
			}
		}
	}
	out := must.Get(exec.Command("git", "-C", top, "grep", "-hE", "-e", `^\s*labtest\.Long\(`, "--", "*_test.go",
		":!test/scenes").Output())(t)
	if calls := strings.Count(string(out), "labtest.Long("); calls != len(played) {
		t.Errorf("git grep finds %d calls of labtest.Long, the turns play %d scenes", calls, len(played))
	}
	lines, packages, err := parse(recorded)
	must.Do(t, err)
	for _, l := range lines {
		must.Hold(t, played[l.Package+" "+l.Test], "scenes.txt: %s has no long scene %s", l.Package, l.Test)
		delete(played, l.Package+" "+l.Test)
	}
	for name := range played {
		t.Errorf("scenes.txt has no line for %s", name)
	}
	for name := range packages {
		if files, err := filepath.Glob(filepath.Join(top, name, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("scenes.txt: there is no package %s", name)
		}
	}
}

// TestEveryTurnBegins: what belongs to every turn takes longest, and is begun first.
func TestEveryTurnBegins(t *testing.T) {
	scenes := all(t)
	must.Hold(t, slices.ContainsFunc(scenes, func(s Scene) bool { return s.Turn == Every }),
		"no scene belongs to every turn")
	for turn := range Turns {
		sets := Turn(scenes, turn, 0)
		for _, scene := range scenes {
			if scene.Turn != Every {
				continue
			}
			at := slices.IndexFunc(sets, func(s Set) bool {
				return s.Package == scene.Package && slices.Contains(s.Tests, scene.Test)
			})
			if at < 0 || slices.ContainsFunc(sets[:at], func(s Set) bool { return !s.every }) {
				t.Errorf("turn %d begins with %v, without %s", turn, sets[0], scene.Test)
			}
		}
	}
}

func TestAnotherSceneMovesNone(t *testing.T) {
	found := must.Get(find(top))(t)
	lines, _, err := parse(recorded)
	must.Do(t, err)
	before := join(found, lines)
	added := Scene{Package: "internal/aaa", Test: "TestNew"}
	after := join(append([]Scene{added}, found...), lines)
	must.Same(t, after, join(append([]Scene{added}, found...), lines),
		"the same scenes get other turns the second time")
	must.Hold(t, len(after) == len(before)+1 && after[0].Test == "TestNew" && after[0].Seconds == unknown &&
		slices.Equal(after[1:], before), "with one more scene: %v\nbefore: %v", after, before)
	none := join(found, nil) // without any record the scenes spread over all turns
	turns := map[int]bool{}
	for _, s := range none {
		turns[s.Turn] = true
	}
	if got := slices.Sorted(maps.Keys(turns)); len(none) != len(found) || len(got) != Turns {
		t.Errorf("without records %d of %d scenes, in turns %v", len(none), len(found), got)
	}
}

func TestLongTests(t *testing.T) {
	for _, c := range []struct{ text, tests, err string }{
		{"func TestA(t *testing.T) { labtest.Long(t) }\nfunc TestB(t *testing.T) {}", "TestA", ""},
		{`func TestA(t *testing.T) { t.Run("a", func(t *testing.T) { if true { labtest.Long(t) }; labtest.Long(t) }) }`,
			"TestA", ""},
		{"func TestA(t *testing.T) { other.Long(t); labtest.Host(t) }", "", ""},
		{"func helper(t *testing.T) { labtest.Long(t) }", "", "outside"},
		{"func (s scene) TestA(t *testing.T) { labtest.Long(t) }", "", "outside"},
		{"var long = labtest.Long", "", "outside"},
	} {
		file := must.Get(parser.ParseFile(token.NewFileSet(), "a_test.go", "package a\n"+c.text, 0))(t)
		tests, err := longTests(file)
		must.Hold(t, strings.Join(tests, " ") == c.tests && (err != nil) == (c.err != ""),
			"%s: found %v, %v", c.text, tests, err)
	}
}

func TestParse(t *testing.T) {
	for _, line := range []string{"a TestA 4 10 measured", "a TestA -1 10 measured", "a TestA 0 0 measured",
		"a TestA 0 10", "a TestA 0 10 guess"} {
		if _, _, err := parse(line); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

// TestOrderMovesOn: what every turn has comes first, each of the others comes first among them in some visit, and the
// halves change places.
func TestOrderMovesOn(t *testing.T) {
	for turn := range Turns {
		sets := Turn(all(t), turn, 0)
		always := slices.IndexFunc(sets, func(s Set) bool { return !s.every })
		half := (len(sets) - always) / 2
		first := map[string]bool{}
		for visit := range 2 * len(sets) {
			now, next := Turn(all(t), turn, visit), Turn(all(t), turn, visit+1)
			must.Need(t, len(now) == len(sets) && len(next) == len(sets),
				"turn %d: %d sets at visit %d, then %d, of %d", turn, len(now), visit, len(next), len(sets))
			must.Hold(t, !slices.ContainsFunc(now[:always], func(s Set) bool { return !s.every }),
				"turn %d, visit %d begins with %v", turn, visit, now[:always])
			first[now[always].Pattern()] = true
			for _, s := range now[len(now)-half:] {
				must.Hold(t, slices.ContainsFunc(next[:len(next)-half], func(n Set) bool {
					return n.Pattern() == s.Pattern()
				}), "turn %d: %s ends visit %d and the next one", turn, s.Pattern(), visit)
			}
		}
		for _, s := range sets[always:] {
			must.Hold(t, first[s.Pattern()], "turn %d: %s never comes first", turn, s.Pattern())
		}
	}
}

func TestSetsAreShort(t *testing.T) {
	for turn := range Turns {
		for _, s := range setsOf(all(t), turn) {
			must.Hold(t, len(s.Tests) == 1 || s.Seconds <= longest, "turn %d: %v take %.0f s", turn, s.Tests, s.Seconds)
		}
	}
}
