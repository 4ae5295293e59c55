// Command packages stages what the packages of mpps hold besides the files of the tree: manual pages and completions,
// written by the program itself, the licences of what is linked into it, the changelog, and the bill of materials. The
// same program and time give the same bytes.
package main

import (
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	var s stager
	flag.StringVar(&s.program, "program", "", "mpps of the package's architecture")
	flag.StringVar(&s.native, "native", "", "mpps of this architecture")
	flag.StringVar(&s.to, "to", "", "directory to write to")
	flag.StringVar(&s.tree, "tree", "", "top of the source tree")
	flag.StringVar(&s.bill, "bill", "", "CycloneDX file of the program")
	flag.StringVar(&s.version, "version", "", "version of the package")
	flag.StringVar(&s.maintainer, "maintainer", "", "name and address")
	epoch := flag.Int64("epoch", 0, "time of the files, in seconds since 1970")
	flag.Parse()
	s.at = time.Unix(*epoch, 0).UTC()
	if err := errors.Join(s.pages(), s.completions(), s.licences(), s.changelog(), s.materials()); err != nil {
		fmt.Fprintf(os.Stderr, "packages: error: %v\n", err)
		os.Exit(1)
	}
}

// stager writes the files of one package.
type stager struct {
	program, native, to, tree, bill, version, maintainer string

	at time.Time // of all files
}

func (s *stager) write(name string, text []byte) error {
	name = filepath.Join(s.to, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}

// compressed writes a file compressed, without name and time.
func (s *stager) compressed(name string, text []byte) error {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return s.write(name, b.Bytes())
}

// run returns what mpps prints. It sees no machine: the same on every one.
func (s *stager) run(args ...string) ([]byte, error) {
	cmd := exec.Command(s.native, args...)
	cmd.Env = []string{"HOME=/nonexistent", "PATH=/nonexistent", "NO_COLOR=1"}
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", s.native, strings.Join(args, " "), err)
	}
	return text, nil
}

func (s *stager) completions() error {
	for _, shell := range []string{"bash", "fish", "zsh"} {
		text, err := s.run("completion", shell)
		if err == nil {
			err = s.write("completion."+shell, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pages writes a manual page of the program and of each command, made of its help.
func (s *stager) pages() error {
	for queue := [][]string{{}}; len(queue) > 0; queue = queue[1:] {
		command := queue[0]
		help, err := s.run(append(slices.Clone(command), "--help")...)
		if err != nil {
			return err
		}
		name := strings.Join(append([]string{"mpps"}, command...), "-")
		if err := s.compressed("man/"+name+".1.gz", s.page(name, command, string(help))); err != nil {
			return err
		}
		for _, below := range commandsIn(string(help)) {
			if below != "help" && below != "completion" {
				queue = append(queue, append(slices.Clone(command), below))
			}
		}
	}
	return nil
}

// commandsIn returns the commands that a help lists: the indented first words below a heading of commands.
func commandsIn(help string) []string {
	var names []string
	listing := false
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || !strings.HasPrefix(line, " "):
			listing = strings.HasSuffix(line, ":") && !strings.HasPrefix(line, "Usage") &&
				!strings.HasSuffix(line, "Flags:") && !strings.Contains(line, "Exit")
		case listing && strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   ") && len(words) > 1 &&
			strings.Trim(words[0], "abcdefghijklmnopqrstuvwxyz-") == "" && !strings.HasPrefix(words[0], "-") &&
			words[0] != "mpps":
			names = append(names, words[0])
		}
	}
	return names
}

// page returns a help as a manual page, in the form that it has.
func (s *stager) page(name string, command []string, help string) []byte {
	escape := func(text string) string {
		text = strings.ReplaceAll(text, `\`, `\e`)
		text = strings.ReplaceAll(text, "-", `\-`)
		var lines []string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
				line = `\&` + line
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "")
	}
	title := "tune a KVM host for packet rate and latency"
	if len(command) > 0 {
		first, _, _ := strings.Cut(help, ".")
		title = strings.Join(strings.Fields(first), " ")
		if r := []rune(title); len(r) > 70 {
			title = string(r[:70]) + "…"
		}
	}
	return fmt.Appendf(nil, ".TH %s 1 %q mpps \"mpps manual\"\n.SH NAME\n%s \\- %s\n.SH DESCRIPTION\n.nf\n%s\n.fi\n",
		strings.ToUpper(strings.ReplaceAll(name, "-", `\-`)), s.at.Format("2006-01-02"), escape(name), escape(title),
		escape(strings.TrimSpace(help)))
}

// licences writes the licence of mpps and those of every module that is linked into the program, and of Go.
func (s *stager) licences() error {
	info, err := buildinfo.ReadFile(s.program)
	if err != nil {
		return err
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	dirs, err := s.modules()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("What is linked into the program, with the texts of the licences:\n")
	add := func(name, dir string) error {
		texts, err := texts(dir)
		if err == nil && len(texts) == 0 {
			err = fmt.Errorf("%s has no licence in %s", name, dir)
		}
		for _, text := range texts {
			fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 79), name, strings.TrimSpace(text))
		}
		return err
	}
	own, err := os.ReadFile(filepath.Join(s.tree, "LICENSE"))
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, "\n%s\nmpps\n\n%s\n", strings.Repeat("=", 79), bytes.TrimSpace(own))
	errs := []error{add("Go "+strings.TrimPrefix(info.GoVersion, "go"), strings.TrimSpace(string(goroot)))}
	for _, m := range info.Deps {
		errs = append(errs, add(m.Path+" "+m.Version, dirs[m.Path]))
	}
	return errors.Join(append(errs, s.write("licences", b.Bytes()), s.write("copyright", short(b.Bytes())))...)
}

// short returns licences without the text that every Debian system has: its policy wants it named, not repeated
// (Debian Policy 12.5).
func short(text []byte) []byte {
	const begin, end = "Apache License\n", "END OF TERMS AND CONDITIONS\n"
	var b bytes.Buffer
	for {
		from := bytes.Index(text, []byte(begin))
		to := bytes.Index(text, []byte(end))
		if from < 0 || to < from {
			b.Write(text)
			return b.Bytes()
		}
		b.Write(bytes.TrimRight(text[:from], " "))
		b.WriteString("Apache License, Version 2.0: the text is in /usr/share/common-licenses/Apache-2.0\n")
		text = text[to+len(end):]
	}
}

// modules returns the directories of the modules of the tree, by path.
func (s *stager) modules() (map[string]string, error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all")
	cmd.Dir = s.tree
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m all: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[name] = dir
	}
	return dirs, nil
}

// texts returns the licences and notices in a directory.
func texts(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if !e.Type().IsRegular() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"},
			func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// changelog writes the changelog in Debian's form: one entry, which names the real one.
func (s *stager) changelog() error {
	return s.compressed("changelog.gz", fmt.Appendf(nil, "mpps (%s-1) unstable; urgency=medium\n\n"+
		"  * See /usr/share/doc/mpps/CHANGELOG.md.\n\n -- %s  %s\n", s.version, s.maintainer,
		s.at.Format(time.RFC1123Z)))
}

// materials writes the bill of materials without what differs from one run to the next.
func (s *stager) materials() error {
	text, err := os.ReadFile(s.bill)
	if err != nil {
		return err
	}
	var bill map[string]any
	if err := json.Unmarshal(text, &bill); err != nil {
		return fmt.Errorf("%s: %w", s.bill, err)
	}
	delete(bill, "serialNumber")
	if meta, is := bill["metadata"].(map[string]any); is {
		meta["timestamp"] = s.at.Format(time.RFC3339)
	}
	text, err = json.MarshalIndent(bill, "", " ")
	if err != nil {
		return err
	}
	return s.write("mpps.cdx.json", append(text, '\n'))
}
