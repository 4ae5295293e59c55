package report

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/knob"
	"mpps/internal/report/words"
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
	paragraph(t, "wanted", k.Doc.Want)
	paragraph(t, "why", k.Doc.Why)
	paragraph(t, "cost", k.Doc.Cost)
	paragraph(t, "verify", k.Doc.Verify)
	for _, trap := range k.Doc.Traps {
		paragraph(t, "trap", trap)
	}
	if len(k.After) > 0 {
		paragraph(t, "after", strings.Join(k.After, ", "))
	}
	if len(k.Doc.Sources) > 0 {
		t.Blank()
		t.Line("sources")
		for _, s := range k.Doc.Sources {
			t.Wrapped("  ", s.Fact+": "+s.Where)
		}
	}
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

// SnapshotDiff draws what differs in the configuration of two snapshots.
func SnapshotDiff(t *Text, compared int, differences []facts.Difference) {
	if len(differences) == 0 {
		t.Line("identical: %d settings and the whole inventory", compared)
		return
	}
	t.Line("%s:", words.Count(len(differences), "difference"))
	for _, d := range differences {
		t.Wrapped("  ", d.Path)
		t.Diff("    ", d.Before, d.After)
	}
}
