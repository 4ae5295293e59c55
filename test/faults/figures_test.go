//go:build faults

package faults

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mpps/internal/must"
)

// undoLimit is how long 80 changes of kernel parameters and sysfs files may take to be put back.
const undoLimit = 2 * time.Second

// figures are what all tests of a run came to. They are printed in one block at its end, and a state lost or a file
// left behind fails it.
type figures struct {
	mu       sync.Mutex
	kills    map[string]int // by what was killed
	resets   map[string]int // by what was under way
	found    map[string]int // status after a kill or reset
	excepted []string       // what differs after a reboot because the reboot itself resets it
	lost     []string
	behind   []string
	undone   map[string]time.Duration // time to put 80 changes back, by what they are
}

var total = figures{kills: map[string]int{}, resets: map[string]int{}, found: map[string]int{},
	undone: map[string]time.Duration{}}

func (f *figures) killed(what string) { f.mu.Lock(); f.kills[what]++; f.mu.Unlock() }

func (f *figures) reset(what string) { f.mu.Lock(); f.resets[what]++; f.mu.Unlock() }

func (f *figures) status(state string) { f.mu.Lock(); f.found[state]++; f.mu.Unlock() }

// lose reports a state that was lost: a status that is untrue, a rollback that fails, a value that is not as before.
func (f *figures) lose(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf(format, args...)
	f.mu.Lock()
	f.lost = append(f.lost, text)
	f.mu.Unlock()
	t.Error(text)
}

// leave reports files that were left behind.
func (f *figures) leave(t *testing.T, what string, names ...string) {
	t.Helper()
	for _, name := range names {
		f.mu.Lock()
		f.behind = append(f.behind, name)
		f.mu.Unlock()
		t.Errorf("%s: left behind: %s", what, name)
	}
}

func (f *figures) took(what string, d time.Duration) { f.mu.Lock(); f.undone[what] = d; f.mu.Unlock() }

func (f *figures) except(names ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if !slices.Contains(f.excepted, name) {
			f.excepted = append(f.excepted, name)
		}
	}
}

// bad reports whether a figure is not what it must be.
func (f *figures) bad() bool {
	slow := false
	for _, d := range f.undone {
		slow = slow || d >= undoLimit
	}
	return len(f.lost)+len(f.behind) > 0 || slow
}

// String is the block.
func (f *figures) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "  %-20s %s\n", name, fmt.Sprintf(format, args...))
	}
	tried := func(name string, counts map[string]int) {
		sum, parts := 0, []string{}
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			sum += counts[what]
			parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
		}
		if sum == 0 {
			line(name, "none in this run")
			return
		}
		line(name, "%d (%s)", sum, strings.Join(parts, ", "))
	}
	fmt.Fprintln(&b, "faults")
	tried("kills tried", f.kills)
	tried("resets tried", f.resets)
	tried("status found then", f.found)
	line("states lost", "%d (must be 0)", len(f.lost))
	line("files left behind", "%d (must be 0)", len(f.behind))
	if len(f.resets) > 0 {
		excepted := "nothing"
		if len(f.excepted) > 0 {
			excepted = strings.Join(f.excepted, ", ")
		}
		line("reset by the reboot", "%s", excepted)
	}
	for _, what := range slices.Sorted(maps.Keys(f.undone)) {
		line("80 changes undone", "in %.2f s (must be under %v): %s", f.undone[what].Seconds(), undoLimit, what)
	}
	return b.String()
}

// TestFiguresFail shows that the block fails a run.
func TestFiguresFail(t *testing.T) {
	good := figures{undone: map[string]time.Duration{"x": time.Second}}
	must.Hold(t, !good.bad(), "a good run fails")
	for name, f := range map[string]*figures{
		"a state lost":       {lost: []string{"x"}},
		"a file left behind": {behind: []string{"x"}},
		"a slow undo":        {undone: map[string]time.Duration{"x": undoLimit}},
	} {
		must.Hold(t, f.bad(), "%s does not fail the run", name)
	}
	if text := (&figures{lost: []string{"x"}, kills: map[string]int{"apply": 3}}).String(); !strings.Contains(text,
		"kills tried          3 (apply 3)\n") || !strings.Contains(text, "states lost          1 (must be 0)") {
		t.Errorf("found %s", text)
	}
}

// concluded prints the figures behind everything else and gives the run's exit code.
func concluded(code int) int {
	if len(total.kills)+len(total.resets)+len(total.undone) == 0 || os.Getenv(inNamespace) != "" {
		return code
	}
	fmt.Fprintf(os.Stdout, "\n%s", total.String())
	if total.bad() {
		code = max(code, 1)
	}
	return code
}
