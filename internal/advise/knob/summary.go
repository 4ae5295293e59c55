package knob

import (
	"mpps/internal/model/datapath"
	"mpps/internal/model/goal"
)

// Summary is one line of the catalogue.
type Summary struct {
	ID    string         `json:"id"`
	Title string         `json:"title"`
	Stage datapath.Stage `json:"stage"`
	Risk  goal.Risk      `json:"risk"`
	Goals []goal.Tier    `json:"goals"` // tiers in which it has an opinion
	Check bool           `json:"check"` // judged and explained, never written
}

// Listing is the answer of explain --list.
type Listing struct {
	Knobs []Summary `json:"knobs"`
}

// Hits is the answer of explain --search.
type Hits struct {
	Search string `json:"search"`
	Hits   []Hit  `json:"hits"`
}

// Page is everything that is known of a knob.
type Page struct {
	Summary
	Values []Value  `json:"values"` // that it speaks of, NIC, GUEST and N standing for any
	After  []string `json:"after"`
	Doc    Doc      `json:"doc"`
}

// List returns the catalogue as lines.
func List() Listing {
	var all Listing
	for _, k := range Catalogue() {
		all.Knobs = append(all.Knobs, summarize(k))
	}
	return all
}

// Page returns everything that is known of the knob.
func (k *Knob) Page() Page {
	return Page{summarize(k), append([]Value{}, k.Values()...), append([]string{}, k.After...), k.Doc()}
}

// summarize returns the line of a knob.
func summarize(k *Knob) Summary {
	s := Summary{ID: k.ID, Title: k.Title, Stage: k.Stage, Risk: k.Risk, Goals: []goal.Tier{}, Check: k.Check}
	for _, t := range goal.Tiers() {
		if k.Speaks(t) {
			s.Goals = append(s.Goals, t)
		}
	}
	return s
}
