// Package tuned resolves TuneD's active profile: the chain of included profiles, their variables, and the value of each
// option. It is pure: the caller provides the files. Values that only TuneD's code can compute (scripts, functions that
// inspect the machine) are reported as unknown, never guessed.
package tuned

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Files returns the text of a file below the root, and whether it exists.
type Files func(name string) (text string, there bool)

// Machine holds what the variables of a profile may depend on.
type Machine struct {
	Online, Present setting.CPUSet
	Package         map[int]int // of each online CPU
	Uname           string      // release, version and architecture, as uname prints them
	CPUInfo         string      // /proc/cpuinfo
}

// Folders are the directories of profiles, in search order. TuneD up to 2.23 keeps profiles directly below tuned, later
// versions in its subdirectory profiles (tuned/consts.py).
var Folders = []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"}

// maxProfiles bounds the length of a chain of profiles.
const maxProfiles = 64

// unit is a section of a profile.
type unit struct {
	name, plugin, devices string
	enabled, replace      bool
	drop                  []string
	cpuinfo, uname        string // regular expressions that the machine must match
	options               []option
}

type option struct{ key, value, file string }

// loader reads a chain of profiles.
type loader struct {
	files   Files
	folders []string
	units   []unit
	facts   *facts.Tuned
	seen    map[string]bool // files that were read
}

// Read resolves the active profile. It returns nil if none is selected and TuneD does not run.
func Read(files Files, m Machine, running bool) *facts.Tuned {
	text, _ := files("etc/tuned/active_profile")
	profile := strings.Join(strings.Fields(text), " ")
	if profile == "" && !running {
		return nil
	}
	t := Resolve(files, m, profile)
	t.Running = running
	if text, there := files("etc/tuned/bootcmdline"); there {
		t.BootArguments = shellValue(text, "TUNED_BOOT_CMDLINE")
	}
	return t
}

// Resolve reads profiles, whose names are separated by spaces, and all profiles that they include.
func Resolve(files Files, m Machine, profile string) *facts.Tuned {
	t := &facts.Tuned{Profile: profile, Sysctls: []facts.OwnedValue{}, Plugins: []string{}, Reapplies: true}
	l := &loader{files: files, folders: Folders, facts: t, seen: map[string]bool{}}
	if text, there := files("etc/tuned/tuned-main.conf"); there {
		for _, e := range parse("[global]\n" + text) {
			switch e.key {
			case "reapply_sysctl":
				t.Reapplies = slices.Contains([]string{"1", "true", "yes", "on", "y", "t"}, strings.ToLower(e.value))
			case "profile_dirs":
				l.folders = profileDirs(e.value)
			}
		}
	}
	for _, name := range strings.Fields(profile) {
		l.load(name)
	}
	l.evaluate(m)
	return t
}

// profileDirs returns the directories of tuned-main.conf in search order: the last one has precedence.
func profileDirs(text string) []string {
	var all []string
	for _, folder := range splitList(text) {
		if folder = strings.Trim(folder, "/"); folder != "" {
			all = append(all, folder)
		}
	}
	slices.Reverse(all)
	return all
}

// splitList splits a list of TuneD at commas and semicolons.
func splitList(text string) []string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' })
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}

// load loads what a profile includes, then merges the profile into it (tuned/profiles/loader.py and merger.py).
func (l *loader) load(name string) {
	name, optional := strings.CutPrefix(name, "-")
	if name == "" || len(l.seen) >= maxProfiles {
		return
	}
	file, text, seen := l.find(path.Base(name))
	if file == "" {
		if !optional && !seen {
			l.facts.Missing = append(l.facts.Missing, name)
		}
		return
	}
	l.seen[file] = true
	entries := parse(text)
	for _, e := range entries {
		if e.section == "main" && e.key == "include" {
			for _, included := range splitList(e.value) {
				l.load(included)
			}
		}
	}
	l.facts.Chain = append(l.facts.Chain, "/"+file)
	for _, u := range units(file, entries) {
		l.merge(u)
	}
}

// find returns the first file of a profile that was not read yet; seen reports whether one of its files was.
func (l *loader) find(name string) (file, text string, seen bool) {
	for _, folder := range l.folders {
		file := path.Join(folder, name, "tuned.conf")
		if l.seen[file] {
			seen = true
			continue
		}
		if text, there := l.files(file); there {
			return file, text, seen
		}
	}
	return "", "", seen
}

// units returns the sections of a file. Options that belong to TuneD, not to a plugin, become fields.
func units(file string, entries []entry) []unit {
	var all []unit
	for _, e := range entries {
		if e.section == "main" {
			continue
		}
		at := slices.IndexFunc(all, func(u unit) bool { return u.name == e.section })
		if at < 0 {
			at = len(all)
			all = append(all, unit{name: e.section, plugin: e.section, enabled: true})
		}
		u := &all[at]
		value := strings.ReplaceAll(e.value, "${i:PROFILE_DIR}", "/"+path.Dir(file))
		switch e.key {
		case "":
		case "type":
			u.plugin = value
		case "devices":
			u.devices = value
		case "enabled":
			u.enabled = slices.Contains([]string{"1", "true", "True"}, value)
		case "replace":
			u.replace = slices.Contains([]string{"1", "true", "True"}, value)
		case "drop":
			u.drop = append(u.drop, splitList(value)...)
		case "cpuinfo_regex":
			u.cpuinfo = value
		case "uname_regex":
			u.uname = value
		case "priority", "devices_udev_regex", "script_pre", "script_post":
		default:
			u.set(option{e.key, value, "/" + file})
		}
	}
	return all
}

// set adds an option or replaces it in place.
func (u *unit) set(o option) {
	if at := slices.IndexFunc(u.options, func(other option) bool { return other.key == o.key }); at >= 0 {
		u.options[at] = o
		return
	}
	u.options = append(u.options, o)
}

func (l *loader) merge(u unit) {
	at := slices.IndexFunc(l.units, func(other unit) bool { return other.name == u.name })
	switch {
	case at < 0:
		l.units = append(l.units, u)
		return
	case u.replace:
		l.units[at] = u
		return
	}
	old := &l.units[at]
	old.plugin, old.enabled, old.devices = u.plugin, u.enabled, u.devices
	old.cpuinfo, old.uname = cmp.Or(u.cpuinfo, old.cpuinfo), cmp.Or(u.uname, old.uname)
	old.options = slices.DeleteFunc(old.options, func(o option) bool { return slices.Contains(u.drop, o.key) })
	for _, o := range u.options {
		old.set(o)
	}
}

// evaluate expands variables and lists the options of the sections that apply to this machine.
func (l *loader) evaluate(m Machine) {
	v := variables{machine: m, values: map[string]string{}}
	for _, u := range l.units {
		if u.name != "variables" {
			continue
		}
		for _, o := range u.options {
			if o.key != "include" {
				v.define(o.key, o.value)
				continue
			}
			name := path.Clean(o.value)
			text, there := l.files(strings.TrimPrefix(name, "/"))
			if !there {
				l.facts.Missing = append(l.facts.Missing, name)
			}
			l.facts.VariableFiles = append(l.facts.VariableFiles, name)
			for _, e := range parse("[variables]\n" + text) {
				if e.section == "variables" {
					v.define(e.key, e.value)
				}
			}
		}
	}
	l.facts.Variables = v.values
	cmdline := ""
	for _, u := range l.units {
		if u.name == "variables" || !u.enabled || !matches(u.cpuinfo, m.CPUInfo) || !matches(u.uname, m.Uname) {
			continue
		}
		if !slices.Contains(l.facts.Plugins, u.plugin) {
			l.facts.Plugins = append(l.facts.Plugins, u.plugin)
		}
		devices, _ := v.expand(u.devices)
		for _, o := range u.options {
			if u.plugin == "bootloader" && strings.HasPrefix(o.key, "cmdline") {
				cmdline = addArguments(cmdline, o.value)
			}
			value, ok := v.expand(unquote(o.value))
			if value = strings.Join(strings.Fields(value), " "); !ok {
				value = ""
			}
			if u.plugin == "sysctl" {
				l.facts.Sysctls = append(l.facts.Sysctls, facts.OwnedValue{Key: setting.SysctlPath(o.key), Value: value,
					File: o.file})
				continue
			}
			if devices == "*" {
				devices = ""
			}
			l.facts.Options = append(l.facts.Options, facts.OwnedValue{Key: u.plugin + "." + o.key, Value: value,
				File: o.file, Of: devices})
		}
	}
	if cmdline, ok := v.expand(cmdline); ok {
		l.facts.Arguments = cmdline
	}
}

// addArguments applies one option of the bootloader section to a command line: + adds arguments, - removes them
// (tuned/plugins/plugin_bootloader.py).
func addArguments(line, option string) string {
	rest := strings.TrimSpace(strings.TrimLeft(option, `\`))
	switch {
	case rest == "":
		return line
	case rest[0] == '-':
		words := setting.ParseCommandLine(line)
		for _, word := range setting.ParseCommandLine(rest[1:]) {
			words = slices.DeleteFunc(words, func(other string) bool { return other == word })
		}
		return words.String()
	case rest[0] == '+':
		rest = strings.TrimSpace(rest[1:])
	}
	return strings.TrimSpace(line + " " + rest)
}

func matches(expression, text string) bool {
	if expression == "" {
		return true
	}
	re, err := regexp.Compile("(?m)" + expression)
	return err == nil && re.MatchString(text)
}

func unquote(text string) string {
	if len(text) > 1 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		return text[1 : len(text)-1]
	}
	return text
}

// shellValue returns the last value that a shell file assigns to a variable.
func shellValue(text, name string) string {
	value := ""
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			value = unquote(strings.TrimSpace(rest))
		}
	}
	return value
}
