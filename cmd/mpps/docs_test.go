package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/kballard/go-shellquote"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/advise/knob"
	"mpps/internal/golden"
	"mpps/internal/lab/command"
	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

// written is a command as it stands in documentation.
type written struct {
	where string // file or command
	words []string
	lab   bool // of mpps-lab
}

func (w written) String() string { return w.where + ": " + strings.Join(w.words, " ") }

// documents are the Markdown files that show commands, relative to this package.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../../README*.md", "../../SECURITY.md", "../../CONTRIBUTING.md", "../../docs/*.md", "../../docs/*/*.md", "../../deploy/*/*.md",
		"../../internal/*/*.md"} {
		found := must.Get(filepath.Glob(pattern))(t)
		all = append(all, found...)
	}
	return all
}

// shellBlocks are the contents of a document's blocks of shell commands. In a block that is indented, words that
// describe a command stand behind two spaces or more.
func shellBlocks(text string) []string {
	var blocks []string
	for _, found := range regexp.MustCompile(`(?m)^    ((?:sudo )?mpps(?:-lab)? .*)$`).FindAllStringSubmatch(text, -1) {
		command, _, _ := strings.Cut(found[1], "  ")
		blocks = append(blocks, command)
	}
	for _, found := range regexp.MustCompile("(?ms)^```(?:sh|bash|shell|console)\\n(.*?)^```").FindAllStringSubmatch(
		text, -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// inlineCommands are the spans of code that begin with the program's name and a word.
func inlineCommands(text string) []string {
	var all []string
	text = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(text, "")
	for _, found := range regexp.MustCompile("`(mpps(?:-lab)? [a-z][^`]*)`").FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Join(strings.Fields(found[1]), " "))
	}
	return all
}

// commandsIn are the commands of mpps in lines of shell: behind a comment sign nothing counts, and each part of a list
// or a pipe is a separate command.
func commandsIn(where, shell string) []written {
	var all []written
	for line := range strings.Lines(strings.ReplaceAll(shell, "\\\n", " ")) {
		line, _, _ = strings.Cut(line, " #")
		for _, part := range regexp.MustCompile(`&&|\|\||[|;]`).Split(line, -1) {
			words, err := shellquote.Split(strings.TrimPrefix(strings.TrimSpace(part), "$ "))
			if err != nil { // a sentence with an apostrophe
				words = strings.Fields(part)
			}
			for len(words) > 0 && (words[0] == "sudo" || strings.Contains(words[0], "=")) {
				words = words[1:]
			}
			if len(words) < 2 {
				continue
			}
			switch name := strings.TrimPrefix(words[0], "bin/"); name {
			case "mpps", "mpps-lab":
				all = append(all, written{where, words[1:], name == "mpps-lab"})
			}
		}
	}
	return all
}

// commandsInSources are the commands that the program prints, such as those in hints: between single quotes, with a
// number in place of each verb of a format and of N. 'mpps bench …' stands for each kind of run.
func commandsInSources(t *testing.T) []written {
	t.Helper()
	var all []written
	verb, quoted := regexp.MustCompile(`%(?:\[\d\])?[sdvq]|\bN\b`), regexp.MustCompile(`'(mpps(?:-lab)? [a-z][^'"\n]*)'`)
	for _, root := range []string{"../../cmd", "../../internal"} {
		must.Do(t, filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
				text := strings.Replace(verb.ReplaceAllString(found[1], "1"), "bench … -", "bench pps -", 1)
				all = append(all, commandsIn(path, text)...)
			}
			return err
		}))
	}
	return all
}

// commandsInHelp are the examples in the help of a command: indented lines, described behind two spaces or more.
func commandsInHelp(cmd *cobra.Command) []written {
	var all []written
	for line := range strings.Lines(cmd.Long) {
		if example, found := strings.CutPrefix(line, "  mpps"); found {
			example, _, _ = strings.Cut(strings.TrimRight(example, "\n"), "  ")
			all = append(all, commandsIn(cmd.CommandPath()+" --help", "mpps"+example)...)
		}
	}
	return all
}

// parses reports whether a command's words, flags and number of arguments are ones that the program takes.
func (w written) parses() error {
	given, cmd, err := w.read()
	if err != nil || cmd == nil {
		return err
	}
	return cmd.ValidateArgs(given)
}

// read returns a command and its arguments, without a command where a flag is only named or the rest is left out.
func (w written) read() (given []string, cmd *cobra.Command, err error) {
	words := slices.DeleteFunc(slices.Clone(w.words), func(word string) bool { return word == "…" || word == "..." })
	if alternatives := strings.Split(words[len(words)-1], "/"); len(words) == 1 && len(alternatives) > 1 {
		words = alternatives[:1]
	}
	root := (&app{}).command()
	if w.lab {
		root = command.Root()
	}
	cmd, rest, err := root.Find(words)
	if err != nil {
		return nil, nil, err
	}
	if cmd.Parent() == nil {
		return nil, nil, fmt.Errorf("no command %q", words[0])
	}
	var bare *pflag.ValueRequiredError
	switch err := cmd.ParseFlags(rest); {
	case errors.As(err, &bare): // a flag that is only named, in a sentence
		return nil, nil, nil
	case err != nil && !errors.Is(err, pflag.ErrHelp):
		return nil, nil, err
	}
	given = cmd.Flags().Args()
	if len(words) < len(w.words) && len(given) == 0 {
		return nil, nil, nil // the rest is left out
	}
	return given, cmd, nil
}

// TestDocumentedCommands parses every command in the documents and in the help: a verb, flag or argument that the
// program does not take fails.
func TestDocumentedCommands(t *testing.T) {
	var all []written
	for _, file := range documents(t) {
		text := must.Get(os.ReadFile(file))(t)
		for _, block := range shellBlocks(string(text)) {
			all = append(all, commandsIn(file, block)...)
		}
		for _, span := range inlineCommands(string(text)) {
			if found := commandsIn(file, span); len(found) > 0 && len(found[0].words) > 1 {
				all = append(all, found...)
			}
		}
	}
	for _, cmd := range append(everyCommand((&app{}).command()), everyCommand(command.Root())...) {
		all = append(all, commandsInHelp(cmd)...)
	}
	must.Hold(t, len(all) >= 400, "only %d commands were found", len(all))
	printed := commandsInSources(t)
	must.Hold(t, len(printed) >= 100, "only %d commands were found in messages", len(printed))
	for _, w := range all {
		must.Succeed(t, w.parses(), "%s", w)
	}
	for _, w := range printed { // arguments may be left out, or stand for others
		if _, _, err := w.read(); err != nil {
			t.Errorf("%s: %v", w, err)
		}
	}
	for _, wrong := range []string{"adit", "audit --pp 3", "audit x", "bench", "bench compare a", "bench fast"} {
		w := written{where: "here", words: strings.Fields(wrong)}
		if err := w.parses(); err == nil && wrong != "bench" {
			t.Errorf("%s is taken for right", w)
		}
	}
}

// TestReadmeTargets finds every make target of the documents in the Makefile.
func TestReadmeTargets(t *testing.T) {
	makefile := must.Get(os.ReadFile("../../Makefile"))(t)
	for _, file := range documents(t) {
		text := must.Get(os.ReadFile(file))(t)
		for _, found := range regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z-]*)").FindAllStringSubmatch(string(text),
			-1) {
			must.Hold(t, regexp.MustCompile(`(?m)^`+found[1]+`:`).Match(makefile),
				"%s: no target %s in the Makefile", file, found[1])
		}
	}
}

// TestTestsAreListed: README sends to CONTRIBUTING for all that make test leaves out, so that has every target that
// tests.
func TestTestsAreListed(t *testing.T) {
	listed := string(must.Get(os.ReadFile("../../CONTRIBUTING.md"))(t))
	makefile := string(must.Get(os.ReadFile("../../Makefile"))(t))
	tests := regexp.MustCompile(`\$\(GO\) (?:-C \S+ )?test |_TESTS\)|scripts/(?:test|fuzz)|test/scenes/play -turn`)
	n := 0
	for _, target := range regexp.MustCompile(`(?m)^([a-z-]+):.*\n((?:\t.*\n)+)`).FindAllStringSubmatch(makefile, -1) {
		if !tests.MatchString(target[2]) || strings.Contains(target[2], "-bench ") {
			continue
		}
		n++
		must.Hold(t, strings.Contains(listed, "`make "+target[1]+"`"), "CONTRIBUTING.md does not name make %s", target[1])
	}
	must.Hold(t, n > 12, "%d targets found", n)
}

// TestDocumentLinks finds the files that the documents lead to.
func TestDocumentLinks(t *testing.T) {
	for _, file := range documents(t) {
		text := must.Get(os.ReadFile(file))(t)
		for _, found := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			must.Pass(os.Stat(filepath.Join(filepath.Dir(file), found[1])))(t, "%s", file)
		}
	}
}

// TestReadmeCommands runs the commands of README and of docs/README on a recorded machine, in the order in which they
// stand there, as far as they need neither a network nor a lab. What they write is there for those behind them.
func TestReadmeCommands(t *testing.T) {
	work := t.TempDir()
	root := filepath.Join(work, "machine")
	must.Do(t, golden.Tree("testdata/trees/two-nodes.txtar", root))
	// a definition is written by libvirt alone
	for _, guest := range []string{"etc/libvirt", "run/libvirt", "proc/2001"} {
		must.Do(t, os.RemoveAll(filepath.Join(root, guest)))
	}
	const runFile = `{"schema": "mpps.run/1", "kind": "pps", "host": "h", "limited_by": "device", "samples": [{"pps": %d}, {"pps": %d}, {"pps": %d}, {"pps": %d}]}`
	for name, pps := range map[string]int{"before": 600, "after": 8000} {
		must.Do(t, os.WriteFile(filepath.Join(work, name+".json"), fmt.Appendf(nil, runFile, pps, pps+1, pps+2, pps+3),
			0o644))
	}
	readmes := must.Get(filepath.Glob("../../README*.md"))(t)
	byTask := must.Get(filepath.Glob("../../docs/README*.md"))(t)
	readmes = append(readmes, byTask...)
	var commands []written
	for _, file := range readmes {
		text := must.Get(os.ReadFile(file))(t)
		for _, block := range shellBlocks(string(text)) {
			commands = append(commands, commandsIn(file, block)...)
		}
		// named in the text
		commands = append(commands, written{where: file, words: strings.Fields("snapshot -o host.json")})
		for _, span := range inlineCommands(string(text)) {
			if strings.HasPrefix(span, "mpps audit ") {
				commands = append(commands, commandsIn(file, span)...)
			}
		}
	}
	t.Chdir(work)
	must.Do(t, os.Mkdir("hosts", 0o755))
	must.Equal(t, run([]string{"snapshot", "-o", "hosts/a.json", "--root", root}, strings.NewReader(""),
		&bytes.Buffer{}, &bytes.Buffer{}), outcome.CodeOK, "a snapshot for 'mpps fleet'")
	ran := 0
	for _, w := range commands {
		// a recorded machine has no card
		elsewhere := w.lab || w.words[0] == "agent" || w.words[0] == "path" || w.words[0] == "search" ||
			w.words[0] == "sriov" ||
			w.words[0] == "bench" && w.words[1] != "compare"
		// A guest that the recorded machine has not, what is measured and watched, and what goes on after a reboot.
		elsewhere = elsewhere || slices.Contains([]string{"latency", "acceptance", "realtime", "diagnose", "top",
			"tune"}, w.words[0]) || slices.Contains(w.words, "--watch") ||
			slices.Contains(w.words, "rt1") || slices.Contains(w.words, "rt.json") ||
			slices.Contains(w.words, "--resume") || slices.Contains(w.words, "latency.html")
		if elsewhere || slices.Contains(w.words, "TX") { // a transaction that is the reader's
			continue
		}
		ran++
		var out, problems bytes.Buffer
		words := append(slices.Clone(w.words), "--root", root)
		if words[0] == "apply" { // a reader says yes
			words = append(words, "--yes")
		}
		if code := run(words, strings.NewReader(""), &out, &problems); code != outcome.CodeOK {
			t.Errorf("%s: exit code %d\n%s", w, code, problems.String())
		}
		must.Succeed(t, wide(out.String(), 80), "%s", w)
	}
	must.Hold(t, ran >= 9, "only %d commands were run", ran)
	for _, file := range []string{"plan.json", "report.html", "host.json"} {
		must.Try(t, must.Err(os.Stat(file)))
	}
}

// TestHelpTexts: every command that is listed has a long help, and every text is one's.
func TestHelpTexts(t *testing.T) {
	files := must.Get(helpTexts.ReadDir("help"))(t)
	with := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Long != "" {
			with++
		} else if !cmd.Hidden {
			t.Errorf("%s has no long help", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk((&app{}).command())
	must.Hold(t, with == len(files), "%d texts for %d commands", len(files), with)
}

// knobPages is where the pages of the catalogue are.
const knobPages = "../../docs/knobs"

// TestKnobPages: the index and the head of each page say what the definitions say. MPPS_UPDATE=1 writes them.
func TestKnobPages(t *testing.T) {
	golden.File(t, filepath.Join(knobPages, "README.md"), knobIndex())
	for _, k := range knob.Catalogue() {
		name := filepath.Join(knobPages, k.ID+".md")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		_, prose, found := strings.Cut(string(text), "\n## What it should be\n")
		if !found {
			t.Errorf("%s: no section \"What it should be\"", name)
			continue
		}
		golden.File(t, name, knobHead(k)+"\n## What it should be\n"+prose)
	}
}

// TestKnobPagesHaveKnobs: there is no page of a knob that is gone.
func TestKnobPagesHaveKnobs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(knobPages, "*.md"))
	must.Need(t, err == nil && len(files) != 0, "no pages: %v", err)
	for _, name := range files {
		id := strings.TrimSuffix(filepath.Base(name), ".md")
		known := slices.ContainsFunc(knob.Catalogue(), func(k *knob.Knob) bool { return k.ID == id })
		if !known && id != "README" {
			t.Errorf("%s:1: there is no knob %s", name, id)
		}
	}
}

// knobHead returns what a page says above its prose.
func knobHead(k *knob.Knob) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", k.ID, k.Title)
	after := "–"
	if len(k.After) > 0 {
		links := make([]string, len(k.After))
		for i, id := range k.After {
			links[i] = fmt.Sprintf("[%s](%s.md)", id, id)
		}
		after = strings.Join(links, ", ")
	}
	var tiers []string
	for _, tier := range goal.Tiers() {
		if k.AppliesTo(tier) {
			tiers = append(tiers, string(tier))
		}
	}
	b.WriteString("| stage | risk | has an opinion for | comes after | mpps |\n|---|---|---|---|---|\n")
	fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", k.Stage, k.Risk, strings.Join(tiers, ", "), after, does(k))
	if on := k.Limit.Words(); on != "" {
		fmt.Fprintf(&b, "\nFor %s only.\n", on)
	}
	if all := k.Values(); len(all) > 0 {
		b.WriteString("\n## Values\n\n")
		for _, v := range all {
			what := v.What
			if on := v.Limit.Words(); on != "" {
				what += ", for " + on + " only"
			}
			fmt.Fprintf(&b, "- `%s` (%s)\n", v.Address, what)
		}
	}
	return b.String()
}

// knobIndex returns the index of all pages, by stage in path order.
func knobIndex() string {
	var b strings.Builder
	var stage datapath.Stage
	checks := 0
	for _, k := range knob.Catalogue() {
		if k.Check {
			checks++
		}
		if k.Stage != stage {
			stage = k.Stage
			fmt.Fprintf(&b, "\n## %s\n\n| knob | what | risk | mpps |\n|---|---|---|---|\n", stage)
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", k.ID, k.ID, k.Title, k.Risk, does(k))
	}
	head := fmt.Sprintf("# The catalogue\n\n%d knobs, %d of them checks that mpps explains and does not set, in the "+
		"order in "+
		"which a packet meets them. `mpps explain ID` shows the page of one.\n", len(knob.Catalogue()), checks)
	return head + b.String()
}

func does(k *knob.Knob) string {
	switch {
	case k.Check:
		return "checks and explains"
	case k.Asked:
		return "sets on request"
	}
	return "sets"
}
