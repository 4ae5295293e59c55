// Package tuned reads what TuneD's profile in force sets: the chain of profiles that include each other, their
// variables, and the value of each option. It is pure: the files come from whoever asks. What a profile leaves to a
// program of TuneD (a script, a function that looks at the machine in ways of its own) is told as not known, never
// guessed.
package tuned

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Files hands out the text of a file below the root, and whether it is there.
type Files func(name string) (text string, there bool)

// Machine is what variables of a profile may depend on.
type Machine struct {
	Online, Present setting.CPUSet
	Package         map[int]int // of each online CPU
	Uname           string      // release, version and architecture, as uname prints them
	CPUInfo         string      // /proc/cpuinfo
}

// Folders are where profiles are, the first that has one counts. TuneD up to 2.23 keeps them right below tuned, later
// versions in profiles below it (tuned/consts.py).
var Folders = []string{"etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"}

// maxProfiles bounds how many profiles are read for one.
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
	done    map[string]bool // profiles' files that were read
}

// Read resolves the profile in force; nil where none is chosen and TuneD does not run.
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

// Resolve reads the profiles of these names, separated by spaces, and all that they include.
func Resolve(files Files, m Machine, profile string) *facts.Tuned {
	t := &facts.Tuned{Profile: profile, Sysctls: []facts.OwnedValue{}, Plugins: []string{}, Reapplies: true}
	l := &loader{files: files, folders: Folders, facts: t, done: map[string]bool{}}
	if text, there := files("etc/tuned/tuned-main.conf"); there {
		for _, e := range parse("[global]\n" + text) {
			switch e.key {
			case "reapply_sysctl":
				t.Reapplies = slices.Contains([]string{"1", "true", "yes", "on", "y", "t"}, strings.ToLower(e.value))
			case "profile_dirs":
				l.folders = folders(e.value)
			}
		}
	}
	for _, name := range strings.Fields(profile) {
		l.load(name)
	}
	l.evaluate(m)
	return t
}

// folders are the directories of tuned-main.conf, of which the last counts most.
func folders(text string) []string {
	var all []string
	for _, folder := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ';' }) {
		if folder = strings.Trim(strings.TrimSpace(folder), "/"); folder != "" {
			all = append([]string{folder}, all...)
		}
	}
	return all
}

// load reads a profile behind those that it includes, and merges it onto them (tuned/profiles/loader.py and merger.py).
func (l *loader) load(name string) {
	name, optional := strings.CutPrefix(strings.TrimSpace(name), "-")
	if name == "" || len(l.done) >= maxProfiles {
		return
	}
	file, text, seen := l.find(path.Base(name))
	if file == "" {
		if !optional && !seen {
			l.facts.Missing = append(l.facts.Missing, name)
		}
		return
	}
	l.done[file] = true
	entries := parse(text)
	for _, e := range entries {
		if e.section == "main" && e.key == "include" {
			for _, included := range strings.FieldsFunc(e.value, func(r rune) bool { return r == ',' || r == ';' }) {
				l.load(included)
			}
		}
	}
	l.facts.Chain = append(l.facts.Chain, "/"+file)
	for _, u := range units(file, entries) {
		l.merge(u)
	}
}

// find is the profile's file: of those that were not read yet the first.
func (l *loader) find(name string) (file, text string, seen bool) {
	for _, folder := range l.folders {
		file := path.Join(folder, name, "tuned.conf")
		if l.done[file] {
			seen = true
			continue
		}
		if text, there := l.files(file); there {
			return file, text, seen
		}
	}
	return "", "", seen
}

// units makes the sections of a file; the options that are TuneD's own are taken out.
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
			for _, key := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ';' }) {
				u.drop = append(u.drop, strings.TrimSpace(key))
			}
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

// set gives an option its value; one that is there keeps its place.
func (u *unit) set(o option) {
	at := slices.IndexFunc(u.options, func(other option) bool { return other.key == o.key })
	if at < 0 {
		u.options = append(u.options, o)
		return
	}
	u.options[at] = o
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
	if u.cpuinfo != "" {
		old.cpuinfo = u.cpuinfo
	}
	if u.uname != "" {
		old.uname = u.uname
	}
	old.options = slices.DeleteFunc(old.options, func(o option) bool { return slices.Contains(u.drop, o.key) })
	for _, o := range u.options {
		old.set(o)
	}
}

// evaluate fills variables in and lists what the sections that hold on this machine say.
func (l *loader) evaluate(m Machine) {
	v := variables{machine: m, known: map[string]string{}}
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
	l.facts.Variables = v.known
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

// addArguments carries out one option of the boot loader's section: + adds, - takes away
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

// shellValue is the value of a variable that a file for the shell sets.
func shellValue(text, name string) string {
	value := ""
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(strings.TrimSpace(line), name+"="); is {
			value = unquote(strings.TrimSpace(rest))
		}
	}
	return value
}
