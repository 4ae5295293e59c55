package report

import (
	"fmt"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/lookup"
	"mpps/internal/model/goal"
	"mpps/internal/words"
)

// Knob draws the page of one knob.
func Knob(t *Text, k *knob.Knob) {
	brief := briefOf(t, k)
	t.Wrap(t.In(Bold, k.ID)+"  ", brief.Title)
	t.Wrap("", fmt.Sprintf("stage %s · risk %s · has an opinion for %s", k.Stage, k.Risk, tiersOf(k)))
	t.LineIf(only(k.Limit) != "", "%s", only(k.Limit))
	t.LineIf(k.Check, "checked and explained only: mpps does not set it")
	t.LineIf(k.Asked, "set on request only: ask for a value in /etc/mpps/site.yaml")
	name := func(name string) string { return t.In(Cyan, Pad(name, 8)) }
	if values := k.Values(); len(values) > 0 {
		t.Blank()
		t.List(name("values"), words.Each(values, func(v knob.Value) string {
			return fmt.Sprintf("%s (%s)", v.Address, words.Join(", ", v.What, only(v.Limit)))
		}))
	}
	doc := k.Doc()
	paragraphs := [][2]string{{"wanted", brief.Want}, {"why", brief.Why}, {"cost", doc.Cost}, {"verify", doc.Verify}}
	for _, trap := range doc.Traps {
		paragraphs = append(paragraphs, [2]string{"trap", trap})
	}
	for _, p := range append(paragraphs, [2]string{"after", strings.Join(k.After, ", ")}) {
		if p[1] != "" {
			t.Blank()
			t.Wrap(name(p[0]), p[1])
		}
	}
	if len(doc.Sources) > 0 {
		t.Blank()
		t.Line("sources")
		for _, s := range doc.Sources {
			t.Wrap("  ", s.Fact+": "+s.Where)
		}
	}
}

// briefOf returns title, value and reason of a knob in the language of the view.
func briefOf(t *Text, k *knob.Knob) knob.Brief {
	if brief, found := k.Chinese(); found && t.Chinese {
		return brief
	}
	doc := k.Doc()
	return knob.Brief{Title: k.Title, Want: doc.Want, Why: doc.Why}
}

// only says which machines a limit allows, "" if all.
func only(l knob.Limit) string { return words.If(l.Words() != "", "for %s only", l.Words()) }

// Knobs draws the catalogue, one line a knob, by stage in path order.
func Knobs(t *Text, all []*knob.Knob) {
	for _, stage := range Runs(all, func(a, b *knob.Knob) bool { return a.Stage == b.Stage }) {
		t.Heading(stage[0].Stage.String())
		longest := 0
		for _, k := range stage {
			longest = max(longest, len(k.ID))
		}
		for _, k := range stage {
			t.Wrap("  "+Pad(k.ID, longest)+"  ", briefOf(t, k).Title)
		}
	}
}

// Hits draws what a search found, or the words that come nearest.
func Hits(t *Text, found lookup.Hits) {
	if len(found.Hits) == 0 {
		t.Wrap("", fmt.Sprintf("nothing found for %q ('mpps explain --list' shows all knobs)", found.Search))
		if len(found.Nearest) > 0 {
			t.Wrap("nearest words: ", strings.Join(found.Nearest, ", "))
		}
		return
	}
	for _, h := range found.Hits {
		if k := knob.Find(h.ID); k != nil {
			in := briefOf(t, k)
			h.Title = in.Title
			if h.Text == k.Doc().Want {
				h.Text = in.Want
			}
		} else if e := lookup.EntryOf(h.ID); e != nil && t.Chinese {
			h.Title, h.Text = e.Chinese()
		}
		t.Wrap(t.In(Bold, h.ID)+"  ", h.Title)
		t.Wrap("    "+t.In(Cyan, h.Field+": "), h.Text)
	}
	t.Line("'mpps explain ID' shows the whole entry")
}

// Advice draws advice that is no knob.
func Advice(t *Text, e lookup.Entry) {
	t.Wrap(t.In(Bold, e.ID)+"  ", e.Title)
	if title, answer := e.Chinese(); t.Chinese && answer != "" {
		t.Wrap("", title+"："+answer)
	}
	t.Line("mpps explains this advice and does not set it")
	for _, p := range [][2]string{{"also", strings.Join(e.Names, "; ")}, {"does", e.Does}, {"for", e.For},
		{"not here", e.NotHere}, {"instead", e.Instead}} {
		t.Blank()
		t.Wrap(t.In(Cyan, Pad(p[0], 10)), p[1])
	}
}

// tiersOf returns the tiers for which a knob has an opinion.
func tiersOf(k *knob.Knob) string {
	return words.Join(", ", words.Each(goal.Tiers(),
		func(t goal.Tier) string { return words.Either(k.AppliesTo(t), string(t), "") })...)
}

// Attestations draws what persons said: all that can be said, or what was said now.
func Attestations(t *Text, rows []knob.Attestation, all bool) {
	if all {
		table := [][]string{{"check", "attested", "one of, as it should be first"}}
		for _, r := range rows {
			said := words.Either(r.Value != "", fmt.Sprintf("%s (%s, %s)", r.Value, r.By, r.Age), "–")
			table = append(table, []string{r.ID, said, strings.Join(r.Values, ", ")})
		}
		t.Table(table)
		return
	}
	for _, r := range rows {
		now := words.Either(r.Value != "", fmt.Sprintf("%s (%s)", r.Value, r.By), "nothing is attested any more")
		t.Line("%s: %s%s", r.ID, now, words.If(r.Before != "" && r.Before != r.Value, ", until now %s", r.Before))
	}
}
