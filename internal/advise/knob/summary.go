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
	Limit                // the machines that it is about
}

// Listing is the result of explain --list.
type Listing struct {
	Knobs []Summary `json:"knobs"`
}

// Page is everything known about a knob.
type Page struct {
	Summary
	Values []Value  `json:"values"` // that it is about; NIC, GUEST and N stand for any
	After  []string `json:"after"`
	Doc    Doc      `json:"doc"`
}

// List returns a line for each knob of the catalogue.
func List() Listing {
	var all Listing
	for _, k := range Catalogue() {
		all.Knobs = append(all.Knobs, summarize(k))
	}
	return all
}

// Page returns everything known about the knob.
func (k *Knob) Page() Page {
	return Page{summarize(k), append([]Value{}, k.Values()...), append([]string{}, k.After...), k.Doc()}
}

func summarize(k *Knob) Summary {
	s := Summary{ID: k.ID, Title: k.Title, Stage: k.Stage, Risk: k.Risk, Goals: []goal.Tier{}, Check: k.Check,
		Limit: k.Limit}
	for _, t := range goal.Tiers() {
		if k.AppliesTo(t) {
			s.Goals = append(s.Goals, t)
		}
	}
	return s
}
