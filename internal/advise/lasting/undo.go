package lasting

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Several transactions write the same files, each its own entries, and any of them may be rolled back while the others
// stand. So what a transaction did to such a file is what differs between its text before and its text after, entry by
// entry.

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

// Shared reports whether an address is a file that several transactions write entries of.
func Shared(a setting.Address) bool {
	return a.Kind == setting.File && (a.Path == SysctlFile || a.Path == ModuleFile || a.Path == DesiredFile) ||
		isPool(a)
}

// added are the entries that a transaction gave to a file.
func added(a setting.Address, before, after setting.Reading) []part {
	if !Shared(a) || after.State != setting.Known {
		return nil
	}
	had := parts(a.Path, before.Value)
	return slices.DeleteFunc(parts(a.Path, after.Value), func(p part) bool { return at(had, p.key) == p.line })
}

// removed are the entries that a transaction took out of the list of values to be put back.
func removed(a setting.Address, before, after setting.Reading) []part {
	if a != desiredAddress || before.State != setting.Known {
		return nil
	}
	var has []part
	if after.State == setting.Known {
		has = parts(a.Path, after.Value)
	}
	return slices.DeleteFunc(parts(a.Path, before.Value), func(p part) bool { return at(has, p.key) != "" })
}

// Holds reports whether a file still holds every entry that a transaction gave to it, and none that it took out.
func Holds(a setting.Address, before, after, found setting.Reading) bool {
	if isPool(a) {
		return poolHolds(a, before, after, found)
	}
	mine, out := added(a, before, after), removed(a, before, after)
	if len(mine)+len(out) == 0 || found.State != setting.Known {
		return false
	}
	has := parts(a.Path, found.Value)
	return !slices.ContainsFunc(mine, func(p part) bool { return at(has, p.key) != p.line }) &&
		!slices.ContainsFunc(out, func(p part) bool { return at(has, p.key) != "" })
}

// Undo is a file as it is to be once a transaction's entries are taken out of it that others have written to since:
// each entry that still is as the transaction gave it becomes what it was before, one that it took out comes back
// unless there is another now, and a file without entries goes. done is false where this is no such file, or nothing of
// the transaction is in it.
func Undo(a setting.Address, before, after, found setting.Reading) (to setting.Reading, done bool) {
	if isPool(a) {
		return undoPool(a, before, after, found)
	}
	if a == desiredAddress && found.State == setting.Absent {
		if back := removed(a, before, after); len(back) > 0 {
			return undoValues("", nil, nil, back)
		}
	}
	if found.State != setting.Known || !strings.Contains(found.Value, mark) {
		return found, false
	}
	had, has := parts(a.Path, before.Value), parts(a.Path, found.Value)
	mine := slices.DeleteFunc(added(a, before, after), func(p part) bool { return at(has, p.key) != p.line })
	if a == desiredAddress {
		back := slices.DeleteFunc(removed(a, before, after), func(p part) bool { return at(has, p.key) != "" })
		if len(mine)+len(back) == 0 {
			return found, false
		}
		return undoValues(found.Value, had, mine, back)
	}
	if len(mine) == 0 {
		return found, false
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

// undoValues takes entries out of a list of values, or makes them what they were, and brings others back.
func undoValues(text string, had, mine, back []part) (setting.Reading, bool) {
	var values []Value
	if text != "" {
		var err error
		if values, err = ParseDesired(text); err != nil {
			return setting.Reading{}, false
		}
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
	for _, p := range back {
		var v Value
		if err := json.Unmarshal([]byte(p.line), &v); err != nil {
			return setting.Reading{}, false
		}
		left = append(left, v)
	}
	if len(left) == 0 {
		return setting.Missing("no entries are left"), true
	}
	slices.SortStableFunc(left, func(x, y Value) int { return first(x.Address) - first(y.Address) })
	again, err := render(left)
	return setting.Value(again), err == nil
}

// Needed reports whether a directory, a unit or a unit's file has to stay as long as a transaction stands that wrote
// other values.
func Needed(a setting.Address, wrote []setting.Address) bool {
	switch a {
	case unitAddress, fileAddress, unitFolder, wantsFolder:
		return slices.Contains(wrote, desiredAddress) || slices.ContainsFunc(wrote, reservation)
	case vfsAddress, vfsFile:
		return slices.Contains(wrote, desiredAddress) && slices.ContainsFunc(wrote, OfVFs)
	}
	return a.Kind == setting.Directory && slices.ContainsFunc(wrote, func(by setting.Address) bool {
		return by.Kind == setting.File && path.Dir(by.Path) == a.Path
	})
}
