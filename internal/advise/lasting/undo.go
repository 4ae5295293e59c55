package lasting

import (
	"encoding/json"
	"path"
	"slices"
	"strings"

	"mpps/internal/model/setting"
)

// Several transactions write entries to the same files, and any of them may be rolled back while the others stay. What
// a transaction did to such a file is therefore the difference between its text before and after, entry by entry.

// part is one entry of a file.
type part struct{ key, line string }

// parts returns the entries of a file; nil if it cannot be parsed.
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

// lineOf returns the line of a key, "" if there is none. Of several the last counts.
func lineOf(all []part, key string) (line string) {
	for _, p := range all {
		if p.key == key {
			line = p.line
		}
	}
	return line
}

// Shared reports whether an address is a file to which several transactions write entries.
func Shared(a setting.Address) bool {
	return a.Kind == setting.File && (a.Path == SysctlFile || a.Path == ModuleFile || a.Path == DesiredFile) ||
		isPool(a)
}

// addedParts returns the entries that a transaction added to a file or changed.
func addedParts(a setting.Address, before, after setting.Reading) []part {
	if !Shared(a) || after.State != setting.Known {
		return nil
	}
	had := parts(a.Path, before.Value)
	return slices.DeleteFunc(parts(a.Path, after.Value), func(p part) bool { return lineOf(had, p.key) == p.line })
}

// removedParts returns the entries that a transaction removed from the list of desired values.
func removedParts(a setting.Address, before, after setting.Reading) []part {
	if a != desiredAddress || before.State != setting.Known {
		return nil
	}
	var has []part
	if after.State == setting.Known {
		has = parts(a.Path, after.Value)
	}
	return slices.DeleteFunc(parts(a.Path, before.Value), func(p part) bool { return lineOf(has, p.key) != "" })
}

// Holds reports whether a file still has every entry that a transaction added, and none that it removed.
func Holds(a setting.Address, before, after, found setting.Reading) bool {
	if isPool(a) {
		return poolHolds(a, before, after, found)
	}
	mine, out := addedParts(a, before, after), removedParts(a, before, after)
	if len(mine)+len(out) == 0 || found.State != setting.Known {
		return false
	}
	has := parts(a.Path, found.Value)
	return !slices.ContainsFunc(mine, func(p part) bool { return lineOf(has, p.key) != p.line }) &&
		!slices.ContainsFunc(out, func(p part) bool { return lineOf(has, p.key) != "" })
}

// Undo returns a file without the entries of a transaction, if others have written to the file since: each entry that
// is still as the transaction left it becomes what it was before, a removed one comes back unless a new one took its
// place, and a file without entries becomes absent. done is false if this is no such file, or nothing of the
// transaction is left in it.
func Undo(a setting.Address, before, after, found setting.Reading) (to setting.Reading, done bool) {
	if isPool(a) {
		return undoPool(a, before, after, found)
	}
	if a == desiredAddress && found.State == setting.Absent {
		if back := removedParts(a, before, after); len(back) > 0 {
			return undoValues("", nil, nil, back)
		}
	}
	if found.State != setting.Known || !strings.Contains(found.Value, mark) {
		return found, false
	}
	had, has := parts(a.Path, before.Value), parts(a.Path, found.Value)
	mine := slices.DeleteFunc(addedParts(a, before, after), func(p part) bool { return lineOf(has, p.key) != p.line })
	if a == desiredAddress {
		back := slices.DeleteFunc(removedParts(a, before, after), func(p part) bool { return lineOf(has, p.key) != "" })
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
		if key != "" && lineOf(mine, key) != "" {
			if line = lineOf(had, key); line == "" {
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

// undoValues removes or restores entries (mine) of a list of values and brings others back.
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
		if lineOf(mine, key) != "" {
			line := lineOf(had, key)
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
	slices.SortStableFunc(left, func(x, y Value) int { return restoreRank(x.Address) - restoreRank(y.Address) })
	again, err := render(left)
	return setting.Value(again), err == nil
}

// Needed reports whether a directory, a unit or a unit's file must stay while a transaction stands that wrote other
// values.
func Needed(a setting.Address, wrote []setting.Address) bool {
	switch a {
	case unitAddress, unitFile, unitFolder, wantsFolder:
		return slices.Contains(wrote, desiredAddress) || slices.ContainsFunc(wrote, isReservation)
	case vfsAddress, vfsFile:
		return slices.Contains(wrote, desiredAddress) && slices.ContainsFunc(wrote, OfVFs)
	}
	return a.Kind == setting.Directory && slices.ContainsFunc(wrote, func(by setting.Address) bool {
		return by.Kind == setting.File && path.Dir(by.Path) == a.Path
	})
}
