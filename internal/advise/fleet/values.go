// Package fleet compares hosts that should be alike, from their snapshots. Hosts of one build are a class; a value that
// one has and most of its class have not is an outlier. It is pure.
package fleet

import (
	"crypto/sha256"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// maxValues is the most values that a host may have: one with 256 CPUs, 8 NICs of 64 queues and 200 guests has 30,000.
const maxValues = 200_000

// maxText is the most bytes of a value that are kept. A longer one is a digest with its first line.
const maxText = 200

// values are what a host has at each path. A path is the address of a reading, or the place of a fact in the inventory:
// sysctl:net.core.dev_weight, nics[uplink0].mtu.
type values map[string]string

// valuesOf returns the values of a host in terms that its siblings share (facts.Sibling). Readings that are unknown are
// left out, and so is what the inventory repeats of a reading.
func valuesOf(h *facts.Host) (values, error) {
	s := facts.Sibling(h)
	c := collector{values: values{}, read: s.Readings}
	for a, r := range s.Readings {
		switch {
		case r.State == setting.Absent:
			c.add(a.String(), absent)
		case r.State == setting.Known && a.Kind.IsText():
			c.add(a.String(), digest(r.Value))
		case r.State == setting.Known:
			c.add(a.String(), r.Value)
		}
	}
	c.arguments("kernel.command_line", s.Kernel.CommandLine)
	s.Kernel.CommandLine = ""
	if entry, known := s.Boot.NextEntry(); known {
		c.arguments("boot.next", entry.Arguments)
		c.add("boot.next.version", entry.Version)
		s.Boot.Entries = nil
	}
	s.Readings = nil
	c.walk("", reflect.ValueOf(s).Elem())
	if len(c.values) > maxValues {
		return nil, fmt.Errorf("it holds more than %d values", maxValues)
	}
	return c.values, nil
}

// absent is the text of a value that a host does not have.
const absent = "absent"

// there is the text of an element of a list that a host has.
const there = "present"

type collector struct {
	values values
	read   facts.Readings
}

// add adds a value. Where several devices have one path, such as bridges over one NIC, their values are listed.
func (c *collector) add(path, text string) {
	if len(c.values) > maxValues {
		return
	}
	if len(text) > maxText {
		text = digest(text)
	}
	before, more := c.values[path]
	switch {
	case !more:
		c.values[path] = text
	case before != text && !slices.Contains(strings.Split(before, " | "), text) && len(before) < maxText:
		parts := append(strings.Split(before, " | "), text)
		slices.Sort(parts)
		c.values[path] = strings.Join(parts, " | ")
	}
}

// digest returns a short text that stands for a long one.
func digest(text string) string {
	return fmt.Sprintf("%d lines, SHA-256 %x…", strings.Count(text, "\n")+1, sha256.Sum256([]byte(text)))[:40]
}

// arguments adds a kernel command line, argument by argument.
func (c *collector) arguments(path, line string) {
	for _, word := range setting.ParseCommandLine(line) {
		name, value, has := strings.Cut(word, "=")
		if !has {
			value = there
		}
		c.add(path+"["+setting.ArgumentName(name)+"]", value)
	}
}

// walk adds what is below a part of the inventory. Empty values are those that a host does not have.
func (c *collector) walk(path string, v reflect.Value) {
	if repeats(path, c.read) {
		return
	}
	if text, is := textOf(v); is {
		if text != "" {
			c.add(path, text)
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.walk(path, v.Elem())
		}
	case reflect.Struct:
		c.fields(path, v)
	case reflect.Slice:
		for i := range v.Len() {
			key := keyOf(v.Index(i))
			if key == "" {
				key = strconv.Itoa(i)
			}
			c.element(path+"["+key+"]", v.Index(i))
		}
	case reflect.Map:
		for _, k := range slices.SortedFunc(maps.Keys(mapOf(v)), strings.Compare) {
			c.element(path+"["+k+"]", v.MapIndex(reflect.ValueOf(k).Convert(v.Type().Key())))
		}
	}
}

// mapOf returns the keys of a map of strings.
func mapOf(v reflect.Value) map[string]bool {
	keys := make(map[string]bool, v.Len())
	for _, k := range v.MapKeys() {
		keys[k.String()] = true
	}
	return keys
}

// element adds an element of a list or map: that it is there, and what is below it.
func (c *collector) element(path string, v reflect.Value) {
	if v.Kind() == reflect.Struct {
		if repeats(path, c.read) {
			return
		}
		c.add(path, there)
	}
	c.walk(path, v)
}

func (c *collector) fields(path string, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || name == "" {
			continue
		}
		if path != "" {
			name = path + "." + name
		}
		c.walk(name, v.Field(i))
	}
}

// textOf returns a value as text, and whether it is a single value.
func textOf(v reflect.Value) (string, bool) {
	if m, is := v.Interface().(encoding.TextMarshaler); is && v.Kind() != reflect.Pointer {
		if v.IsZero() {
			return "", true
		}
		text, _ := m.MarshalText()
		return string(text), true
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Bool:
		if v.Bool() {
			return "on", true
		}
		return "off", true
	case reflect.Int, reflect.Int64, reflect.Int32:
		return strconv.FormatInt(v.Int(), 10), true
	case reflect.Uint64, reflect.Uint, reflect.Uint32:
		return strconv.FormatUint(v.Uint(), 10), true
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64), true
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String || v.Type().Elem().Kind() == reflect.Int {
			return strings.Trim(fmt.Sprint(v.Interface()), "[]"), true
		}
	}
	return "", false
}

// keyFields are the fields that tell the elements of a list from each other.
var keyFields = []string{"Name", "Key", "NIC", "Tool", "Path", "ID", "Size", "Comm"}

// keyOf returns what tells an element from the others of its list; empty: its place.
func keyOf(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	for _, name := range keyFields {
		if f := v.FieldByName(name); f.IsValid() {
			if text, is := textOf(f); is {
				return text
			}
		}
	}
	return ""
}
