// Package layers holds no code: its test is the linter of the rules that give the tree its shape. A rule stands here
// and not in a linter's configuration because it needs nothing but the standard library and fails like any test.
package layers

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/internal/must"
)

// everything is what mpps may import: what tries it on an emulated host is a separate program.
const everything = "everything but lab"

// imports lists, for each package, which packages of this module it may import directly. Imports point one way: what
// stands further down may use what stands above it. The pages of the wings and docs/ARCHITECTURE.md have the same
// table.
var imports = map[string][]string{
	"model/datapath":   {},
	"version":          {},
	"outcome":          {},
	"words":            {},
	"model/setting":    {},
	"model/goal":       {"model/setting"},
	"model/domain":     {"model/setting"},
	"model/facts":      {"model/setting", "model/domain", "strictjson"},
	"model/reach":      {"model/facts"},
	"advise/tuned":     {"model/setting", "model/facts"},
	"advise/placement": {"model/setting", "model/domain", "model/facts", "model/reach", "model/goal", "words"},
	"docs":             {},
	"docs/knobs":       {},
	"docs/advice":      {},
	"advise/knob": {"docs/knobs", "model/datapath", "model/setting", "model/facts", "model/reach", "model/goal",
		"advise/placement", "model/domain", "words"},
	"advise/audit": {"model/datapath", "model/setting", "model/facts", "model/reach", "model/goal", "advise/knob",
		"advise/placement", "words"},
	"advise/fleet":        {"model/setting", "model/facts", "model/goal", "advise/knob", "advise/audit"},
	"advise/tuned/export": {"model/setting", "model/facts", "advise/tuned", "model/goal", "advise/audit"},
	"advise/kube":         {"model/facts", "advise/knob", "advise/audit", "advise/tuned/export", "words"},
	"advise/lookup":       {"docs/advice", "advise/knob", "words"},
	"advise/handover":     {"model/setting", "model/facts", "advise/plan", "words"},
	"advise/site":         {"model/setting", "model/facts", "model/goal", "advise/knob", "advise/lookup", "owner", "words"},
	"advise/plan": {"model/datapath", "model/setting", "model/facts", "model/goal", "advise/knob",
		"advise/audit", "advise/placement", "strictjson"},
	"advise/lasting": {"model/datapath", "model/setting", "model/facts", "advise/tuned", "model/goal",
		"advise/knob", "advise/plan", "strictjson", "words"},
	"advise/sriov": {"model/datapath", "model/setting", "model/domain", "model/facts", "model/goal",
		"advise/placement", "advise/knob", "advise/audit", "advise/plan", "words"},
	"advise/queuepath": {"model/datapath", "model/setting", "model/domain", "model/facts", "model/reach", "model/goal",
		"advise/placement", "advise/knob", "advise/plan", "words"},
	"machine/lanes":     {"model/setting", "owner"},
	"advise/realtime":   {"docs", "model/setting", "model/domain", "model/facts", "advise/knob", "words"},
	"advise/bottleneck": {"model/datapath", "model/setting", "model/facts", "model/goal", "advise/knob"},
	"advise/tune": {"outcome", "words", "model/setting", "model/facts", "model/goal", "advise/bottleneck",
		"strictjson"},
	"advise/tune/simulated": {"model/facts", "model/goal", "advise/bottleneck", "advise/tune"},
	"change/journal":        {"model/setting", "model/goal", "owner", "strictjson"},
	"change/apply": {"words", "model/setting", "model/facts", "model/goal", "advise/plan", "advise/lasting",
		"change/journal"},
	"machine/nicctl":        {},
	"owned":                 {},
	"owner":                 {},
	"thread":                {},
	"machine/probe":         {"model/setting", "model/facts"},
	"machine/tree":          {"model/setting", "model/facts", "owned"},
	"machine/tree/treetest": {"machine/tree", "must"},
	"machine/boot":          {"model/setting", "model/facts", "machine/tree"},
	"machine/ethtool":       {"model/setting", "model/facts", "machine/nicctl", "machine/tree"},
	"machine/trust":         {"machine/tree"},
	"machine/pollers":       {"model/setting", "model/facts", "machine/tree", "machine/trust"},
	"machine/netfilter":     {"model/setting", "model/facts", "machine/tree"},
	"machine/cpu":           {"model/setting", "model/facts", "machine/tree"},
	"machine/irq":           {"model/setting", "model/facts", "machine/tree"},
	"machine/threads":       {"model/setting", "model/facts", "machine/cpu", "machine/irq", "machine/tree", "machine/trust"},
	"machine/ovs":           {"model/setting", "model/facts", "machine/threads", "machine/tree", "machine/trust"},
	"machine/link": {"model/setting", "model/facts", "model/reach", "machine/lanes", "machine/ethtool", "machine/irq",
		"machine/ovs", "machine/tree", "machine/trust"},
	"machine/spaces": {"model/facts", "model/reach", "machine/link", "machine/tree", "machine/trust", "thread"},
	"machine/libvirt": {"model/setting", "model/facts", "model/domain", "machine/cpu", "machine/threads",
		"machine/tree", "machine/trust", "owned"},
	"machine/systemd": {"model/setting", "model/facts", "machine/threads", "machine/tree", "machine/trust"},
	"machine/vf": {"model/setting", "model/facts", "model/domain", "machine/libvirt", "machine/link",
		"machine/systemd", "machine/tree", "machine/trust"},
	"machine/kernel": {"model/setting", "model/facts", "machine/cpu", "machine/tree"},
	"machine/load": {"model/setting", "model/facts", "model/reach", "machine/cpu", "machine/irq", "machine/link",
		"machine/nicctl", "machine/ovs", "machine/probe", "machine/systemd", "machine/threads", "machine/tree",
		"machine/trust", "thread"},
	"machine/place": {"machine/libvirt", "machine/tree", "owned"},
	"machine/inside": {"model/setting", "model/facts", "machine/boot", "machine/irq", "machine/kernel", "machine/libvirt",
		"machine/systemd", "machine/tree"},
	"machine": {"model/setting", "model/facts", "advise/tuned", "model/domain", "machine/boot", "machine/cpu",
		"machine/ethtool", "machine/inside", "machine/irq", "machine/kernel", "machine/libvirt", "machine/link",
		"machine/netfilter", "machine/ovs", "machine/pollers", "machine/spaces",
		"machine/systemd", "machine/threads", "machine/tree", "machine/trust", "machine/vf", "strictjson"},
	"measure/traffic":          {"machine/nicctl", "thread"},
	"measure/traffic/counters": {"machine/nicctl", "measure/traffic"},
	"measure/trace":            {"model/setting", "model/facts", "machine/nicctl", "advise/queuepath", "thread"},
	"measure/traffic/talk":     {"measure/traffic"},
	"measure/traffic/engine":   {"measure/traffic", "owned"},
	"measure/traffic/agent":    {"outcome", "measure/traffic", "measure/traffic/counters", "measure/traffic/talk"},
	"measure/search":           {},
	"measure/search/simulated": {},
	"measure/adapter":          {"outcome", "measure/search", "owned"},
	"measure":                  {"outcome", "measure/search", "strictjson"},
	"measure/export":           {"measure"},
	"measure/wakeup":           {"model/setting", "model/facts", "measure", "strictjson"},
	"measure/wakeloop":         {"measure", "measure/wakeup", "measure/traffic", "thread"},
	"measure/rig": {"outcome", "machine/tree", "machine/trust", "measure", "measure/traffic", "measure/traffic/agent",
		"measure/traffic/counters", "measure/traffic/engine", "measure/traffic/talk"},
	"measure/acceptance": {"outcome", "model/setting", "model/facts", "advise/queuepath", "advise/sriov",
		"measure", "measure/search", "measure/wakeup", "strictjson"},
	"report": {"change/apply", "advise/audit", "advise/bottleneck", "model/datapath", "model/domain", "model/reach",
		"model/facts", "model/goal", "change/journal", "advise/knob", "outcome", "advise/plan", "advise/realtime",
		"words", "model/setting", "advise/sriov", "advise/tuned/export", "change/watch", "advise/lookup",
		"advise/handover", "advise/kube"},
	"report/svg":  {},
	"report/page": {"model/facts", "words"},
	"report/bench": {"model/facts", "model/goal", "measure", "measure/search", "measure/wakeup", "report",
		"report/page", "report/svg", "words"},
	"report/founding": {"measure/acceptance", "measure", "report", "report/page", "report/svg", "words"},
	"report/queues":   {"advise/queuepath", "report", "report/page", "report/svg", "words", "model/setting"},
	"report/sheet": {"advise/audit", "advise/bottleneck", "advise/knob", "advise/plan", "model/facts", "model/goal", "outcome",
		"report", "report/page", "words"},
	"report/seats":  {"model/facts", "advise/placement", "report", "report/page", "words", "model/setting"},
	"report/fleet":  {"advise/fleet", "advise/knob", "report", "report/page", "words"},
	"report/top":    {"advise/bottleneck", "model/facts", "report", "words"},
	"report/tuning": {"advise/bottleneck", "model/goal", "report", "report/page", "report/svg", "words", "advise/tune"},
	"change/watch":  {"model/setting", "model/facts", "advise/knob", "change/apply", "advise/realtime"},
	"initramfs":     {},
	"guestinit":     {"measure/traffic/agent", "measure/traffic/engine", "version"},
	"lab":           {"initramfs", "owned", "thread"},
	"lab/labtest":   {"lab", "must", "owned"},
	"ops": {"outcome", "model/setting", "model/facts", "model/goal", "advise/knob", "advise/site",
		"advise/lasting", "advise/realtime", "machine", "machine/inside", "owner"},
	"ops/change": {"outcome", "model/setting", "model/domain", "model/facts", "model/goal", "advise/knob",
		"advise/site", "advise/plan", "advise/lasting", "advise/sriov", "owner", "change/journal", "change/apply",
		"machine", "machine/systemd", "machine/vf", "ops"},
	"ops/vf": {"outcome", "model/setting", "model/facts", "model/goal", "advise/knob", "advise/plan",
		"advise/lasting", "advise/sriov", "change/journal", "change/apply", "machine", "machine/vf", "ops",
		"ops/change"},
	"ops/queues": {"outcome", "model/setting", "model/facts", "advise/plan", "advise/queuepath", "measure/trace",
		"machine", "ops", "ops/change"},
	"ops/definition": {"outcome", "model/datapath", "model/setting", "model/domain", "model/facts", "model/goal",
		"advise/knob", "advise/audit", "advise/plan", "change/apply", "machine", "ops", "ops/change",
		"ops/judging", "words"},
	"ops/monitor": {"outcome", "model/setting", "model/facts", "model/goal", "advise/bottleneck", "advise/realtime",
		"change/journal", "change/watch", "machine", "machine/load", "measure/traffic/talk", "ops", "ops/change"},
	"ops/profile": {"outcome", "model/setting", "model/facts", "model/goal", "advise/knob", "advise/audit",
		"advise/tuned/export", "advise/kube", "ops", "ops/judging"},
	"ops/judging": {"model/setting", "model/domain", "model/facts", "model/goal", "advise/knob", "advise/audit", "machine"},
	"ops/fleet":   {"outcome", "model/facts", "model/goal", "advise/fleet", "ops", "ops/judging"},
	"ops/handing": {"outcome", "model/facts", "model/goal", "advise/knob", "advise/audit", "advise/plan",
		"advise/handover", "ops", "ops/judging"},
	"ops/placing": {"outcome", "model/setting", "model/facts", "model/goal", "advise/placement", "ops"},
	"ops/bench": {"outcome", "model/setting", "model/facts", "model/goal", "advise/plan", "change/journal",
		"change/apply", "measure/traffic", "measure/traffic/agent", "measure/search", "measure/adapter", "measure",
		"measure/rig", "ops", "ops/change", "owned"},
	"ops/latency": {"outcome", "model/setting", "model/facts", "measure", "measure/wakeup", "machine", "machine/place",
		"ops"},
	"ops/load":  {"outcome", "model/facts", "advise/bottleneck", "machine", "machine/load", "ops"},
	"ops/saved": {"outcome", "advise/plan", "measure", "measure/wakeup", "advise/tune", "ops"},
	"ops/tuning": {"outcome", "model/setting", "model/facts", "model/goal", "advise/bottleneck", "advise/plan",
		"advise/lasting", "change/journal", "change/apply", "measure/traffic", "measure/search", "measure/adapter",
		"measure", "advise/tune", "machine", "machine/load", "ops", "ops/change", "ops/bench"},
	"ops/making": {"outcome", "model/domain", "machine", "machine/libvirt", "machine/tree", "measure/traffic/engine", "initramfs", "guestinit", "ops"},
	"ops/accept": {
		"outcome", "model/facts", "model/goal", "advise/plan", "measure/acceptance", "measure/traffic/engine", "ops", "ops/change", "ops/bench",
		"ops/making", "report", "report/founding",
	},
	"cli": {"outcome", "ops", "report", "words"},
	"lab/command": {
		"measure/acceptance", "advise/audit", "cli", "model/facts", "model/goal", "advise/knob", "lab", "measure",
		"ops", "ops/accept", "ops/bench", "ops/saved", "outcome", "advise/plan",
		"report", "report/bench", "report/founding", "report/sheet", "measure/traffic/agent", "version",
	},
	"golden":            {"must"},
	"must":              {},
	"strictjson":        {},
	"cmd/mpps":          {everything},
	"cmd/mpps-lab":      {"lab/command"},
	"cmd/mpps-guest":    {"outcome", "guestinit"},
	"tools/fieldbench":  {"measure", "measure/rig", "owned", "measure/traffic", "thread"},
	"tools/packages":    {},
	"tools/searchbench": {"measure/search", "measure/search/simulated"},
}

// work is what cmd/mpps may not import, with the packages below: what a verb does is in ops.
var work = []string{"machine", "change/journal", "change/apply"}

// programs are the packages that may start programs. traffic/engine starts netperf and iperf3, which is what it is for,
// owned is how all of them start one that must not outlive mpps, tools/fieldbench runs what it compares with, and the
// init of a guest starts the guest's agent.
var programs = []string{"owned", "machine/place", "machine/tree", "machine/tree/treetest", "machine/libvirt",
	"machine/systemd", "measure/traffic/engine", "measure/adapter", "lab", "guestinit", "lab/labtest",
	"tools/fieldbench", "tools/packages"}

// outliving are the packages and files that start programs without owned, and why.
var outliving = map[string]string{
	"machine/systemd/detach.go": "what watches and restores outlives the command that started it",
	"lab/proc.go":               "a lab may stay up; the processes of others are owned",
	"guestinit/serve.go":        "the agent ends with its guest",
	"tools/packages/main.go":    "runs go and mpps to their ends",
	"machine/tree/treetest":     "for tests",
	"lab/labtest":               "for tests",
}

// printers are the packages that may write to the standard streams, besides the main.go of commands, which hand them
// on. The init of a guest has nobody to return to, nor has the end of a test process.
var printers = []string{"report", "guestinit", "lab/labtest", "tools/fieldbench", "tools/packages", "tools/searchbench"}

// ofGuests are the packages that read names of processes inside a guest: they are the guest's own affair.
var ofGuests = []string{"machine/inside"}

var rules = map[string]rule{
	"imports point one way":             pointsOneWay,
	"programs are started in one place": startsPrograms,
	"programs end with mpps":            endsPrograms,
	"nothing else prints":               prints,
	"no shell":                          shells,
	"prose drives nothing":              readsProse,
	"threads end in one place":          leavesThreads,
	"processes are known in one place":  knowsProcesses,
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
	const one, two, three, four, five, six, seven, eight = "imports point one way",
		"programs are started in one place", "nothing else prints", "no shell", "prose drives nothing",
		"threads end in one place", "processes are known in one place", "programs end with mpps"
	for _, c := range []struct {
		rule, pkg, name, text string
		found                 string // "" where the rule must be silent
	}{
		{one, "model/setting", "a.go", `import "mpps/internal/model/facts"`, "must not import model/facts"},
		{one, "model/facts", "a.go", `import "mpps/internal/model/setting"`, ""},
		{one, "util", "a.go", ``, "package util is not in the table"},
		{one, "tools/fieldbench", "a.go", `import "mpps/internal/machine"`, "must not import machine"},
		{one, "cmd/other", "a.go", ``, "package cmd/other is not in the table"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/machine"`, "must not import machine"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/machine/load"`, "must not import machine/load"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/change/journal"; import "mpps/internal/change/apply"`,
			"must not import change/journal"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/ops"`, ""},
		{one, "lab", "a.go", `import "mpps/cmd/mpps"`, "nothing imports a command"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/lab"`, "must not import lab"},
		{one, "cmd/mpps", "a.go", `import "mpps/internal/lab/command"`, "must not import lab/command"},
		{one, "cmd/mpps-lab", "main.go", `import "mpps/internal/lab/command"`, ""},

		{two, "measure/traffic", "a.go", `import "os/exec"; var _ = exec.Command("true")`, "os/exec.Command"},
		{two, "measure/traffic", "a.go", `import "os/exec"; var _ = exec.CommandContext(nil, "true")`,
			"os/exec.CommandContext"},
		{two, "measure/traffic", "a.go", `import run "os/exec"; var start = run.Command`, "os/exec.Command"},
		{two, "advise/knob", "a.go", `import "os/exec"; var _ = exec.ErrNotFound`, "import of os/exec"},
		{two, "cmd/mpps", "a.go", `import "os"; func f() { os.StartProcess("true", nil, nil) }`, "os.StartProcess"},
		{two, "measure", "a.go", `import "syscall"; func f() { syscall.ForkExec("true", nil, nil) }`,
			"syscall.ForkExec"},
		{two, "measure", "a.go", `import "syscall"; func f() { syscall.Exec("true", nil, nil) }`, "syscall.Exec"},
		{two, "measure", "a.go", `import "syscall"; func f() { syscall.StartProcess("true", nil, nil) }`,
			"syscall.StartProcess"},
		{two, "measure/traffic", "a.go", `import "golang.org/x/sys/unix"; func f() { unix.Exec("true", nil, nil) }`,
			"unix.Exec"},
		{two, "measure", "a.go", `import . "syscall"; func f() { Exec("true", nil, nil) }`, "with a dot"},
		{two, "machine/place", "a.go", `import "os/exec"; var _ = exec.Command("true")`, ""},
		{two, "advise/knob", "a.go", `func f(exec struct{ Command func() }) { exec.Command() }`, ""},

		{three, "advise/plan", "a.go", `import "fmt"; func f() { fmt.Print(1) }`, "fmt.Print"},
		{three, "advise/plan", "a.go", `import "fmt"; func f() { fmt.Printf("") }`, "fmt.Printf"},
		{three, "cmd/mpps", "plan.go", `import "fmt"; func f() { fmt.Println() }`, "fmt.Println"},
		{three, "advise/plan", "a.go", `import out "fmt"; var f = out.Println`, "fmt.Println"},
		{three, "advise/plan", "a.go", `import "os"; var out = os.Stdout`, "os.Stdout"},
		{three, "cmd/mpps", "lab.go", `import "os"; func f() { os.Stderr.WriteString("") }`, "os.Stderr"},
		{three, "advise/plan", "a.go", `import "log"`, "import of log"},
		{three, "advise/plan", "a.go", `import "log/slog"`, "import of log/slog"},
		{three, "advise/plan", "a.go", `func f() { println("here") }`, "built-in println"},
		{three, "advise/plan", "a.go", `import . "fmt"; func f() { Println() }`, "with a dot"},
		{three, "cmd/mpps", "main.go", `import "os"; var out, err = os.Stdout, os.Stderr`, ""},
		{three, "cmd/mpps-guest", "agent.go", `import "os"; var err = os.Stderr`, "os.Stderr"},
		{three, "advise/plan", "main.go", `import "os"; var out = os.Stdout`, "os.Stdout"},
		{three, "report", "a.go", `import "os"; var out = os.Stdout`, ""},
		{three, "advise/plan", "a.go", `import "fmt"; import "os"; var _, _ = fmt.Sprint(1), os.Stdin`, ""},

		{four, "machine", "a.go", `var _ = f("sh", "-c", "true")`, "sh -c"},
		{four, "machine", "a.go", `var _ = f(nil, "/bin/sh", "-ec", "true")`, "/bin/sh -ec"},
		{four, "cmd/mpps", "a.go", `var _ = []string{"ip", "netns", "exec", "n", "bash", "-c", "true"}`, "bash -c"},
		{four, "tools/fieldbench", "a.go", "var _ = append([]string{`bash`, `-c`}, x...)", "bash -c"},
		{four, "lab/labtest", "a.go", `var _ = f("sh", "-c", "true")`, "sh -c"},
		{four, "lab", "a.go", `var _ = f("sh", "-c", "true")`, ""},
		{four, "machine", "a.go", `var _ = f("virsh", "-c", "qemu:///system")`, ""},

		{five, "change/apply", "a.go", `import "strings"; var _ = strings.HasPrefix(c.Why, DriftReason)`,
			"strings.HasPrefix on why"},
		{five, "machine", "a.go", `import "strings"; func f() bool { return strings.HasPrefix(to.Why, asFound) }`,
			"strings.HasPrefix on why"},
		{five, "change/apply", "a.go", `import "strings"; var _ = strings.HasPrefix(err.Error(), a.String())`,
			"strings.HasPrefix on Error()"},
		{five, "change/apply", "a.go", `import "strings"; var _ = strings.Contains(c.Reason, "still needed")`,
			"strings.Contains on reason"},
		{five, "cmd/mpps", "a.go", `var _ = p.Why == plan.AskedFor`, "why =="},
		{five, "change/apply", "a.go", `var _ = wasBefore == why`, "why =="},
		{five, "change/journal", "ledger.go", `import "strings"; var _ = strings.Contains(c.Why, "needed")`,
			"strings.Contains on why"},
		{five, "change/journal", "reason.go", `import "strings"; var _ = strings.Contains(c.Why, "needed")`, ""},
		{five, "report", "a.go", `var _ = a.Why == b.Why && a.Hint != "" && nil != hint`, ""},
		{five, "report", "a.go", `import "strings"; var _ = strings.Join(c.Why, ", ") == strings.TrimPrefix(err.Error(), "x")`, ""},
		{five, "change/apply", "a.go", `var _ = c.Reason == journal.Drifted`, ""},

		{six, "measure", "a.go", `import "runtime"; func f() { runtime.LockOSThread() }`, "runtime.LockOSThread"},
		{six, "measure", "a.go", `import "runtime"; func f() { runtime.LockOSThread(); defer runtime.UnlockOSThread() }`, ""},
		{six, "thread", "a.go", `import "runtime"; func f() { runtime.LockOSThread() }`, ""},

		{eight, "measure", "a.go", `import "os/exec"; func f(c *exec.Cmd) { c.Run() }`, "Run: "},
		{eight, "measure", "a.go", `import "os/exec"; var start = exec.Command("true").Start`, "Start: "},
		{eight, "measure", "a.go", `import "os/exec"; func f(p *P) { p.cmd.Output(); p.cmd.CombinedOutput() }`, "Output: "},
		{eight, "measure", "a.go", `import ("os/exec"; "mpps/internal/owned"); func f(c *exec.Cmd) { owned.Run(c) }`, ""},
		{eight, "measure", "a.go", `func f(q *search) { q.Run() }`, ""},
		{eight, "measure", "a.go", `import "os/exec"; func f(q *search) { q.Run(ctx) }`, ""},
		{eight, "owned", "a.go", `import "os/exec"; func f(c *exec.Cmd) { c.Run() }`, ""},
		{eight, "lab", "proc.go", `import "os/exec"; func f(c *exec.Cmd) { c.Run() }`, ""},
		{eight, "lab", "boot.go", `import "os/exec"; func f(c *exec.Cmd) { c.Run() }`, "Run: "},

		{seven, "machine/load", "a.go", `var _ = m.Line("proc/" + pid + "/comm")`, "/comm"},
		{seven, "machine/load", "a.go", `var _ = folder.Line("comm")`, "comm"},
		{seven, "machine/load", "a.go", `var _ = fmt.Sprintf("proc/%d/task/%d/comm", pid, tid)`, "task/%d/comm"},
		{seven, "ops", "a.go", `var _ = path.Join("proc", pid, "cmdline")`, "cmdline"},
		{seven, "ops", "a.go", `var _ = m.Target("proc/" + pid + "/exe")`, "/exe"},
		{seven, "machine/trust", "a.go", `var _ = proc.Line(name + "/comm")`, ""},
		{seven, "machine/boot", "a.go", `var _, _ = m.Read("proc/cmdline"), "etc/kernel/cmdline"`, ""},
		{seven, "machine/systemd", "a.go", `var _ = "/proc/self/exe"`, ""},
		{seven, "machine/tuned", "a.go", `var _ = "/etc/tuned/bootcmdline"`, ""},
	} {
		s, err := parse(c.name, c.pkg, "package p\n"+strings.ReplaceAll(c.text, "; ", "\n"))
		must.Need(t, err == nil, "%s: %v", c.text, err)
		found := strings.Join(rules[c.rule](s), "; ")
		if c.found == "" && found != "" || !strings.Contains(found, c.found) {
			t.Errorf("%s, in %s/%s: %s\nfound %q, expected %q", c.rule, c.pkg, c.name, c.text, found, c.found)
		}
	}
}

var row = regexp.MustCompile("^\\| `([^`]+)` \\| .* \\| ([^|]*) \\|$")

// TestDocument compares the tables of docs/ARCHITECTURE.md and of the wings with the one above.
func TestDocument(t *testing.T) {
	files := []string{filepath.Join("..", "..", "docs", "ARCHITECTURE.md")}
	for _, wing := range wings {
		files = append(files, filepath.Join("..", wing, "README.md"))
	}
	documented := map[string][]string{}
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		maps.Copy(documented, documentRows(string(text)))
	}
	for pkg, allowed := range imports {
		found, listed := documented[pkg]
		if !listed {
			t.Errorf("package %s has no row in the document", pkg)
			continue
		}
		want := slices.Sorted(slices.Values(allowed))
		must.Hold(t, slices.Equal(found, want),
			"package %s: the document says %q, the table of layers %q", pkg, found, want)
	}
	for pkg := range documented {
		if _, listed := imports[pkg]; !listed {
			t.Errorf("the document has a row for %s, the table of layers has none", pkg)
		}
	}
}

// TestDocumentCanFail: a row that says something else, or nothing, is seen.
func TestDocumentCanFail(t *testing.T) {
	found := documentRows("## No\n| `x` | y | z |\n\n## Packages\n\n| package | what |\n|---|---|\n| `goal` | " +
		"targets | setting, facts |\n| `domain` | XML | – |\n\n## Rules\n| `x` | y | z |\n")
	must.Hold(t, len(found) == 2 && slices.Equal(found["goal"], []string{"facts", "setting"}) &&
		len(found["domain"]) == 0, "found %q", found)
}

// documentRows is what the table under "## Packages" or "## Packages of no wing" says of each package, sorted.
func documentRows(text string) map[string][]string {
	rows := map[string][]string{}
	_, section, _ := strings.Cut(text, "\n## Packages")
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
