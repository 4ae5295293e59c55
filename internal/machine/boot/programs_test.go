package boot

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"mpps/internal/machine/tree"
)

// standIn replaces the boot loader's programs in a tree.
type standIn struct {
	t     *testing.T
	m     *tree.Tree
	calls []string
	old   bool // grubby of the kind that removes every word with the name in it
	fail  error
	dies  string // the machine stops: "before" a program, "behind" it, or after its "first" file
}

// stops is the panic of a stand-in when the machine stops.
type stops struct{}

func (s *standIn) run(_ context.Context, program string, args ...string) error {
	s.calls = append(s.calls, strings.Join(append([]string{program}, args...), " "))
	if s.dies == "behind" {
		defer panic(stops{})
	}
	switch {
	case s.dies == "before":
		panic(stops{})
	case s.fail != nil:
		return s.fail
	case program == "grub-mkconfig" && len(args) == 2 && args[0] == "-o":
		return s.mkconfig(strings.TrimPrefix(args[1], "/"))
	case program == "grubby":
		return s.grubby(args)
	}
	return fmt.Errorf("%s: not played", program)
}

// mkconfig reads the files of /etc/default as grub-mkconfig does, with the shell, and writes the linux lines as
// /etc/grub.d/10_linux does.
func (s *standIn) mkconfig(to string) error {
	const script = `set -e
. etc/default/grub
for x in etc/default/grub.d/*.cfg; do if [ -e "$x" ]; then . "./$x"; fi; done
printf '%s\n%s\n%s\n' "${GRUB_DEFAULT}" "${GRUB_CMDLINE_LINUX}" "${GRUB_CMDLINE_LINUX_DEFAULT}"`
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = s.m.Path
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	first, rest, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	always, normal, _ := strings.Cut(rest, "\n")
	text, err := s.m.Read("boot/grub/grub.cfg")
	if err != nil {
		return err
	}
	text = regexp.MustCompile(`set default="[^$].*"`).ReplaceAllLiteralString(text, `set default="`+first+`"`)
	text = regexp.MustCompile(`(?m)^(\t+linux\t\S+ root=\S+ ro )(single )?.*$`).ReplaceAllStringFunc(text,
		func(line string) string {
			head, _, recovery := strings.Cut(line, " ro single")
			if recovery {
				return head + " ro single " + always
			}
			head, _, _ = strings.Cut(line, " ro ")
			return head + " ro " + always + " " + normal
		})
	if s.dies == "first" {
		text = text[:len(text)/2]
		defer panic(stops{})
	}
	return os.WriteFile(filepath.Join(s.m.Path, to), []byte(text), 0o600)
}

func (s *standIn) grubby(args []string) error {
	edit := func(line string) string {
		words := strings.Fields(line)
		for _, arg := range args {
			if names, found := strings.CutPrefix(arg, "--remove-args="); found {
				for _, name := range strings.Fields(names) {
					words = slices.DeleteFunc(words, func(word string) bool {
						return word == name || strings.HasPrefix(word, name+"=") || s.old &&
							strings.Contains(word, name)
					})
				}
			}
			if added, found := strings.CutPrefix(arg, "--args="); found {
				for _, word := range strings.Fields(added) {
					name, _, _ := strings.Cut(word, "=")
					i := slices.IndexFunc(words, func(old string) bool {
						return old == name || strings.HasPrefix(old, name+"=")
					})
					if i >= 0 {
						words[i] = word
					} else {
						words = append(words, word)
					}
				}
			}
		}
		return strings.Join(words, " ")
	}
	names := []string{"etc/default/grub", "etc/kernel/cmdline", "boot/grub2/grubenv", "boot/grub2/grub.cfg"}
	if l, err := readLoader(s.m); err == nil {
		names[len(names)-1] = l.config
	}
	for _, name := range s.m.List("boot/loader/entries") {
		names = append(names, "boot/loader/entries/"+name)
	}
	for _, name := range names {
		text, err := s.m.Read(name)
		if err != nil {
			continue
		}
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			switch {
			case strings.HasPrefix(line, "options ") && !strings.Contains(line, "$kernelopts"):
				lines[i] = "options " + edit(line[8:]) + "\n"
			case strings.HasPrefix(line, "\tlinux16 "), strings.HasPrefix(line, "\tlinuxefi "):
				words := strings.SplitN(line, " ", 3)
				lines[i] = words[0] + " " + words[1] + " " + edit(words[2]) + "\n"
			case strings.HasPrefix(line, "kernelopts="):
				lines[i] = "kernelopts=" + edit(line[11:]) + "\n"
			case strings.HasPrefix(line, "GRUB_CMDLINE_LINUX="):
				lines[i] = `GRUB_CMDLINE_LINUX="` + edit(strings.Trim(strings.TrimSpace(line[19:]), `"`)) + "\"\n"
			case name == "etc/kernel/cmdline":
				lines[i] = edit(line)
				if line != "" {
					lines[i] += "\n"
				}
			}
		}
		if err := os.WriteFile(filepath.Join(s.m.Path, name), []byte(strings.Join(lines, "")), 0o644); err != nil {
			return err
		}
		if s.dies == "first" {
			panic(stops{})
		}
	}
	return nil
}
