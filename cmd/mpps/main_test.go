package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/lab/command"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// everyCommand lists the commands, those below others too.
func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, below := range cmd.Commands() {
		all = append(all, everyCommand(below)...)
	}
	return all
}

// TestHelpFitsATerminal draws the help of every command.
func TestHelpFitsATerminal(t *testing.T) {
	var text bytes.Buffer
	root, lab := (&app{stdout: &text, stderr: &text}).command(), command.Root()
	root.SetOut(&text)
	lab.SetOut(&text)
	for _, cmd := range append(everyCommand(root), everyCommand(lab)...) {
		text.Reset()
		must.Do(t, cmd.Help())
		if err := wide(text.String(), 80); err != nil {
			t.Errorf("%s --help: %v", cmd.CommandPath(), err)
		}
	}
}

// anyText are the flags of which every text is a value: names, files, addresses of agents and command lines. What they
// name may still not be there.
var anyText = strings.Fields(`against agent all-free arg as checkpoint daemon disk guest guest-nic image learned listen
	load mac machine metrics more-agents more-vf-agents move name native netns nic note output pf plan plan-output
	report resume search secret-file snapshot title data-nic import to-snapshot unconfirmed trial-command
	tunnel-agent uuid vf vf-agent vf-tunnel-agent via network out uuid by to`)

// elsewhere are the verbs that look at a guest or its definition before all of their flags.
var elsewhere = []string{"mpps domain"}

// enough are the arguments without which a verb refuses to begin, whatever its flags are.
var enough = map[string][]string{
	"mpps bench pps": {"--from", "lo", "--to", "lo2"}, "mpps bench rr": {"--from", "lo", "--to", "lo2"},
	"mpps bench crr": {"--from", "lo", "--to", "lo2"}, "mpps bench stream": {"--from", "lo", "--to", "lo2"},
	"mpps bench compare": {"a.json", "b.json"}, "mpps report": {"a.json"}, "mpps acceptance": {"throughput"},
	"mpps search": {"--from", "lo", "--to", "lo2"}, "mpps tune": {"--from", "lo", "--to", "lo2", "--pps", "1M"},
	"mpps verify": {"--watch"}, "mpps fleet audit": {"."}, "mpps apply": {"--pps", "1M"},
	"mpps rollback": {"TX"}, "mpps export tuned": {"--pps", "1M"}, "mpps latency load": {}, "mpps latency loop": {},
	"mpps sriov release": {"GUEST"}, "mpps sriov assign": {"GUEST"}, "mpps sriov migrate-plan": {"GUEST"},
	"mpps sriov create": {"PF", "-n", "2"}, "mpps sriov guest": {"GUEST"},
	"mpps sriov destroy": {"PF"}, "mpps sriov reset": {"PCI"}, "mpps explain": {"ID"}, "mpps path": {},
}

// badTexts returns what is no value of a flag: nothing, another kind of word, numbers below and above every range.
func badTexts(f *pflag.Flag) []string {
	if f.Value.Type() == "bool" {
		return []string{"a/b"}
	}
	texts := []string{""}
	if _, read := f.Value.(interface{ ReadAtOnce() }); read || !slices.Contains(anyText, f.Name) {
		texts = append(texts, "a/b")
	}
	switch f.Value.Type() {
	case "int", "int64", "uint16", "uint64":
		texts = append(texts, "-7", strings.Repeat("9", 30), "1.5")
	case "duration":
		texts = append(texts, "-5s", "5", strings.Repeat("9", 30)+"h")
	case "float64":
		texts = append(texts, "-1", "NaN", "1e999")
	}
	return texts
}

// TestBadValues: a bad value of a flag is refused in the name of that flag, whatever the verb calls it.
func TestBadValues(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	n := 0
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if slices.ContainsFunc(elsewhere, func(verb string) bool { return strings.HasPrefix(path, verb) }) {
			return
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			for _, text := range badTexts(f) {
				n++
				argv := slices.Concat(strings.Fields(path)[1:], enough[path],
					[]string{"--" + f.Name + "=" + text, "--root", root})
				var out, said bytes.Buffer
				code := run(argv, strings.NewReader(""), &out, &said)
				if code != outcome.CodeUsage || !strings.Contains(said.String(), "--"+f.Name) || out.Len() > 0 ||
					strings.Contains(said.String(), "strconv") || !strings.Contains(said.String(), "\nhint: ") {
					t.Errorf("%s: exit code %d: %s%s", strings.Join(argv, " "), code, said.String(), out.String())
				}
			}
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).command())
	must.Hold(t, n >= 1100, "only %d values were tried", n)
}

// TestLabCommandLines: what mpps-lab runs on an emulated host is what mpps takes.
func TestLabCommandLines(t *testing.T) {
	for _, experiment := range []string{"throughput", "modes"} {
		w := written{where: "mpps-lab acceptance " + experiment, words: command.Acceptance(experiment)}
		must.Succeed(t, w.parses(), "%s", w)
	}
	modes, _, err := command.Root().Find([]string{"modes"})
	must.Do(t, err)
	there := (&app{}).benchModes().Flags()
	modes.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "only" || f.Name == "help" {
			return
		}
		if same := there.Lookup(f.Name); same == nil || same.Shorthand != f.Shorthand {
			t.Errorf("mpps-lab modes has --%s, mpps bench modes has not", f.Name)
		}
	})
}
