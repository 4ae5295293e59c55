package gallery

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"mpps/internal/model/facts"
)

// TestEmptyPlaces empties each kind of text and object of a snapshot, and adds nothing to each kind of list. Such a
// file is refused, or judged, planned for and shown like any other.
func TestEmptyPlaces(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"homelab", "ovs-dpdk"} {
		m, err := host(t, name).Machine()
		if err != nil {
			t.Fatal(err)
		}
		m.Readings = nil // as many places as settings
		var text bytes.Buffer
		if err := facts.Write(&text, m.Host, "test"); err != nil {
			t.Fatal(err)
		}
		var all any
		if err := json.Unmarshal(text.Bytes(), &all); err != nil {
			t.Fatal(err)
		}
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
				if err := survives(all); err != nil {
					t.Errorf("%s: %s = %v: %v", name, way, other, err)
				}
			}
			set(was)
		})
	}
	if len(seen) < 300 {
		t.Errorf("found %d kinds of place", len(seen))
	}
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
