package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/knob"
	"mpps/internal/golden"
	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
)

// knobPages is where the pages of the catalogue are.
const knobPages = "../../docs/knobs"

// TestKnobPages: the index and the head of each page say what the definitions say. MPPS_UPDATE=1 writes them.
func TestKnobPages(t *testing.T) {
	golden.File(t, filepath.Join(knobPages, "README.md"), knobIndex())
	for _, k := range knob.Catalogue() {
		name := filepath.Join(knobPages, k.ID+".md")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		_, prose, found := strings.Cut(string(text), "\n## What it should be\n")
		if !found {
			t.Errorf("%s: no section \"What it should be\"", name)
			continue
		}
		golden.File(t, name, knobHead(k)+"\n## What it should be\n"+prose)
	}
}

// TestKnobPagesHaveKnobs: there is no page of a knob that is gone.
func TestKnobPagesHaveKnobs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(knobPages, "*.md"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, name := range files {
		id := strings.TrimSuffix(filepath.Base(name), ".md")
		known := slices.ContainsFunc(knob.Catalogue(), func(k *knob.Knob) bool { return k.ID == id })
		if !known && id != "README" {
			t.Errorf("%s:1: there is no knob %s", name, id)
		}
	}
}

// knobHead returns what a page says above its prose.
func knobHead(k *knob.Knob) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", k.ID, k.Title)
	after := "–"
	if len(k.After) > 0 {
		links := make([]string, len(k.After))
		for i, id := range k.After {
			links[i] = fmt.Sprintf("[%s](%s.md)", id, id)
		}
		after = strings.Join(links, ", ")
	}
	var tiers []string
	for _, tier := range goal.Tiers() {
		if k.AppliesTo(tier) {
			tiers = append(tiers, string(tier))
		}
	}
	b.WriteString("| stage | risk | has an opinion for | comes after | mpps |\n|---|---|---|---|---|\n")
	fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", k.Stage, k.Risk, strings.Join(tiers, ", "), after, does(k))
	if on := k.Limit.Words(); on != "" {
		fmt.Fprintf(&b, "\nFor %s only.\n", on)
	}
	if all := k.Values(); len(all) > 0 {
		b.WriteString("\n## Values\n\n")
		for _, v := range all {
			what := v.What
			if on := v.Limit.Words(); on != "" {
				what += ", for " + on + " only"
			}
			fmt.Fprintf(&b, "- `%s` (%s)\n", v.Address, what)
		}
	}
	return b.String()
}

// knobIndex returns the index of all pages, by stage in path order.
func knobIndex() string {
	var b strings.Builder
	var stage datapath.Stage
	checks := 0
	for _, k := range knob.Catalogue() {
		if k.Check {
			checks++
		}
		if k.Stage != stage {
			stage = k.Stage
			fmt.Fprintf(&b, "\n## %s\n\n| knob | what | risk | mpps |\n|---|---|---|---|\n", stage)
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", k.ID, k.ID, k.Title, k.Risk, does(k))
	}
	head := fmt.Sprintf("# The catalogue\n\n%d knobs, %d of them checks that mpps explains and does not set, in the "+
		"order in "+
		"which a packet meets them. `mpps explain ID` shows the page of one.\n", len(knob.Catalogue()), checks)
	return head + b.String()
}

func does(k *knob.Knob) string {
	switch {
	case k.Check:
		return "checks and explains"
	case k.Asked:
		return "sets on request"
	}
	return "sets"
}
