package knob

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mpps/internal/must"
)

// TestNewKnob scaffolds a knob in a copy of what the script touches.
func TestNewKnob(t *testing.T) {
	script := must.Get(filepath.Abs("../../../scripts/new-knob"))(t)
	tree := t.TempDir()
	for _, file := range []string{"internal/advise/knob/catalogue.go", "internal/advise/knob/testdata/ids.txt",
		"internal/advise/audit/testdata/knobs/kvm.json"} {
		text := must.Get(os.ReadFile(filepath.Join("../../..", file)))(t)
		must.Do(t, os.MkdirAll(filepath.Join(tree, filepath.Dir(file)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(tree, file), text, 0o644))
	}
	run := func(args ...string) (string, int) {
		cmd := exec.Command(script, args...)
		cmd.Dir = tree
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Skipf("no shell to run it: %v", err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	must.Do(t, os.MkdirAll(filepath.Join(tree, "docs/knobs"), 0o755))
	for id, variable := range map[string]string{"softirq.made_up": "softirqMadeUp", "nic.made.up": "nicMadeUp",
		"guest.x": "guestX"} {
		if out, code := run(id); code != 0 {
			t.Fatalf("%s: exit %d: %s", id, code, out)
		}
		name := strings.ReplaceAll(id, ".", "_")
		for _, file := range []string{"internal/advise/knob/" + name + ".go", "internal/advise/knob/catalogue.go"} {
			must.Pass(parser.ParseFile(token.NewFileSet(), filepath.Join(tree, file), nil, 0))(t, "%s", file)
			if text, err := os.ReadFile(filepath.Join(tree, file)); err != nil ||
				!strings.Contains(string(text), variable) {
				t.Errorf("%s does not name %s: %v", file, variable, err)
			}
		}
		must.Try(t, must.Err(os.Stat(filepath.Join(tree, "internal/advise/audit/testdata/knobs", name+".json"))))
	}
	compiles(t, tree)
	page := must.Get(os.ReadFile(filepath.Join(tree, "docs/knobs/softirq.made_up.md")))(t)
	const line = "docs/knobs/softirq.made_up.md:5:"
	must.Say(t, must.Err(parsePage("softirq.made_up", string(page))), line, "a page to be filled in")
	filled := strings.NewReplacer("<", "", ">", "").Replace(string(page))
	must.Pass(parsePage("softirq.made_up", filled))(t, "the page filled in")
	text := must.Get(os.ReadFile(filepath.Join(tree, "internal/advise/knob/catalogue.go")))(t)
	if at := strings.Index(string(text), "softirqMadeUp"); at < strings.Index(string(text), "softirqWeight") ||
		at > strings.Index(string(text), "kvmHaltPoll") {
		t.Error("the line does not stand behind its family's last")
	}
	for _, wrong := range [][]string{{}, {"Nic.Ring"}, {"nic"}, {"other.thing"}, {"nic..x"}} {
		if out, code := run(wrong...); code != 64 {
			t.Errorf("%v: exit %d: %s", wrong, code, out)
		}
	}
	for _, taken := range []string{"softirq.made_up", "nic.ring.rx"} {
		if out, code := run(taken); code != 1 || !strings.Contains(out, "already") {
			t.Errorf("%s: exit %d: %s", taken, code, out)
		}
	}
}

// compiles builds this package with the files of another tree laid over its own.
func compiles(t *testing.T, tree string) {
	t.Helper()
	files := must.Get(filepath.Glob(filepath.Join(tree, "internal/advise/knob/*.go")))(t)
	here := must.Get(os.Getwd())(t)
	replace := map[string]string{}
	for _, file := range files {
		replace[filepath.Join(here, filepath.Base(file))] = file
	}
	text := must.Get(json.Marshal(map[string]any{"Replace": replace}))(t)
	overlay := filepath.Join(tree, "overlay.json")
	must.Do(t, os.WriteFile(overlay, text, 0o644))
	if out, err := exec.Command("go", "build", "-overlay", overlay, ".").CombinedOutput(); err != nil {
		t.Errorf("what the script makes does not compile: %v\n%s", err, out)
	}
}

// TestArchitectureShowsOne: the knob that docs/adding.md shows the adding of is the one in the tree.
func TestArchitectureShowsOne(t *testing.T) {
	text := must.Get(os.ReadFile("../../../docs/adding.md"))(t)
	for file, begin := range map[string]string{"memory.go": "var memoryNUMAD = ",
		"../audit/testdata/knobs/memory_numad.json": "["} {
		all := must.Get(os.ReadFile(file))(t)
		want := string(all[max(0, strings.Index(string(all), begin)):])
		var b strings.Builder
		for line := range strings.Lines(want) {
			if strings.TrimSpace(line) != "" {
				b.WriteString("   ")
			}
			b.WriteString(line)
		}
		must.Hold(t, strings.Contains(string(text), b.String()), "docs/adding.md does not show %s as it is", file)
	}
}
