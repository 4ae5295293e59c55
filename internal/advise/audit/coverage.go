package audit

import (
	"cmp"
	"strings"

	"mpps/internal/model/facts"
)

// Coverage is how much of a host an audit could judge.
type Coverage struct {
	Judged  int `json:"judged"`  // values
	Unknown int `json:"unknown"` // values that could not be judged
	// Unseen are the guests that could not be seen or verified, as a whole or in part: the audit says nothing of them.
	Unseen []facts.Unseen `json:"unseen"`
}

// Blind reports whether guests, or libvirt's list of them, could not be seen: without findings nothing is proven.
func (c Coverage) Blind() bool { return len(c.Unseen) > 0 }

// coverage returns how much of a host a report is about.
func coverage(h *facts.Host, r Report) Coverage {
	c := Coverage{Judged: r.Counts[OK] + r.Counts[Off], Unknown: r.Counts[Unknown], Unseen: []facts.Unseen{}}
	for _, u := range h.Unseen {
		if u.IsGuests() {
			c.Unseen = append(c.Unseen, u)
		}
	}
	for _, u := range h.Unverified {
		c.Unseen = append(c.Unseen, u.Unseen())
	}
	if unseen, is := unseenByRole(h, r.Role); is && !c.Blind() {
		c.Unseen = append(c.Unseen, unseen)
	}
	return c
}

// unseenByRole returns what could not be seen on a machine of which nothing, or no guest, could be judged.
func unseenByRole(h *facts.Host, r facts.Role) (facts.Unseen, bool) {
	u := facts.Unseen{What: "guests of this host", Part: facts.UnseenGuests}
	switch taps := h.StrangeTaps(); {
	case r.Declined():
		u.Why = r.Why()
	case r != facts.RoleUnseen:
		return u, false
	default:
		u.Why = "needs root"
		if len(taps) > 0 {
			u.Why = "no process that was found has tap " + strings.Join(taps[:min(len(taps), 8)], ", ")
		}
	}
	u.Why = cmp.Or(u.Why, r.Why())
	return u, true
}
