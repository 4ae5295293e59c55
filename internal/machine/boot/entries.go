package boot

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// loaderEntry is one file of loader/entries (UAPI.1 Boot Loader Specification, type 1): lines KEY VALUE.
type loaderEntry map[string]string

func parseLoaderEntry(text string) loaderEntry {
	e := loaderEntry{}
	var options []string
	for line := range strings.Lines(text) {
		key, value := splitKey(line)
		if key == "options" { // may be repeated
			options = append(options, value)
			continue
		}
		e[key] = value
	}
	if options != nil {
		e["options"] = strings.TrimSpace(strings.Join(options, " "))
	}
	return e
}

// splitKey splits a line into its key and its value; both are empty for a comment.
func splitKey(line string) (key, value string) {
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

// editOptions changes one argument in the options of an entry's text and nothing else.
func editOptions(text, argument string, to setting.Reading) (string, error) {
	lines := strings.SplitAfter(text, "\n")
	var options []int
	place := -1 // the line with the argument, else the last one
	for i, line := range lines {
		if key, value := splitKey(line); key == "options" {
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
		_, value := splitKey(lines[i])
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

// readEntries reads the files of loader/entries into l.entries, with GRUB's variables expanded. It returns them by ID.
func readEntries(m *tree.Tree, l *loader, names []string, variables ...map[string]string) map[string]loaderEntry {
	parsed := map[string]loaderEntry{}
	for _, name := range names {
		text, err := readMenu(m, name)
		if err != nil {
			l.why = err.Error()
			continue
		}
		l.files = append(l.files, "/"+name)
		e := parseLoaderEntry(text)
		if e["linux"] == "" {
			continue
		}
		id := strings.TrimSuffix(path.Base(name), ".conf")
		if l.kind == systemdBoot {
			id = path.Base(name)
		}
		parsed[id] = e
		l.entries = append(l.entries, bootEntry{file: name, BootEntry: facts.BootEntry{
			ID: id, Title: e["title"], Version: cmp.Or(e["version"], kernelVersion(e["linux"])), Linux: e["linux"],
			Arguments: strings.TrimSpace(expand(e["options"], variables...)), Recovery: isRescue(e["title"], id),
		}})
	}
	return parsed
}

// readGrubBLS reads loader/entries as GRUB with blscfg does: sorted by file name, newest version first. The default is
// saved_entry (an ID, a title or a number), else the first.
func readGrubBLS(m *tree.Tree, config, text string, names []string) *loader {
	l := &loader{kind: grubBLS, config: config, files: []string{"/" + config}, next: -1}
	menu := parseGrub(text)
	l.fallback = menu.fallback
	environment := readEnvironment(m, l)
	readEntries(m, l, names, environment, menu.variables)
	slices.SortStableFunc(l.entries, func(a, b bootEntry) int { return facts.CompareVersions(b.ID, a.ID) })
	if len(l.entries) == 0 {
		l.why = cmp.Or(l.why, "no kernel in loader/entries")
		return l
	}
	wanted := cmp.Or(environment["next_entry"], expand(menu.fallback, environment, menu.variables))
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
	slices.SortStableFunc(l.entries, func(a, b bootEntry) int {
		x, y := parsed[a.ID], parsed[b.ID]
		xKey, yKey := x["sort-key"], y["sort-key"]
		if (xKey != "") != (yKey != "") {
			return cmp.Compare(len(yKey), len(xKey)) // those with a sort key first
		}
		if xKey != "" {
			if c := cmp.Or(strings.Compare(xKey, yKey), strings.Compare(x["machine-id"], y["machine-id"]),
				facts.CompareVersions(y["version"], x["version"])); c != 0 {
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
	_, fallback := splitKey(defaultLine(bySettings, settings))
	wanted := cmp.Or(loaderVariable(m, "LoaderEntryOneShot"), loaderVariable(m, "LoaderEntryDefault"), fallback)
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
		l.why = cmp.Or(l.why, "no kernel in loader/entries")
	}
	return l
}

// withoutTries returns an entry's ID without .conf and the count of boot attempts ("+2-1"), which changes with each
// boot.
func withoutTries(id string) string {
	id = strings.TrimSuffix(id, ".conf")
	if base, tries, counted := strings.Cut(id, "+"); counted && strings.Trim(tries, "0123456789-") == "" {
		return base
	}
	return id
}

// matchEntry reports whether a pattern matches an entry's ID, without its count of boot attempts.
func matchEntry(pattern, id string) bool {
	pattern, id = strings.ToLower(pattern), strings.ToLower(id)
	if base := withoutTries(id); base != strings.TrimSuffix(id, ".conf") {
		id = base + ".conf"
	}
	if pattern+".conf" == id {
		return true
	}
	matched, err := path.Match(pattern, id)
	return err == nil && matched
}
