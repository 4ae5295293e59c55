package tuning

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// foundChange is a change with its index in the plan that it comes from.
type foundChange struct {
	plan.Change
	place int
}

// Candidates returns the plan's changes by knob: those that take effect at once, and those that wait for a restart.
// untried returns the changes that are left out.
func (h *trialHost) Candidates(ctx context.Context) ([]tune.Candidate, error) {
	if err := h.refresh(ctx); err != nil {
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
		key = h.keyFor(key, changes)
		if !h.keptKeys[key] {
			h.changes[key] = changes
		}
		first := changes[0]
		candidate := tune.Candidate{Key: key, IDs: []string{first.ID}, Title: first.Title, Stage: first.Stage.String(),
			Risk: first.Risk, Needs: first.Needs, Planned: true}
		for _, c := range changes {
			candidate.Planned = candidate.Planned && !c.Trial
			candidate.Weight = max(candidate.Weight, float64(c.Severity)/5)
			candidate.Changes = append(candidate.Changes, recordOf(c.Change))
		}
		all = append(all, candidate)
	}
	return all, nil
}

// recordOf returns a change as results record it.
func recordOf(c plan.Change) tune.Change {
	return tune.Change{ID: c.ID, Address: c.Address.String(), From: c.Address.Brief(c.From),
		To: c.Address.Brief(c.To), Needs: c.Needs}
}

// keyFor returns the key of a candidate with these changes. The changes of a kept key stay as they were measured: if a
// later plan has other changes of the same knob, they are a separate candidate, with a number.
func (h *trialHost) keyFor(key string, changes []foundChange) string {
	same := func(a, b foundChange) bool {
		return a.Address == b.Address && a.From.Same(b.From) && a.To.Same(b.To)
	}
	for n, name := 2, key; ; n++ {
		if !h.keptKeys[name] || slices.EqualFunc(h.changes[name], changes, same) {
			return name
		}
		name = fmt.Sprintf("%s#%d", key, n)
	}
}

// untried returns the changes that are recommended but never tried, and why.
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

// subplan returns a plan of some changes.
func (h *trialHost) subplan(changes []plan.Change) *plan.Plan {
	p := *h.plan
	p.Changes = slices.Clone(changes)
	p.Restarts, p.Later, p.Consent, p.Skipped = []plan.Restart{}, []plan.Later{}, []plan.Change{}, []plan.Skipped{}
	p.Phases = []plan.Phase{}
	p.Seal()
	return &p
}

// keysOf returns the keys that a candidate combines.
func keysOf(c tune.Candidate) []string { return strings.Split(c.Key, "+") }

// changesOf returns the changes of a candidate, in the order of the plan.
func (h *trialHost) changesOf(c tune.Candidate) ([]plan.Change, error) {
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

// wholeKey is the key of everything that was kept, as one candidate.
const wholeKey = "everything that was kept"

// Whole returns everything that was kept as one candidate.
func (h *trialHost) Whole(_ context.Context, kept []tune.Candidate) (tune.Candidate, error) {
	whole := tune.Candidate{Key: wholeKey, Title: wholeKey}
	h.whole = nil
	for _, c := range kept {
		changes, err := h.changesOf(c)
		if err != nil {
			return whole, err
		}
		h.whole = append(h.whole, changes)
		whole.IDs = append(whole.IDs, c.IDs...)
	}
	return whole, nil
}

// mergeChanges merges successive changes into one per address, from its first value to its last.
func mergeChanges(parts ...[]plan.Change) []plan.Change {
	var all []plan.Change
	for _, c := range slices.Concat(parts...) {
		i := slices.IndexFunc(all, func(o plan.Change) bool { return o.Address == c.Address })
		if i < 0 {
			all = append(all, c)
			continue
		}
		c.From = all[i].From
		all[i] = c
	}
	return all
}

// planFiles returns the names of files for n plans: plan.json, plan.2.json and so on.
func planFiles(name string, n int) []string {
	names := []string{name}
	ext := filepath.Ext(name)
	for i := 2; i <= n; i++ {
		names = append(names, fmt.Sprintf("%s.%d%s", strings.TrimSuffix(name, ext), i, ext))
	}
	return names
}

// writePlans writes the plans of what was kept, one per file, and warns about their order if there are several.
func (o *Options) writePlans(plans []*plan.Plan, r *tune.Result) error {
	if o.PlanFile == "" {
		return nil
	}
	names := planFiles(o.PlanFile, len(plans))
	for i, p := range plans {
		var text bytes.Buffer
		if err := plan.Encode(&text, p); err != nil {
			return err
		}
		if err := o.Write(names[i], text.Bytes()); err != nil {
			return err
		}
	}
	if len(plans) > 1 {
		r.Warnings = append(r.Warnings, tune.Warning{
			Code: "several-plans", Text: fmt.Sprintf("what was kept is %d plans, since later ones are about what "+
				"earlier ones make: %s", len(plans), strings.Join(names, ", ")),
			Hint: "apply them in this order: 'mpps apply " + strings.Join(names, "' && 'mpps apply ") + "'",
		})
	}
	return nil
}

// effectsPath is the file, below the root, with the effects that runs have measured.
const effectsPath = "var/lib/mpps/effects.json"

// hostClass returns the class of hosts on which knobs are likely to have the same effect: CPU vendor, kernel version,
// NIC drivers, and whether the host is emulated.
func hostClass(h *facts.Host) string {
	release := strings.SplitN(h.Kernel.Release, ".", 3)
	parts := []string{h.Topology.Vendor, "linux " + strings.Join(release[:min(2, len(release))], ".")}
	var drivers []string
	for _, n := range h.NICs {
		if n.Driver != "" && n.PhysFn == "" && (n.Bus == "pci" || n.Bus == "virtio") &&
			!slices.Contains(drivers, n.Driver) {
			drivers = append(drivers, n.Driver)
		}
	}
	slices.Sort(drivers)
	parts = append(parts, strings.Join(drivers, ","))
	if h.Emulated {
		parts = append(parts, "emulated")
	}
	return strings.Join(parts, " / ")
}

// readLearned reads the effects of earlier runs on this host (own), and those merged with other hosts' files (all). A
// run uses all and adds its effects to own.
func readLearned(env *ops.Env, files []string) (own, all tune.Effects, err error) {
	own, err = readEffects(env.OpenState(effectsPath))
	if errors.Is(err, fs.ErrNotExist) {
		own, err = tune.Effects{}, nil
	}
	if err != nil {
		return own, own, outcome.Failed(err, "it is kept for speed alone: move it away")
	}
	all = own
	for _, name := range files {
		other, err := readEffects(ops.OpenFile(name))
		if err != nil {
			return own, all, outcome.Failed(fmt.Errorf("--learned %w", err),
				"a file such as another host's /"+effectsPath)
		}
		all = all.Import(other)
	}
	return own, all, nil
}

// readEffects reads and closes a file that was opened.
func readEffects(f *os.File, err error) (tune.Effects, error) {
	if err != nil {
		return tune.Effects{}, err
	}
	defer f.Close()
	e, err := tune.ReadEffects(f)
	if err != nil {
		return e, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return e, nil
}

// writeLearned adds a run's effects to the host's file.
func writeLearned(env *ops.Env, own tune.Effects, class string, r *tune.Result) error {
	var text bytes.Buffer
	if err := own.Learn(class, r).Write(&text); err != nil {
		return err
	}
	return env.WriteState(effectsPath, text.Bytes())
}
