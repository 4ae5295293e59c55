package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/knob"
	"mpps/internal/report/words"
)

// Knob draws the page of one knob.
func Knob(t *Text, k *knob.Knob) {
	t.Wrapped(t.In(Bold, k.ID)+"  ", k.Title)
	t.Wrapped("", fmt.Sprintf("stage %s · risk %s · has an opinion for %s",
		k.Stage, k.Risk, tiersOf(k)))
	t.LineIf(k.Check, "checked and explained only: mpps does not set it")
	t.LineIf(k.Asked, "set on request only: ask for a value in /etc/mpps/site.yaml")
	name := func(name string) string { return t.In(Cyan, Padded(name, 8)) }
	if values := k.Values(); len(values) > 0 {
		t.Blank()
		t.List(name("values"), words.Each(values,
			func(v knob.Value) string { return fmt.Sprintf("%s (%s)", v.Address, v.What) }))
	}
	paragraphs := [][2]string{{"wanted", k.Doc.Want}, {"why", k.Doc.Why}, {"cost", k.Doc.Cost}, {"verify", k.Doc.Verify}}
	for _, trap := range k.Doc.Traps {
		paragraphs = append(paragraphs, [2]string{"trap", trap})
	}
	for _, p := range append(paragraphs, [2]string{"after", strings.Join(k.After, ", ")}) {
		if p[1] != "" {
			t.Blank()
			t.Wrapped(name(p[0]), p[1])
		}
	}
	if len(k.Doc.Sources) > 0 {
		t.Blank()
		t.Line("sources")
		for _, s := range k.Doc.Sources {
			t.Wrapped("  ", s.Fact+": "+s.Where)
		}
	}
}

// Knobs draws the catalogue, one line a knob, by stage in path order.
func Knobs(t *Text, all []*knob.Knob) {
	for _, stage := range Runs(all, func(a, b *knob.Knob) bool { return a.Stage == b.Stage }) {
		t.Heading(stage[0].Stage.String())
		longest := 0
		for _, k := range stage {
			longest = max(longest, len(k.ID))
		}
		for _, k := range stage {
			t.Wrapped("  "+Padded(k.ID, longest)+"  ", k.Title)
		}
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
	t.Line("%s:", words.Count(len(differences), "difference"))
	for _, d := range differences {
		t.Wrapped("  ", d.Path)
		t.Diff("    ", d.Before, d.After)
	}
}

// KnobMarkdown is the documentation page of one knob: what Knob draws, as Markdown.
func KnobMarkdown(k *knob.Knob) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n| stage | risk | has an opinion for | mpps |\n|---|---|---|---|\n",
		k.ID, markdown(k.Title))
	fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", k.Stage, k.Risk, tiersOf(k), does(k))
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", title, strings.Join(lines, "\n"))
		}
	}
	section("Values", words.Each(k.Values(),
		func(v knob.Value) string { return fmt.Sprintf("- `%s` (%s)", v.Address, v.What) }))
	for _, part := range [][2]string{{"What it should be", k.Doc.Want}, {"Why", k.Doc.Why}, {"What it costs", k.Doc.Cost},
		{"How to see that it worked", k.Doc.Verify}} {
		section(part[0], words.Either(part[1] != "", []string{markdown(part[1])}, nil))
	}
	section("Traps", words.Each(k.Doc.Traps, func(trap string) string { return "- " + markdown(trap) }))
	section("Comes after", words.Each(k.After, func(id string) string { return fmt.Sprintf("- [%s](%s.md)", id, id) }))
	section("Sources", words.Each(k.Doc.Sources, func(s knob.Source) string {
		return "- " + markdown(s.Fact) + ": " + markdown(s.Where)
	}))
	return b.String() + "\n[All knobs](README.md)\n"
}

// KnobsMarkdown is the index of all pages, by stage in path order.
func KnobsMarkdown(all []*knob.Knob) string {
	var b strings.Builder
	checks := slices.DeleteFunc(slices.Clone(all), func(k *knob.Knob) bool { return !k.Check })
	fmt.Fprintf(&b, "# The catalogue\n\n%d knobs, %d of them checks that mpps explains and does not set, in the order in "+
		"which a packet meets them. These pages are made from the definitions in internal/knob; `mpps explain ID` shows "+
		"the same.\n", len(all), len(checks))
	for _, stage := range Runs(all, func(a, b *knob.Knob) bool { return a.Stage == b.Stage }) {
		fmt.Fprintf(&b, "\n## %s\n\n| knob | what | risk | mpps |\n|---|---|---|---|\n", stage[0].Stage)
		for _, k := range stage {
			title := strings.ReplaceAll(markdown(k.Title), "|", "\\|")
			fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", k.ID, k.ID, title, k.Risk, does(k))
		}
	}
	return b.String()
}

func does(k *knob.Knob) string {
	return words.Either(k.Check, "checks and explains", words.Either(k.Asked, "sets on request", "sets"))
}

// tiersOf are the tiers for which a knob has an opinion.
func tiersOf(k *knob.Knob) string {
	return words.Join(", ", words.Each(goal.Tiers(),
		func(t goal.Tier) string { return words.Either(k.Speaks(t), string(t), "") })...)
}

// markdown is a text in which nothing is taken for Markdown.
func markdown(text string) string {
	return strings.NewReplacer("\\", "\\\\", "<", "\\<", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "]",
		"\\]").Replace(text)
}
