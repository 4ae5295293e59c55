package audit

import "mpps/internal/model/facts"

// Coverage is how much of a host an audit could judge.
type Coverage struct {
	Judged  int `json:"judged"`  // values
	Unknown int `json:"unknown"` // values that could not be judged
	// Unseen are the guests and definitions that could not be seen: the audit says nothing of them.
	Unseen []facts.Unseen `json:"unseen"`
}

// Blind reports whether guests, or libvirt's list of them, could not be seen: without findings nothing is proven.
func (c Coverage) Blind() bool { return len(c.Unseen) > 0 }

// coverage returns how much of a host a report is about.
func coverage(h *facts.Host, r Report) Coverage {
	c := Coverage{Judged: r.Counts[OK] + r.Counts[Off], Unknown: r.Counts[Unknown], Unseen: []facts.Unseen{}}
	for _, u := range h.Unseen {
		if u.Part == facts.UnseenGuests || u.Part == facts.UnseenDefinition {
			c.Unseen = append(c.Unseen, u)
		}
	}
	return c
}
