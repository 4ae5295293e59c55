package report

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/goal"
	"mpps/internal/knob"
)

// KnobMarkdown is the documentation page of one knob: what `mpps explain` shows, as Markdown.
func KnobMarkdown(k *knob.Knob) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s.\n\n", k.ID, markdown(k.Title))
	fmt.Fprintf(&b, "| stage | risk | has an opinion for | mpps |\n|---|---|---|---|\n| %s | %s | %s | %s |\n", k.Stage, k.Risk, strings.Join(tiersOf(k), ", "), does(k))
	if all := k.Values(); len(all) > 0 {
		b.WriteString("\n## Values\n\n")
		for _, v := range all {
			fmt.Fprintf(&b, "- `%s` (%s)\n", v.Address, v.What)
		}
	}
	for _, part := range []struct{ title, text string }{{"What it should be", k.Doc.Want}, {"Why", k.Doc.Why}, {"What it costs", k.Doc.Cost}, {"How to see that it worked", k.Doc.Verify}} {
		if part.text != "" {
			fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.title, markdown(part.text))
		}
	}
	if len(k.Doc.Traps) > 0 {
		b.WriteString("\n## Traps\n\n")
		for _, trap := range k.Doc.Traps {
			fmt.Fprintf(&b, "- %s\n", markdown(trap))
		}
	}
	if len(k.After) > 0 {
		b.WriteString("\n## Comes after\n\n")
		for _, id := range k.After {
			fmt.Fprintf(&b, "- [%s](%s.md)\n", id, id)
		}
	}
	if len(k.Doc.Sources) > 0 {
		b.WriteString("\n## Sources\n\n")
		for _, s := range k.Doc.Sources {
			fmt.Fprintf(&b, "- %s: %s\n", markdown(s.Fact), markdown(s.Where))
		}
	}
	b.WriteString("\n[All knobs](README.md)\n")
	return b.String()
}

// KnobsMarkdown is the index of all pages, by stage in path order.
func KnobsMarkdown(all []*knob.Knob) string {
	var b strings.Builder
	checks := 0
	for _, k := range all {
		if k.Check {
			checks++
		}
	}
	fmt.Fprintf(&b, "# The catalogue\n\n%d knobs, %d of them checks that mpps explains and does not set, in the order in which a packet meets them. ", len(all), checks)
	b.WriteString("These pages are made from the definitions in internal/knob; `mpps explain ID` shows the same.\n")
	var stage datapath.Stage
	for _, k := range all {
		if k.Stage != stage {
			stage = k.Stage
			fmt.Fprintf(&b, "\n## %s\n\n| knob | what | risk | mpps |\n|---|---|---|---|\n", stage)
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s |\n", k.ID, k.ID, strings.ReplaceAll(markdown(k.Title), "|", "\\|"), k.Risk, does(k))
	}
	return b.String()
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

func tiersOf(k *knob.Knob) []string {
	var tiers []string
	for _, tier := range goal.Tiers() {
		if k.Speaks(tier) {
			tiers = append(tiers, string(tier))
		}
	}
	return tiers
}

// markdown is a text in which nothing is taken for Markdown.
func markdown(text string) string {
	return strings.NewReplacer("\\", "\\\\", "<", "\\<", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[", "]", "\\]").Replace(text)
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
