package boot

import (
	"cmp"
	"path"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// loaderEntry is one file of loader/entries (UAPI.1 Boot Loader Specification, type 1): lines KEY VALUE.
type loaderEntry struct {
	title, version, linux, sortKey, machine string
	options                                 string
	efi                                     string
}

func parseLoaderEntry(text string) loaderEntry {
	var e loaderEntry
	for line := range strings.Lines(text) {
		key, value := loaderKey(line)
		switch key {
		case "title":
			e.title = value
		case "version":
			e.version = value
		case "linux":
			e.linux = value
		case "efi", "uki":
			e.efi = value
		case "sort-key":
			e.sortKey = value
		case "machine-id":
			e.machine = value
		case "options": // may stand several times
			e.options = strings.TrimSpace(e.options + " " + value)
		}
	}
	return e
}

// loaderKey splits a line into its key and its value.
func loaderKey(line string) (key, value string) {
	line = strings.TrimSpace(line)
	if line == "" || line[0] == '#' {
		return "", ""
	}
	at := strings.IndexAny(line, " \t")
	if at < 0 {
		return line, ""
	}
	return line[:at], strings.TrimSpace(line[at:])
}

// editOptions changes one argument in the options of an entry's text and leaves everything else as it is.
func editOptions(text, argument string, to setting.Reading) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	var options []int
	place := -1 // the line that holds the argument, else the last one
	for i, line := range lines {
		if key, value := loaderKey(line); key == "options" {
			options = append(options, i)
			if place < 0 && setting.ParseCommandLine(value).Get(argument).State == setting.Known {
				place = i
			}
		}
	}
	if len(options) == 0 {
		words, err := setting.CommandLine{}.With(argument, to)
		if err != nil || len(words) == 0 {
			return text, err
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + "options " + words.String() + "\n", nil
	}
	if place < 0 {
		place = options[len(options)-1]
	}
	for _, i := range options {
		_, value := loaderKey(lines[i])
		before := setting.ParseCommandLine(value)
		after, err := before.Without(argument), error(nil)
		if i == place {
			after, err = before.With(argument, to)
		}
		switch {
		case err != nil:
			return text, err
		case after.String() == before.String():
			continue
		}
		head, end := lines[i][:strings.Index(lines[i], "options")+len("options")], ""
		rest := lines[i][len(head):]
		blank := rest[:len(rest)-len(strings.TrimLeft(rest, " \t"))]
		if strings.HasSuffix(lines[i], "\n") {
			end = "\n"
		}
		if strings.HasSuffix(lines[i], "\r\n") {
			end = "\r\n"
		}
		if blank == "" || strings.Trim(blank, " \t") != "" {
			blank = " "
		}
		lines[i] = head + blank + after.String() + end
	}
	return strings.Join(lines, ""), nil
}

// readEntries reads the files of loader/entries. Variables of GRUB are filled in.
func readEntries(m *tree.Tree, l *loader, names []string, variables ...map[string]string) map[string]loaderEntry {
	parsed := map[string]loaderEntry{}
	for _, name := range names {
		text, err := m.Read(name)
		if err != nil {
			l.why = err.Error()
			continue
		}
		l.files = append(l.files, "/"+name)
		e := parseLoaderEntry(text)
		if e.linux == "" {
			continue
		}
		id := strings.TrimSuffix(path.Base(name), ".conf")
		if l.kind == systemdBoot {
			id = path.Base(name)
		}
		version := e.version
		if version == "" {
			version = kernelVersion(e.linux)
		}
		parsed[id] = e
		l.entries = append(l.entries, bootEntry{file: name, BootEntry: facts.BootEntry{
			ID: id, Title: e.title, Version: version, Linux: e.linux,
			Arguments: strings.TrimSpace(expand(e.options, variables...)), Recovery: rescue(e.title, id),
		}})
	}
	return parsed
}

// readGrubBLS reads loader/entries as GRUB with blscfg does: sorted by file name, newest version first, the default
// being saved_entry (an ID, a title or a number) or the first.
func readGrubBLS(m *tree.Tree, config, text, _ string, names []string) *loader {
	l := &loader{kind: grubBLS, config: config, files: []string{"/" + config}, next: -1}
	menu := parseGrub(text)
	l.fallback = menu.fallback
	environment := environment(m, l)
	readEntries(m, l, names, environment, menu.variables)
	l.entries = sortedBy(l.entries, func(a, b bootEntry) int { return facts.CompareVersions(b.ID, a.ID) })
	if len(l.entries) == 0 {
		l.why = "no kernel in loader/entries"
		return l
	}
	wanted := expand(menu.fallback, environment, menu.variables)
	if once := environment["next_entry"]; once != "" {
		wanted = once
	}
	l.next = 0
	if n, err := strconv.Atoi(wanted); err == nil && n >= 0 && n < len(l.entries) {
		l.next = n
	}
	for i, e := range l.entries {
		if wanted != "" && (e.ID == wanted || e.Title == wanted) {
			l.next = i
		}
	}
	return l
}

// readSystemdBoot reads loader/entries as systemd-boot does (systemd-boot(7), loader.conf(5)).
func readSystemdBoot(m *tree.Tree, dir string, names []string) *loader {
	l := &loader{kind: systemdBoot, config: dir, next: -1}
	parsed := readEntries(m, l, names)
	l.entries = sortedBy(l.entries, func(a, b bootEntry) int {
		x, y := parsed[a.ID], parsed[b.ID]
		if (x.sortKey != "") != (y.sortKey != "") {
			return cmp.Compare(len(y.sortKey), len(x.sortKey)) // those with a sort key first
		}
		if x.sortKey != "" {
			if c := cmp.Or(strings.Compare(x.sortKey, y.sortKey), strings.Compare(x.machine, y.machine),
				facts.CompareVersions(y.version, x.version)); c != 0 {
				return c
			}
		}
		return facts.CompareVersions(b.ID, a.ID)
	})
	var unified []string
	for _, name := range m.List(dir + "/EFI/Linux") {
		if strings.HasSuffix(strings.ToLower(name), ".efi") {
			unified = append(unified, name)
		}
	}
	settings, _ := m.Read(dir + "/loader/loader.conf")
	wanted := loaderVariable(m, "LoaderEntryOneShot")
	if wanted == "" {
		wanted = loaderVariable(m, "LoaderEntryDefault")
	}
	if wanted == "" {
		for line := range strings.Lines(settings) {
			if key, value := loaderKey(line); key == "default" { // the last one counts
				wanted = value
			}
		}
	}
	switch {
	case strings.HasPrefix(wanted, "@"):
		l.why = "the default is " + wanted + ", which systemd-boot works out when it starts"
		return l
	case wanted != "":
		for i, e := range l.entries {
			if matchEntry(wanted, e.ID) {
				l.next = i
				return l
			}
		}
		for _, name := range unified {
			if matchEntry(wanted, name) {
				l.why = "the default is " + name + ", a unified kernel image: its command line is part of it"
				return l
			}
		}
	}
	switch {
	case len(unified) > 0:
		l.why = "there are unified kernel images beside the entries and no default among the entries"
	case len(l.entries) > 0:
		l.next = 0
	default:
		l.why = "no kernel in loader/entries"
	}
	return l
}

// matchEntry matches a pattern with an entry's ID. Counted boot attempts ("+2-1") are no part of it.
func matchEntry(pattern, id string) bool {
	pattern, id = strings.ToLower(pattern), strings.ToLower(id)
	if base, suffix, counted := strings.Cut(strings.TrimSuffix(id, ".conf"), "+"); counted &&
		strings.Trim(suffix, "0123456789-") == "" {
		id = base + ".conf"
	}
	if pattern+".conf" == id {
		return true
	}
	matched, err := path.Match(pattern, id)
	return err == nil && matched
}
