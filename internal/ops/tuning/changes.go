package tuning

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// foundChange is a change with its place in the plan that it was found in.
type foundChange struct {
	plan.Change
	place int
}

// Candidates are the changes of the plan by knob: those that take effect at once, and those that wait for a restart.
// What is not to
// be tried in turns is told apart by untried.
func (h *trialHost) Candidates(ctx context.Context) ([]tune.Candidate, error) {
	if err := h.look(ctx); err != nil {
		return nil, err
	}
	var keys []string
	found := map[string][]foundChange{}
	for place, c := range h.plan.Changes {
		if c.Risk == goal.Connectivity || c.Want.Met(h.host.Facts.Readings.At(c.Address)) {
			continue
		}
		key := c.ID
		if !c.Needs.IsZero() {
			key += " after " + c.Needs.String()
		}
		if found[key] == nil {
			keys = append(keys, key)
		}
		found[key] = append(found[key], foundChange{c, place})
	}
	var all []tune.Candidate
	for _, key := range keys {
		changes := found[key]
		key = h.named(key, changes)
		if !h.proven[key] {
			h.changes[key] = changes
		}
		first := changes[0]
		candidate := tune.Candidate{Key: key, IDs: []string{first.ID}, Title: first.Title, Stage: first.Stage.String(),
			Risk: first.Risk, Needs: first.Needs}
		for _, c := range changes {
			candidate.Weight = max(candidate.Weight, float64(c.Severity)/5)
			candidate.Changes = append(candidate.Changes,
				tune.Change{ID: c.ID, Address: c.Address.String(), From: c.Address.Brief(c.From),
					To: c.Address.Brief(c.To), Needs: c.Needs})
		}
		all = append(all, candidate)
	}
	return all, nil
}

// named is the key of changes. What was kept under a key stays what was measured, whatever a later look finds: more
// work on the same
// knob is a candidate of its own.
func (h *trialHost) named(key string, changes []foundChange) string {
	same := func(a, b foundChange) bool {
		return a.Address == b.Address && a.From.Same(b.From) && a.To.Same(b.To)
	}
	for n, name := 2, key; ; n++ {
		if !h.proven[name] || slices.EqualFunc(h.changes[name], changes, same) {
			return name
		}
		name = fmt.Sprintf("%s#%d", key, n)
	}
}

// untried are changes that are wanted and not tried, whatever time there is.
func (h *trialHost) untried() []tune.Untried {
	all := []tune.Untried{}
	add := func(c plan.Change, why string) {
		if !slices.ContainsFunc(all, func(u tune.Untried) bool { return u.Key == c.ID }) {
			all = append(all, tune.Untried{Key: c.ID, Title: c.Title, Risk: c.Risk, Why: why})
		}
	}
	if h.plan == nil {
		return all
	}
	for _, c := range h.plan.Consent {
		add(c, "needs --consent "+string(c.Risk))
	}
	for _, c := range h.plan.Changes {
		if c.Risk == goal.Connectivity {
			add(c, "it can cut the way that you came by, and would be changed many times: try it with 'mpps apply "+
				"--confirm'")
		}
	}
	return all
}

// part is a plan of the changes of a candidate.
func (h *trialHost) part(changes []plan.Change) *plan.Plan {
	p := *h.plan
	p.Changes = slices.Clone(changes)
	p.Restarts, p.Later, p.Consent, p.Skipped = []plan.Restart{}, []plan.Later{}, []plan.Change{}, []plan.Skipped{}
	p.Phases = []plan.Phase{}
	p.Seal()
	return &p
}

// keysOf are the keys of the knobs that a candidate is made of.
func keysOf(c tune.Candidate) []string { return strings.Split(c.Key, "+") }

// of are the changes of a candidate, in the order in which they are to be made.
func (h *trialHost) of(c tune.Candidate) ([]plan.Change, error) {
	var all []foundChange
	for _, key := range keysOf(c) {
		changes, known := h.changes[key]
		if !known {
			return nil, fmt.Errorf("no changes are known of candidate %q", key)
		}
		all = append(all, changes...)
	}
	slices.SortStableFunc(all, func(a, b foundChange) int { return a.place - b.place })
	changes := make([]plan.Change, len(all))
	for i, c := range all {
		changes[i] = c.Change
	}
	return changes, nil
}

// wholeKey names everything that was kept, as a candidate.
const wholeKey = "everything that was kept"

// Whole is what was kept as one candidate.
func (h *trialHost) Whole(_ context.Context, kept []tune.Candidate) (tune.Candidate, error) {
	whole := tune.Candidate{Key: wholeKey, Title: wholeKey}
	h.whole = nil
	for _, c := range kept {
		changes, err := h.of(c)
		if err != nil {
			return whole, err
		}
		h.whole = append(h.whole, changes)
		whole.IDs = append(whole.IDs, c.IDs...)
	}
	return whole, nil
}

// merged are changes that are made one behind the other as changes of one plan: from the values of the beginning to the
// last ones.
func merged(parts ...[]plan.Change) []plan.Change {
	var all []plan.Change
	at := map[setting.Address]int{}
	for _, c := range slices.Concat(parts...) {
		if i, known := at[c.Address]; known {
			c.From = all[i].From
			all[i] = c
			continue
		}
		at[c.Address] = len(all)
		all = append(all, c)
	}
	return all
}
