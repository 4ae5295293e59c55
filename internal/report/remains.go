package report

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/apply"
)

// remains draws what is left of a plan: what is done, what waits for what, what is still to be set, and the command to go on with.
func remains(t *Text, r *apply.Remains) {
	if r == nil {
		return
	}
	t.Blank()
	goal := ""
	if r.Flags != "" {
		goal = " (" + r.Flags + ")"
	}
	t.Wrapped("", "plan of transaction "+r.Chain[0]+goal)
	if len(r.Chain) > 1 {
		t.Wrapped("  gone on with by  ", strings.Join(r.Chain[1:], ", "))
	}
	t.Line("  done     %s in effect", count(r.Done, "value"))
	for _, w := range r.Waits {
		t.Wrapped("  waits    ", fmt.Sprintf("%s for a %s", count(len(w.Addresses), "value"), w.For))
	}
	for _, l := range r.Later {
		t.Wrapped("  later    ", fmt.Sprintf("after %s: %s; %s", l.After, strings.Join(l.IDs, ", "), l.Why))
	}
	if r.Looked {
		remainder(t, "remains  ", r.Changes)
		remainder(t, "cannot   ", r.Cannot)
		if len(r.Changes) == 0 {
			t.Line("  remains  nothing that can be set now")
		}
	}
	for _, note := range r.Notes {
		t.Wrapped("  "+t.In(Yellow, "note")+"     ", note)
	}
	if r.Against != "" && len(r.Waits) == 0 {
		t.Wrapped("  "+t.In(Yellow, "but")+"      ", r.Against)
	}
	if r.Next != "" {
		t.Wrapped("  "+t.In(Bold, "next")+"     ", r.Next)
	}
}

// remainder lists values by their knobs, in the order in which they come.
func remainder(t *Text, title string, all []apply.Left) {
	var ids []string
	by := map[string][]apply.Left{}
	for _, l := range all {
		if !slices.Contains(ids, l.ID) {
			ids = append(ids, l.ID)
		}
		by[l.ID] = append(by[l.ID], l)
	}
	for _, id := range ids {
		these := by[id]
		text := these[0].Address.String()
		if !these[0].Address.Kind.Whole() {
			text += ": " + brief(these[0].From) + " → " + brief(these[0].To)
		}
		if n := len(these) - 1; n > 0 {
			text += fmt.Sprintf(", and %d more", n)
		}
		if these[0].Why != "" {
			text += "; " + these[0].Why
		}
		t.Wrapped("  "+title+t.In(Bold, id)+"  ", text)
	}
}
