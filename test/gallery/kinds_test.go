package gallery

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/knob"
	"mpps/internal/golden"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
	"mpps/internal/must"
)

// TestKinds writes the table of kinds of path in docs/hosts.md, and holds what they declare to what there is.
func TestKinds(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| path | what it is | | its knobs | its bottlenecks |\n|---|---|---|---|---|\n")
	fields := jsonFields(reflect.TypeFor[facts.Host]())
	seen := map[string]reach.Kind{}
	for _, k := range reach.All() {
		verdict := "declined"
		if k.Judged {
			verdict = "judged"
			if k.But != "" {
				verdict += ": " + k.But
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", k.Kind, k.What, verdict, families(k.Knobs),
			quoted(k.Bottlenecks))
		for _, id := range k.Knobs {
			must.Hold(t, knob.Find(id) != nil, "%s: no knob %q in the catalogue", k.Kind, id)
		}
		for _, name := range k.Bottlenecks {
			must.Hold(t, bottleneck.About(bottleneck.Kind(name)).Kind != "", "%s: diagnose names no %q", k.Kind, name)
		}
		for _, name := range k.Needs {
			must.Hold(t, slices.Contains(fields, name), "%s: a snapshot has no %q", k.Kind, name)
		}
		for _, name := range slices.Concat(k.Interfaces, k.Devices) {
			if other := seen[name]; other != "" {
				t.Errorf("%s is a sign of %s and of %s", name, k.Kind, other)
			}
			seen[name] = k.Kind
		}
	}
	golden.Part(t, "../../docs/hosts.md", "kinds", b.String())
}

// TestAbsentKinds: a host that cannot have a kind of path has no address of the knobs that only such kinds declare.
func TestAbsentKinds(t *testing.T) {
	t.Parallel()
	h := &facts.Host{Routing: &facts.Routing{Forward: facts.No}, Bridges: []facts.Bridge{{Name: "br0"}},
		NICs: []facts.NIC{{Name: "eth0"}}, Taps: []facts.Tap{{Name: "vnet0", Master: "br0"}}}
	for _, k := range knob.Catalogue() {
		declared, present := false, false
		for _, kind := range reach.All() {
			if slices.Contains(kind.Knobs, k.ID) {
				declared, present = true, present || kind.Kind.Present(h)
			}
		}
		if declared && !present && len(k.Where(h)) > 0 {
			t.Errorf("%s: has addresses on a host without such paths", k.ID)
		}
	}
}

// families returns knobs by family: "netfilter: bridge, conntrack; overlay: mtu".
func families(ids []string) string {
	var order []string
	by := map[string][]string{}
	for _, id := range ids {
		family, name, _ := strings.Cut(id, ".")
		if by[family] == nil {
			order = append(order, family)
		}
		by[family] = append(by[family], fmt.Sprintf("[%s](knobs/%s.md)", name, id))
	}
	for i, family := range order {
		order[i] = family + ": " + strings.Join(by[family], ", ")
	}
	return cmp.Or(strings.Join(order, "; "), "–")
}

func quoted(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = "`" + name + "`"
	}
	return cmp.Or(strings.Join(all, ", "), "–")
}

// jsonFields returns the names of a struct's fields in JSON.
func jsonFields(of reflect.Type) []string {
	var all []string
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}
