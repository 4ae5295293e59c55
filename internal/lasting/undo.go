package lasting

import (
	"encoding/json"
	"slices"
	"strings"

	"mpps/internal/setting"
)

// Several transactions write the same files, each its own entries, and any of them may be rolled back while the others stand.
// So what a transaction did to such a file is what differs between its text before and its text after, entry by entry.

// part is one entry of a file.
type part struct{ key, line string }

// parts are the entries of a file's text; nil where it cannot be read as one.
func parts(path, text string) []part {
	var all []part
	if path == DesiredFile {
		values, err := ParseDesired(text)
		if err != nil {
			return nil
		}
		for _, v := range values {
			line, err := json.Marshal(v)
			if err != nil {
				return nil
			}
			all = append(all, part{v.Address.String(), string(line)})
		}
		return all
	}
	for line := range strings.Lines(text) {
		if key := lineKey(line); key != "" {
			all = append(all, part{key, strings.TrimSpace(line)})
		}
	}
	return all
}

func at(all []part, key string) (line string) {
	for _, p := range all { // of several lines the last one counts
		if p.key == key {
			line = p.line
		}
	}
	return line
}

// Shared tells whether an address is a file that several transactions write entries of.
func Shared(a setting.Address) bool {
	return a.Kind == setting.File && (a.Path == SysctlFile || a.Path == ModuleFile || a.Path == DesiredFile)
}

// added are the entries that a transaction gave to a file.
func added(a setting.Address, before, after setting.Reading) []part {
	if !Shared(a) || after.State != setting.Known {
		return nil
	}
	had := parts(a.Path, before.Value)
	return slices.DeleteFunc(parts(a.Path, after.Value), func(p part) bool { return at(had, p.key) == p.line })
}

// Holds tells whether a file still holds every entry that a transaction gave to it.
func Holds(a setting.Address, before, after, found setting.Reading) bool {
	mine := added(a, before, after)
	if len(mine) == 0 || found.State != setting.Known {
		return false
	}
	has := parts(a.Path, found.Value)
	return !slices.ContainsFunc(mine, func(p part) bool { return at(has, p.key) != p.line })
}

// Undo is a file as it is to be once a transaction's entries are taken out of it that others have written to since: each entry
// that still is as the transaction gave it becomes what it was before, and a file without entries goes. done is false where
// this is no such file, or nothing of the transaction is in it.
func Undo(a setting.Address, before, after, found setting.Reading) (to setting.Reading, done bool) {
	if found.State != setting.Known || !strings.Contains(found.Value, mark) {
		return found, false
	}
	had, has := parts(a.Path, before.Value), parts(a.Path, found.Value)
	mine := slices.DeleteFunc(added(a, before, after), func(p part) bool { return at(has, p.key) != p.line })
	if len(mine) == 0 {
		return found, false
	}
	if a.Path == DesiredFile {
		return undoValues(found.Value, had, mine)
	}
	var out strings.Builder
	foreign := false
	for line := range strings.Lines(found.Value) {
		key := lineKey(line)
		if key != "" && at(mine, key) != "" {
			if line = at(had, key); line == "" {
				continue
			}
			line += "\n"
		}
		foreign = foreign || key != "" || !strings.Contains(after.Value, line)
		out.WriteString(line)
	}
	if !foreign {
		return setting.Missing("no entries are left"), true
	}
	return setting.Value(out.String()), true
}

func undoValues(text string, had, mine []part) (setting.Reading, bool) {
	values, err := ParseDesired(text)
	if err != nil {
		return setting.Reading{}, false
	}
	var left []Value
	for _, v := range values {
		key := v.Address.String()
		if at(mine, key) != "" {
			line := at(had, key)
			if line == "" {
				continue
			}
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				return setting.Reading{}, false
			}
		}
		left = append(left, v)
	}
	if len(left) == 0 {
		return setting.Missing("no entries are left"), true
	}
	again, err := render(left)
	return setting.Value(again), err == nil
}

// For is the file for which a directory, a unit or a unit's file is there; none for other addresses.
func For(a setting.Address) (file setting.Address, needed bool) {
	switch a {
	case unitAddress, fileAddress, unitFolder, wantsFolder:
		return desiredAddress, true
	case sysctlFolder:
		return sysctlAddress, true
	case moduleFolder:
		return moduleAddress, true
	}
	return setting.Address{}, false
}
