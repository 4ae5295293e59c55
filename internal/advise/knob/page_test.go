package knob

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"mpps/docs/knobs"
	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// TestPages: each knob has a page, and each page can be read.
func TestPages(t *testing.T) {
	for _, k := range Catalogue() {
		must.Try(t, must.Err(parsePage(k.ID, knobs.Page(k.ID))))
	}
}

const goodPage = `# nic.x

What it is (x_y).

| stage |
|---|
| nic |

## Values

- ` + "`nic-x:NIC`" + ` (x)

## What it should be

8, or 2 * 4

## Why

One. The ` + "`<x>`" + ` of
a NIC.

## What it costs

Nothing.

## How to see that it worked

ethtool -x

## Traps

- One
  trap.
- Another.

## Sources

- fact: a.c, f; b.c: g

[All knobs](README.md)
`

func TestParsePage(t *testing.T) {
	want := Doc{
		Want: "8, or 2 * 4", Why: "One. The <x> of a NIC.", Cost: "Nothing.", Verify: "ethtool -x",
		Traps: []string{"One trap.", "Another."}, Sources: []Source{{"fact", "a.c, f; b.c: g"}},
	}
	if got, err := parsePage("nic.x", goodPage); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v, expected %+v", err, got, want)
	}
	for _, c := range []struct{ from, to, found string }{
		{goodPage, "", `:1: found "", expected "# nic.x"`},
		{"# nic.x", "# nic.y", `:1: found "# nic.y"`},
		{"\n## What it should be\n\n8, or 2 * 4\n", "",
			`:3: found "What it is (x_y).", expected "## What it should be"`},
		{"## Why", "## Because", `:17: found "## Because", expected "## Why"`},
		{"\n## What it costs\n\nNothing.\n", "", `expected "## What it costs"`},
		{"Nothing.", "", `nothing under "## What it costs"`},
		{"a NIC.", "a NIC.\n\nMore.", `found "More.", expected "## What it costs"`},
		{"a NIC.", "- a NIC.", `:20: at the beginning of a line "-"`},
		{"a NIC.", "12. NICs", `:20: at the beginning of a line "12."`},
		{"a NIC.", " a NIC.", `:20: at the beginning of a line ""`},
		{"One. The `<x>`", "One. The <x>", ":19: \"One. The <x> of\" is not plain text"},
		{"One.", "*One*.", "is not plain text"},
		{"One.", "[One](b.md).", "is not plain text"},
		{"a NIC.", "a `NIC.", ":20: a ` without"},
		{"- One\n", "One\n", `:32: found "One"`},
		{"  trap.", "trap.", `:33: found "trap."`},
		{"- fact: a.c, f; b.c: g", "- a fact", `source "a fact"`},
		{"[All knobs]", "[All]", `expected "[All knobs](README.md)"`},
		{"README.md)\n", "README.md)\n\nMore.\n", "text after"},
	} {
		must.Say(t, must.Err(parsePage("nic.x", strings.Replace(goodPage, c.from, c.to, 1))), c.found,
			"%q for %q", c.to, c.from)
	}
}

// TestPagesSayWhatIsDone: what a page repeats of the code is as it is there.
func TestPagesSayWhatIsDone(t *testing.T) {
	for _, k := range Catalogue() {
		doc := k.Doc()
		wanted, _ := Attestable(k.ID)
		if k != firmwareSMT && len(wanted) > 0 && !strings.HasPrefix(doc.Want, wanted[0]) {
			t.Errorf("%s should be %q on its page, and %q by attestation", k.ID, doc.Want, wanted[0])
		}
	}
	for k, counters := range map[*Knob][]string{nicRingRx: facts.RingFullCounters, nicRingTx: txRingCounters} {
		if verify := k.Doc().Verify; slices.ContainsFunc(counters,
			func(c string) bool { return !strings.Contains(verify, c) }) {
			t.Errorf("%s does not name all of %q", k.ID, counters)
		}
	}
}
