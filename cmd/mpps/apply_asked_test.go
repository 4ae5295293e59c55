package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

// askedHost makes a tree of one value, 64, and a plan that makes it 128.
func askedHost(t *testing.T) (root, plan, value string) {
	t.Helper()
	root = t.TempDir()
	value = filepath.Join(root, "proc/sys/net/core/dev_weight")
	must.Do(t, os.MkdirAll(filepath.Dir(value), 0o755))
	must.Do(t, os.WriteFile(value, []byte("64\n"), 0o644))
	text := must.Get(madePlan(root, []string{"sysctl:net.core.dev_weight=128"}, false))(t)
	plan = filepath.Join(t.TempDir(), "plan.json")
	must.Do(t, os.WriteFile(plan, text, 0o644))
	return root, plan, value
}

// TestApplyAsks answers the question of apply on a terminal: only yes changes anything.
func TestApplyAsks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		types, found string
		code         int
	}{
		"yes":    {"yes\n", "128", 0},
		"Y":      {"Y\n", "128", 0},
		"no":     {"no\n", "64", 1},
		"enter":  {"\n", "64", 1},
		"other":  {"yesterday\n", "64", 1},
		"end":    {"\x04", "64", 1},
		"Ctrl-C": {"\x03", "64", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, plan, value := askedHost(t)
			x := onTerminal(t, "mpps", "apply", "--foreign", plan, "--root", root, "--quiet")
			x.shows("Apply 1 change? [y/N] ")
			x.shows("net.core.dev_weight")
			x.types(c.types)
			x.ends(c.code)
			text, err := os.ReadFile(value)
			must.Hold(t, err == nil && strings.TrimSpace(string(text)) == c.found,
				"the value is %q, %v; expected %s", text, err, c.found)
			_, err = os.Stat(filepath.Join(root, "var/lib/mpps"))
			must.Equal(t, err == nil, c.code == 0, "a journal was written")
		})
	}
}

// TestApplyAsksNothing: where every value is as planned there is nothing to approve, and with --yes nobody is asked.
func TestApplyAsksNothing(t *testing.T) {
	t.Parallel()
	root, plan, _ := askedHost(t)
	for _, more := range []string{"--dry-run", "--yes", "--quiet"} { // the last finds what --yes has written
		x := onTerminal(t, "mpps", "apply", "--foreign", plan, "--root", root, more)
		x.ends(0)
		if strings.Contains(x.screen(), "[y/N]") {
			t.Errorf("%s: asked: %s", more, x.screen())
		}
	}
}
