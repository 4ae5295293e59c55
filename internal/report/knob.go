package report

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/knob"
)

// Knob draws the page of one knob.
func Knob(t *Text, k *knob.Knob) {
	t.Wrapped(t.In(Bold, k.ID)+"  ", k.Title)
	t.Wrapped("", fmt.Sprintf("stage %s · risk %s · has an opinion for %s", k.Stage, k.Risk, strings.Join(tiersOf(k), ", ")))
	if k.Check {
		t.Line("checked and explained only: mpps does not set it")
	}
	if k.Asked {
		t.Line("set on request only: ask for a value in /etc/mpps/site.yaml")
	}
	if all := k.Values(); len(all) > 0 {
		t.Blank()
		lead := t.In(Cyan, fmt.Sprintf("%-8s", "values"))
		for _, v := range all {
			t.Wrapped(lead, fmt.Sprintf("%s (%s)", v.Address, v.What))
			lead = strings.Repeat(" ", 8)
		}
	}
	doc := k.Doc()
	paragraph(t, "wanted", doc.Want)
	paragraph(t, "why", doc.Why)
	paragraph(t, "cost", doc.Cost)
	paragraph(t, "verify", doc.Verify)
	for _, trap := range doc.Traps {
		paragraph(t, "trap", trap)
	}
	if len(k.After) > 0 {
		paragraph(t, "after", strings.Join(k.After, ", "))
	}
	if len(doc.Sources) > 0 {
		t.Blank()
		t.Line("sources")
		for _, s := range doc.Sources {
			t.Wrapped("  ", s.Fact+": "+s.Where)
		}
	}
}

func tiersOf(k *knob.Knob) []string {
	var tiers []string
	for _, tier := range goal.Tiers() {
		if k.Speaks(tier) {
			tiers = append(tiers, string(tier))
		}
	}
	return tiers
}

func paragraph(t *Text, name, text string) {
	if text == "" {
		return
	}
	t.Blank()
	t.Wrapped(t.In(Cyan, fmt.Sprintf("%-8s", name)), text)
}

// Knobs draws the catalogue, one line a knob, by stage in path order.
func Knobs(t *Text, all []*knob.Knob) {
	var stage datapath.Stage
	longest := map[datapath.Stage]int{}
	for _, k := range all {
		longest[k.Stage] = max(longest[k.Stage], len(k.ID))
	}
	for _, k := range all {
		if k.Stage != stage {
			stage = k.Stage
			t.Heading(stage.String())
		}
		t.Wrapped(fmt.Sprintf("  %-*s  ", longest[stage], k.ID), k.Title)
	}
}

// Hits draws what a search in the catalogue found.
func Hits(t *Text, text string, hits []knob.Hit) {
	if len(hits) == 0 {
		t.Wrapped("", fmt.Sprintf("no knob speaks of %q ('mpps explain --list' shows all of them)", text))
		return
	}
	for _, h := range hits {
		t.Wrapped(t.In(Bold, h.ID)+"  ", h.Title)
		if h.Field != "id" && h.Field != "title" {
			t.Wrapped("    "+t.In(Cyan, h.Field+": "), h.Text)
		}
	}
	t.Line("'mpps explain ID' says all that is known of one")
}

// SnapshotDiff draws what differs in the configuration of two snapshots.
func SnapshotDiff(t *Text, compared int, differences []facts.Difference) {
	if len(differences) == 0 {
		t.Line("identical: %d settings and the whole inventory", compared)
		return
	}
	t.Line("%s:", count(len(differences), "difference"))
	for _, d := range differences {
		t.Wrapped("  ", d.Path)
		t.Value(Red, "    - ", d.Before)
		t.Value(Green, "    + ", d.After)
	}
}
