package gallery

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestEmptyPlaces empties each kind of text and object of a snapshot, and adds nothing to each kind of list. Such a
// file is refused, or judged, planned for and shown like any other.
func TestEmptyPlaces(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"homelab", "ovs-dpdk"} {
		m := must.Get(host(t, name).Machine())(t)
		m.Readings = nil // as many places as settings
		var text bytes.Buffer
		must.Do(t, facts.Write(&text, m.Host, "test"))
		var all any
		must.Do(t, json.Unmarshal(text.Bytes(), &all))
		empty(all, "", func(way string, was any, set func(any)) {
			if seen[way] {
				return
			}
			seen[way] = true
			var others []any
			switch v := was.(type) {
			case string:
				others = []any{""}
			case []any:
				others = []any{append(slices.Clone(v), nil)}
			case map[string]any:
				others = []any{map[string]any{}}
			}
			for _, other := range others {
				set(other)
				must.Succeed(t, survives(all), "%s: %s = %v", name, way, other)
			}
			set(was)
		})
	}
	must.Hold(t, len(seen) >= 300, "found %d kinds of place", len(seen))
}

// empty calls f for what is in a file, with its way there without positions in lists and numbers in names, and a
// function that puts something else there.
func empty(v any, way string, f func(way string, was any, set func(any))) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := way + "." + strings.Trim(key, "0123456789")
			f(at, v[key], func(n any) { v[key] = n })
			empty(v[key], at, f)
		}
	case []any:
		for i := range v {
			f(way+"[]", v[i], func(n any) { v[i] = n })
			empty(v[i], way+"[]", f)
		}
	}
}
