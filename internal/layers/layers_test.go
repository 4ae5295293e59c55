// Package layers holds no code: its test is the linter of the rules that give the tree its shape. A rule stands here
// and not in a linter's configuration because it needs nothing but the standard library and fails like any test.
package layers

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everything is what mpps may import: what tries it on an emulated host is a program of its own.
const everything = "everything but lab"

// imports lists, for each package, which packages of this module it may import directly. Imports point one way: what
// stands further down may use what stands above it. docs/ARCHITECTURE.md has the same table.
var imports = map[string][]string{
	"datapath":                 {},
	"version":                  {},
	"outcome":                  {},
	"setting":                  {},
	"goal":                     {"setting"},
	"domain":                   {"setting"},
	"facts":                    {"setting", "domain"},
	"tuned":                    {"setting", "facts"},
	"placement":                {"setting", "facts", "goal"},
	"docs/knobs":               {},
	"knob":                     {"docs/knobs", "datapath", "setting", "facts", "goal", "placement", "domain"},
	"audit":                    {"datapath", "setting", "facts", "goal", "knob", "placement"},
	"tuned/export":             {"setting", "facts", "tuned", "goal", "audit"},
	"site":                     {"setting", "knob"},
	"plan":                     {"datapath", "setting", "facts", "goal", "knob", "audit", "placement"},
	"lasting":                  {"datapath", "setting", "facts", "tuned", "goal", "knob", "plan"},
	"sriov":                    {"datapath", "setting", "domain", "facts", "goal", "placement", "knob", "audit", "plan"},
	"queuepath":                {"datapath", "setting", "domain", "facts", "goal", "placement", "knob", "plan"},
	"queuepath/lanes":          {"setting"},
	"realtime":                 {"setting", "domain", "facts", "knob"},
	"bottleneck":               {"datapath", "setting", "facts", "goal", "knob"},
	"tune":                     {"outcome", "setting", "facts", "goal", "bottleneck"},
	"tune/simulated":           {"facts", "goal", "bottleneck", "tune"},
	"journal":                  {"setting", "goal"},
	"apply":                    {"setting", "facts", "goal", "plan", "lasting", "journal"},
	"nicctl":                   {},
	"owned":                    {},
	"bottleneck/probe":         {"setting", "facts"},
	"machine/tree":             {"setting", "facts", "owned"},
	"machine/tree/treetest":    {"machine/tree"},
	"machine/boot":             {"setting", "facts", "machine/tree"},
	"machine/ethtool":          {"setting", "facts", "nicctl", "machine/tree"},
	"machine/netfilter":        {"setting", "facts", "machine/tree"},
	"machine/cpu":              {"setting", "facts", "machine/tree"},
	"machine/irq":              {"setting", "facts", "machine/tree"},
	"machine/threads":          {"setting", "facts", "machine/cpu", "machine/irq", "machine/tree"},
	"machine/link":             {"setting", "facts", "queuepath/lanes", "machine/ethtool", "machine/irq", "machine/tree"},
	"machine/libvirt":          {"setting", "facts", "domain", "machine/cpu", "machine/threads", "machine/tree"},
	"machine/systemd":          {"setting", "facts", "machine/threads", "machine/tree"},
	"machine/vf":               {"setting", "facts", "domain", "machine/libvirt", "machine/link", "machine/systemd", "machine/threads", "machine/tree"},
	"machine/kernel":           {"setting", "facts", "machine/cpu", "machine/tree"},
	"host":                     {"setting", "facts", "tuned", "domain", "nicctl", "bottleneck/probe", "machine/boot", "machine/cpu", "machine/ethtool", "machine/irq", "machine/kernel", "machine/libvirt", "machine/link", "machine/netfilter", "machine/systemd", "machine/threads", "machine/tree", "machine/vf"},
	"traffic":                  {},
	"traffic/counters":         {"nicctl", "traffic"},
	"queuepath/trace":          {"setting", "facts", "nicctl", "queuepath"},
	"traffic/talk":             {"traffic"},
	"traffic/engine":           {"traffic"},
	"traffic/agent":            {"traffic", "traffic/counters", "traffic/talk"},
	"measure/search":           {},
	"measure/search/simulated": {},
	"measure/adapter":          {"measure/search", "owned"},
	"measure":                  {"outcome", "measure/search"},
	"measure/export":           {"measure"},
	"measure/wakeup":           {"setting", "facts", "measure"},
	"measure/wakeloop":         {"measure", "measure/wakeup", "traffic"},
	"measure/rig":              {"measure", "traffic", "traffic/agent", "traffic/counters", "traffic/engine", "traffic/talk"},
	"acceptance":               {"setting", "facts", "measure", "measure/search", "measure/wakeup"},
	"report/words":             {},
	"report":                   {"apply", "audit", "bottleneck", "datapath", "domain", "facts", "goal", "journal", "knob", "outcome", "plan", "realtime", "report/words", "setting", "sriov", "tuned/export", "watch"},
	"report/svg":               {},
	"report/page":              {"facts", "report/words"},
	"report/bench":             {"facts", "goal", "measure", "measure/search", "measure/wakeup", "report", "report/page", "report/svg", "report/words"},
	"report/founding":          {"acceptance", "measure", "report", "report/page", "report/svg", "report/words"},
	"report/queues":            {"queuepath", "report", "report/page", "report/svg", "report/words", "setting"},
	"report/seats":             {"facts", "placement", "report", "report/page", "report/words", "setting"},
	"report/top":               {"bottleneck", "facts", "report", "report/words"},
	"report/tuning":            {"bottleneck", "goal", "report", "report/page", "report/svg", "report/words", "tune"},
	"watch":                    {"setting", "facts", "knob", "apply", "realtime"},
	"lab":                      {"owned"},
	"lab/guestinit":            {},
	"lab/labtest":              {"lab", "owned"},
	"ops":                      {"outcome", "setting", "facts", "goal", "knob", "site", "lasting", "realtime", "host"},
	"ops/change":               {"outcome", "setting", "domain", "facts", "goal", "knob", "site", "plan", "lasting", "sriov", "journal", "apply", "host", "ops"},
	"ops/vf":                   {"outcome", "setting", "facts", "goal", "knob", "plan", "lasting", "sriov", "journal", "apply", "host", "ops", "ops/change"},
	"ops/queues":               {"outcome", "setting", "facts", "plan", "queuepath", "queuepath/trace", "host", "ops", "ops/change"},
	"ops/definition":           {"outcome", "datapath", "setting", "domain", "facts", "goal", "knob", "audit", "plan", "apply", "host", "ops", "ops/change"},
	"ops/monitor":              {"outcome", "setting", "facts", "goal", "realtime", "journal", "watch", "host", "ops", "ops/change"},
	"ops/profile":              {"outcome", "setting", "facts", "goal", "knob", "audit", "tuned/export", "ops"},
	"ops/placing":              {"outcome", "setting", "facts", "goal", "placement", "ops"},
	"ops/bench":                {"outcome", "setting", "facts", "goal", "plan", "journal", "apply", "traffic", "traffic/agent", "measure/search", "measure/adapter", "measure", "measure/rig", "ops", "ops/change"},
	"ops/latency":              {"outcome", "setting", "facts", "measure", "measure/wakeup", "host", "ops"},
	"ops/load":                 {"outcome", "facts", "bottleneck", "host", "ops"},
	"ops/saved":                {"outcome", "plan", "measure", "measure/wakeup", "tune", "ops"},
	"ops/tuning":               {"outcome", "setting", "facts", "goal", "bottleneck", "plan", "lasting", "journal", "apply", "traffic", "measure/search", "measure/adapter", "measure", "tune", "host", "ops", "ops/change", "ops/bench"},
	"ops/accept":               {"outcome", "facts", "acceptance", "ops", "report", "report/founding"},
	"cli":                      {"outcome", "ops", "report"},
	"lab/command": {
		"acceptance", "audit", "cli", "facts", "goal", "knob", "lab", "measure", "ops", "ops/accept", "ops/bench", "ops/saved", "outcome", "plan",
		"report", "report/bench", "report/founding", "traffic/agent", "version",
	},
	"golden":            {},
	"cmd/mpps":          {everything},
	"cmd/mpps-lab":      {"lab/command"},
	"cmd/mpps-guest":    {"outcome", "version", "traffic/agent", "lab/guestinit"},
	"tools/fieldbench":  {"measure", "measure/rig", "owned", "traffic"},
	"tools/searchbench": {"measure/search", "measure/search/simulated"},
}

// work is what cmd/mpps may not import: what a verb does is in ops.
var work = []string{"host", "journal", "apply"}

// programs are the packages that may start programs. traffic/engine starts netperf and iperf3, which is what it is for,
// owned is how all of them start one that must not outlive mpps, tools/fieldbench runs what it compares with, and the
// init of a guest starts the guest's agent.
var programs = []string{"owned", "host", "machine/tree", "machine/tree/treetest", "machine/libvirt", "machine/systemd", "traffic/engine", "measure/adapter", "lab", "lab/guestinit", "lab/labtest", "tools/fieldbench"}

// printers are the packages that may write to the standard streams, besides the main.go of commands, which hand them on. The
// init of a guest has nobody to return to, nor has the end of a test process.
var printers = []string{"report", "lab/guestinit", "lab/labtest", "tools/fieldbench", "tools/searchbench"}

var rules = map[string]rule{
	"imports point one way":             pointsOneWay,
	"programs are started in one place": startsPrograms,
	"nothing else prints":               prints,
	"no shell":                          shells,
	"prose drives nothing":              readsProse,
}

func TestTree(t *testing.T) {
	sources := tree(t)
	for name, r := range rules {
		t.Run(name, func(t *testing.T) {
			for _, s := range sources {
				for _, found := range r(s) {
					t.Errorf("%s: %s", s.name, found)
				}
			}
		})
	}
}

// TestRowsHavePackages: a row that outlived its package would allow what nobody meant.
func TestRowsHavePackages(t *testing.T) {
	sources := tree(t)
	for pkg, allowed := range imports {
		for _, name := range append([]string{pkg}, allowed...) {
			if name != everything && !slices.ContainsFunc(sources, func(s *source) bool { return s.pkg == name }) {
				t.Errorf("row %s: there is no package %s", pkg, name)
			}
		}
	}
}

// TestRulesCanFail plants what each rule forbids, and beside it what it must leave alone.
func TestRulesCanFail(t *testing.T) {
	const one, two, three, four, five = "imports point one way", "programs are started in one place", "nothing else prints", "no shell", "prose drives nothing"
	for _, c := range []struct {
		rule, pkg, name, text string
		found                 string // "" where the rule must be silent
	}{
		{one, "setting", "a.go", `import "mpps/internal/facts"`, "must not import facts"},
		{one, "facts", "a.go", `import "mpps/internal/setting"`, ""},
		{one, "util", "a.go", ``, "package util is not in the table"},
		{one, "tools/fieldbench", "a.go", `import "mpps/internal/host"`, "must not import host"},
		{one, "cmd/other", "a.go", ``, "package cmd/other is not in the table"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/host"`, "must not import host"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/journal"; import "mpps/internal/apply"`, "must not import journal"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/ops"`, ""},
		{one, "lab", "a.go", `import "mpps/cmd/mpps"`, "nothing imports a command"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/lab"`, "must not import lab"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/lab/command"`, "must not import lab/command"},
		{one, "cmd/mpps-lab", "main.go", `import "mpps/internal/lab/command"`, ""},

		{two, "traffic", "a.go", `import "os/exec"; var _ = exec.Command("true")`, "os/exec.Command"},
		{two, "traffic", "a.go", `import "os/exec"; var _ = exec.CommandContext(nil, "true")`, "os/exec.CommandContext"},
		{two, "traffic", "a.go", `import run "os/exec"; var start = run.Command`, "os/exec.Command"},
		{two, "knob", "a.go", `import "os/exec"; var _ = exec.ErrNotFound`, "import of os/exec"},
		{two, "cmd/mpps", "a.go", `import "os"; func f() { os.StartProcess("true", nil, nil) }`, "os.StartProcess"},
		{two, "measure", "a.go", `import "syscall"; func f() { syscall.ForkExec("true", nil, nil) }`, "syscall.ForkExec"},
		{two, "measure", "a.go", `import "syscall"; func f() { syscall.Exec("true", nil, nil) }`, "syscall.Exec"},
		{two, "measure", "a.go", `import "syscall"; func f() { syscall.StartProcess("true", nil, nil) }`, "syscall.StartProcess"},
		{two, "traffic", "a.go", `import "golang.org/x/sys/unix"; func f() { unix.Exec("true", nil, nil) }`, "unix.Exec"},
		{two, "measure", "a.go", `import . "syscall"; func f() { Exec("true", nil, nil) }`, "with a dot"},
		{two, "host", "a.go", `import "os/exec"; var _ = exec.Command("true")`, ""},
		{two, "knob", "a.go", `func f(exec struct{ Command func() }) { exec.Command() }`, ""},

		{three, "plan", "a.go", `import "fmt"; func f() { fmt.Print(1) }`, "fmt.Print"},
		{three, "plan", "a.go", `import "fmt"; func f() { fmt.Printf("") }`, "fmt.Printf"},
		{three, "cmd/mpps", "plan.go", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
		{three, "plan", "a.go", `import out "fmt"; var f = out.Println`, "fmt.Println"},
		{three, "plan", "a.go", `import "os"; var out = os.Stdout`, "os.Stdout"},
		{three, "cmd/mpps", "lab.go", `import "os"; func f() { os.Stderr.WriteString("") }`, "os.Stderr"},
		{three, "plan", "a.go", `import "log"`, "import of log"},
		{three, "plan", "a.go", `import "log/slog"`, "import of log/slog"},
		{three, "plan", "a.go", `func f() { println("here") }`, "built-in println"},
		{three, "plan", "a.go", `import . "fmt"; func f() { Println() }`, "with a dot"},
		{three, "cmd/mpps", "main.go", `import "os"; var out, err = os.Stdout, os.Stderr`, ""},
		{three, "cmd/mpps-guest", "agent.go", `import "os"; var err = os.Stderr`, "os.Stderr"},
		{three, "plan", "main.go", `import "os"; var out = os.Stdout`, "os.Stdout"},
		{three, "report", "a.go", `import "os"; var out = os.Stdout`, ""},
		{three, "plan", "a.go", `import "fmt"; import "os"; var _, _ = fmt.Sprint(1), os.Stdin`, ""},

		{four, "host", "a.go", `var _ = f("sh", "-c", "true")`, "sh -c"},
		{four, "host", "a.go", `var _ = f(nil, "/bin/sh", "-ec", "true")`, "/bin/sh -ec"},
		{four, "cmd/mpps", "a.go", `var _ = []string{"ip", "netns", "exec", "n", "bash", "-c", "true"}`, "bash -c"},
		{four, "tools/fieldbench", "a.go", "var _ = append([]string{`bash`, `-c`}, x...)", "bash -c"},
		{four, "lab/labtest", "a.go", `var _ = f("sh", "-c", "true")`, "sh -c"},
		{four, "lab", "a.go", `var _ = f("sh", "-c", "true")`, ""},
		{four, "host", "a.go", `var _ = f("virsh", "-c", "qemu:///system")`, ""},

		{five, "apply", "a.go", `import "strings"; var _ = strings.HasPrefix(c.Why, DriftReason)`, "strings.HasPrefix on why"},
		{five, "host", "a.go", `import "strings"; func f() bool { return strings.HasPrefix(to.Why, asFound) }`, "strings.HasPrefix on why"},
		{five, "apply", "a.go", `import "strings"; var _ = strings.HasPrefix(err.Error(), a.String())`, "strings.HasPrefix on Error()"},
		{five, "apply", "a.go", `import "strings"; var _ = strings.Contains(c.Reason, "still needed")`, "strings.Contains on reason"},
		{five, "cmd/mpps", "a.go", `var _ = p.Why == plan.AskedFor`, "why =="},
		{five, "apply", "a.go", `var _ = wasBefore == why`, "why =="},
		{five, "journal", "ledger.go", `import "strings"; var _ = strings.Contains(c.Why, "needed")`, "strings.Contains on why"},
		{five, "journal", "reason.go", `import "strings"; var _ = strings.Contains(c.Why, "needed")`, ""},
		{five, "report", "a.go", `var _ = a.Why == b.Why && a.Hint != "" && nil != hint`, ""},
		{five, "report", "a.go", `import "strings"; var _ = strings.Join(c.Why, ", ") == strings.TrimPrefix(err.Error(), "x")`, ""},
		{five, "apply", "a.go", `var _ = c.Reason == journal.Drifted`, ""},
	} {
		s, err := parse(c.name, c.pkg, "package p\n"+strings.ReplaceAll(c.text, "; ", "\n"))
		if err != nil {
			t.Fatalf("%s: %v", c.text, err)
		}
		found := strings.Join(rules[c.rule](s), "; ")
		if c.found == "" && found != "" || !strings.Contains(found, c.found) {
			t.Errorf("%s, in %s/%s: %s\nfound %q, expected %q", c.rule, c.pkg, c.name, c.text, found, c.found)
		}
	}
}

var row = regexp.MustCompile("^\\| `([^`]+)` \\| .* \\| ([^|]*) \\|$")

// TestDocument compares the table of docs/ARCHITECTURE.md with the one above.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := documentRows(string(text))
	for pkg, allowed := range imports {
		found, listed := documented[pkg]
		if !listed {
			t.Errorf("package %s has no row in the document", pkg)
			continue
		}
		want := slices.Sorted(slices.Values(allowed))
		if !slices.Equal(found, want) {
			t.Errorf("package %s: the document says %q, the table of layers %q", pkg, found, want)
		}
	}
	for pkg := range documented {
		if _, listed := imports[pkg]; !listed {
			t.Errorf("the document has a row for %s, the table of layers has none", pkg)
		}
	}
}

// TestDocumentCanFail: a row that says something else, or nothing, is seen.
func TestDocumentCanFail(t *testing.T) {
	found := documentRows("## No\n| `x` | y | z |\n\n## Packages\n\n| package | what |\n|---|---|\n| `goal` | targets | setting, facts |\n| `domain` | XML | – |\n\n## Rules\n| `x` | y | z |\n")
	if len(found) != 2 || !slices.Equal(found["goal"], []string{"facts", "setting"}) || len(found["domain"]) != 0 {
		t.Errorf("found %q", found)
	}
}

// documentRows is what the table under "## Packages" says of each package, sorted.
func documentRows(text string) map[string][]string {
	rows := map[string][]string{}
	_, section, _ := strings.Cut(text, "\n## Packages\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		match := row.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if match == nil {
			continue
		}
		var allowed []string
		for name := range strings.SplitSeq(match[2], ", ") {
			if name = strings.Trim(name, " –"); name != "" {
				allowed = append(allowed, name)
			}
		}
		slices.Sort(allowed)
		rows[match[1]] = allowed
	}
	return rows
}
