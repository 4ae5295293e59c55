package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Difference is a configuration value that differs between two snapshots.
type Difference struct {
	Path   string `json:"path"` // nics[eth0].rings.rx, readings[sysctl:net.core.dev_weight]
	Before string `json:"before"`
	After  string `json:"after"`
}

// absent is shown for a value that one host does not have.
const absent = "(absent)"

// Diff lists the differences in the configuration of two hosts, in path order. It ignores what changes by itself: see
// configuration.
func Diff(a, b *Host) []Difference {
	before, after := configuration(a), configuration(b)
	dropLive(before, after)
	d := differ{}
	d.compare("", jsonValue(before), jsonValue(after))
	return d.found
}

// jsonValue converts a host to decoded JSON.
func jsonValue(h *Host) any {
	text, err := json.Marshal(NonNil(h))
	if err != nil {
		panic(fmt.Sprintf("a host is always JSON: %v", err)) // strings, numbers, and texts that never fail
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		panic(fmt.Sprintf("what was just written is JSON: %v", err))
	}
	return value
}

// differ collects the differences of two JSON values.
type differ struct{ found []Difference }

func (d *differ) compare(path string, a, b any) {
	if isEmpty(a) && isEmpty(b) {
		return // null, an empty list and an empty object are the same
	}
	switch a := a.(type) {
	case map[string]any:
		if b, ok := b.(map[string]any); ok {
			d.compareObjects(path, a, b)
			return
		}
	case []any:
		if b, ok := b.([]any); ok {
			d.compareLists(path, a, b)
			return
		}
	}
	before, after := format(a), format(b)
	if before != after {
		before, after = firstDifference(before, after)
		d.found = append(d.found, Difference{Path: path, Before: before, After: after})
	}
}

func (d *differ) compareObjects(path string, a, b map[string]any) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		next := path + "." + key
		switch {
		case path == "":
			next = key
		case strings.ContainsAny(key, ".:/ "):
			next = path + "[" + key + "]"
		}
		before, inA := a[key]
		after, inB := b[key]
		switch {
		case inA && inB:
			d.compare(next, before, after)
		case inA && !isEmpty(before):
			d.found = append(d.found, Difference{Path: next, Before: format(before), After: absent})
		case inB && !isEmpty(after):
			d.found = append(d.found, Difference{Path: next, Before: absent, After: format(after)})
		}
	}
}

// compareLists compares elements with the same key, or at the same index if elements have no keys or keys are not
// unique.
func (d *differ) compareLists(path string, a, b []any) {
	keysA, okA := elementKeys(a)
	keysB, okB := elementKeys(b)
	if !okA || !okB {
		keysA, keysB = indices(len(a)), indices(len(b))
	}
	at := map[string]int{}
	for i, key := range keysB {
		at[key] = i
	}
	for i, key := range keysA {
		next := path + "[" + key + "]"
		j, found := at[key]
		if !found {
			d.found = append(d.found, Difference{Path: next, Before: format(a[i]), After: absent})
			continue
		}
		delete(at, key)
		d.compare(next, a[i], b[j])
	}
	for j, key := range keysB {
		if _, left := at[key]; left {
			d.found = append(d.found, Difference{Path: path + "[" + key + "]", Before: absent, After: format(b[j])})
		}
	}
}

func indices(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// keyFields are the fields that identify an element of a list of objects, tried in this order: a VF by its PF and
// index, a guest's interface by its MAC, a thread by role, NIC and number.
var keyFields = [][]string{{"role", "nic", "index"}, {"pf", "index"}, {"name"}, {"id"}, {"mac"}, {"size_bytes"},
	{"tool"}}

// elementKeys returns the keys of a list's elements; ok is false if some have none or a key is not unique.
func elementKeys(list []any) ([]string, bool) {
	if len(list) == 0 {
		return nil, true
	}
	for _, fields := range keyFields {
		keys := make([]string, 0, len(list))
		seen := map[string]bool{}
		for _, element := range list {
			key, ok := keyOf(element, fields)
			if !ok || seen[key] {
				break
			}
			seen[key] = true
			keys = append(keys, key)
		}
		if len(keys) == len(list) {
			return keys, true
		}
	}
	return nil, false
}

func keyOf(element any, fields []string) (string, bool) {
	object, ok := element.(map[string]any)
	if !ok {
		return "", false
	}
	var parts []string
	for i, field := range fields {
		switch value := object[field].(type) {
		case string:
			if value != "" {
				parts = append(parts, value)
			}
		case json.Number:
			parts = append(parts, value.String())
		default:
			if i == 0 {
				return "", false
			}
		}
	}
	return strings.Join(parts, " "), len(parts) > 0
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// format prints a value for people.
func format(value any) string {
	switch v := value.(type) {
	case nil:
		return absent
	case string:
		return v
	case json.Number:
		return v.String()
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// firstDifference cuts two long texts down to the first line that differs.
func firstDifference(a, b string) (string, string) {
	const most = 200
	if len(a) <= most && len(b) <= most {
		return a, b
	}
	linesA, linesB := strings.Split(a, "\n"), strings.Split(b, "\n")
	i := 0
	for i < len(linesA)-1 && i < len(linesB)-1 && linesA[i] == linesB[i] {
		i++
	}
	cut := func(lines []string) string {
		line := strings.TrimSpace(lines[i])
		if len(line) > most {
			line = strings.ToValidUTF8(line[:most], "") + "…"
		}
		if len(lines) > 1 {
			line = fmt.Sprintf("line %d: %s", i+1, line)
		}
		return line
	}
	return cut(linesA), cut(linesB)
}
