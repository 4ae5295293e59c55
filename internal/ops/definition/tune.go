package definition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/machine"
	"mpps/internal/model/datapath"
	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// ShowResult is the content of a definition.
type ShowResult struct {
	Source string         `json:"source"`          // "guest vm1", or the file
	State  string         `json:"state,omitempty"` // of a guest: running, shut off …
	Guest  domain.Guest   `json:"guest"`           // what the definition says
	Values []domain.Value `json:"values"`          // everything that can be edited, by path
	// Pending are the paths where a running guest differs from its definition: they take effect at its next start.
	Pending []string `json:"pending"`

	Host     string            `json:"-"`
	Warnings []outcome.Warning `json:"-"`
}

// Show reads a definition.
func Show(ctx context.Context, env *ops.Env, word string, stdin io.Reader) (*ShowResult, error) {
	d, err := Of(ctx, env, word, stdin)
	if err != nil {
		return nil, err
	}
	s := &ShowResult{Source: d.Name, Guest: d.Doc.Guest(), Values: d.Doc.Values(), Pending: []string{},
		Host: d.HostName()}
	if d.Guest != nil {
		s.State, s.Pending = d.Guest.State, d.Guest.Pending
	}
	for _, m := range s.Guest.Unclear {
		s.Warnings = append(s.Warnings, outcome.Warning{
			Code: "unclear", Text: m.Where + " is " + strconv.Quote(m.Found) + ", which libvirt could not read either",
		})
	}
	return s, nil
}

// TuneOptions are the arguments of 'mpps domain tune'.
type TuneOptions struct {
	Word     string // names the definition
	Stdin    io.Reader
	Asked    *Request   // wins over advice
	Goal     *goal.Goal // of the advice; nil: no advice
	Snapshot string     // of the host that the definition is for
	Apply    bool       // change the guest on this host
	Config   bool       // with Apply: only its definition
	DryRun   bool
}

// TuneResult is a changed definition.
type TuneResult struct {
	Source string `json:"source"` // "guest vm1", or the file
	// in the order in which they were made; from and to are equal where it was so already
	Changes []domain.Edit `json:"changes"`
	Written string        `json:"written,omitempty"` // the file that was written
	XML     string        `json:"xml,omitempty"`     // the definition, where it was written to no file

	Host     string            `json:"-"`
	Text     []byte            `json:"-"` // the definition
	Warnings []outcome.Warning `json:"-"`
}

// Changed reports whether any value differs from before.
func (t *TuneResult) Changed() bool { return slices.ContainsFunc(t.Changes, changed) }

// Tune changes values of a definition. With Apply it changes the guest on this host and returns the outcome of that
// transaction.
func Tune(ctx context.Context, env *ops.Env, a TuneOptions) (*TuneResult, *change.Outcome, error) {
	d, err := Of(ctx, env, a.Word, a.Stdin)
	if err != nil {
		return nil, nil, err
	}
	if err := a.fits(d); err != nil {
		return nil, nil, err
	}
	wishes, err := a.Asked.Wishes(d.Doc)
	if err != nil {
		return nil, nil, err
	}
	with := d.noAdvice()
	if a.Goal != nil || a.Snapshot != "" {
		if with, err = advise(ctx, env, d, a.Snapshot, a.Goal); err != nil {
			return nil, nil, err
		}
		wishes = with.override(d.Doc, wishes, a.Asked.NICs)
	}
	edits, err := d.Doc.Apply(wishes, a.Asked.NICs, with.on)
	var conflict *domain.ConflictError
	switch {
	case errors.As(err, &conflict): // two wishes contradict
		return nil, nil, outcome.Usage(err, conflict.Hint())
	case err != nil: // the document or the host refuses one
		return nil, nil, outcome.Failed(fmt.Errorf("%s: %w", d.Name, err), "")
	case a.Apply:
		done, err := carryOut(ctx, env, d, edits, !a.Config, a.DryRun)
		return nil, done, err
	}
	return &TuneResult{Source: d.Name, Changes: edits, Host: d.HostName(), Text: d.Doc.Bytes(), Warnings: with.notes},
		nil,
		nil
}

// fits refuses options that do not go with each other or with a definition.
func (a *TuneOptions) fits(d *Definition) error {
	switch {
	case a.Apply && d.Guest == nil:
		return outcome.Usage(fmt.Errorf("--apply: %s is not a guest of this host", d.Name),
			"-o FILE writes the tuned definition; 'virsh define FILE' takes it")
	case a.Apply && d.Guest.Rewrites():
		return outcome.Failed(fmt.Errorf("--apply: %s is of %s, which regenerates its definition at every start",
			d.Name, d.Guest.Owner), "'mpps handover --guest "+d.Guest.Name+"' says what to set there; if definitions "+
			"are yours, the site file says {guests: own}")
	case a.Config && !a.Apply:
		return outcome.Usage(errors.New("--config: expected --apply beside it"), "without --apply no guest is touched")
	case a.Apply && a.Snapshot != "":
		return outcome.Usage(errors.New("--apply and --snapshot: expected one of them"),
			"a snapshot is of another host")
	}
	return nil
}

// editID is the ID, in plans and journals, of edits to values that no knob covers.
const editID = "domain.edit"

// carryOut changes a guest's definition on this host as an ordinary plan: value by value, journaled and read back. With
// live it also changes what libvirt can change while the guest runs.
func carryOut(ctx context.Context, env *ops.Env, d *Definition, edits []domain.Edit,
	live, dryRun bool) (*change.Outcome, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	mechanisms := m.Mechanisms()
	var changes, now []plan.Change
	for _, e := range edits {
		if !changed(e) {
			continue
		}
		at := setting.Of(setting.Domain, d.Guest.Name, e.Path)
		want := setting.NotThere()
		if e.HasTo {
			want = setting.Exact(e.To)
		}
		if want, err = want.Canonical(at); err != nil {
			return nil, err
		}
		asked := func(at setting.Address, want setting.Want, needs setting.Needs) plan.Change {
			return withKnob(d, at, plan.Change{
				Address: at, From: mechanisms.Read(ctx, at), To: want.Target(), Want: want,
				Because: "asked for by name",
				Lasts:   setting.Kinds[at.Kind].Lasts, Needs: needs,
			})
		}
		running := setting.Of(setting.DomainLive, d.Guest.Name, e.Path)
		if !live || !machine.Movable(running) || !d.Guest.Active() {
			changes = append(changes, asked(at, want, needsRestart(d.Guest)))
			continue
		}
		changes = append(changes, asked(at, want, setting.Needs{}))
		if !e.HasTo { // an unpinned thread may use every CPU
			want = setting.Exact(d.Host.Topology.Online.String())
		}
		if found := mechanisms.Read(ctx, running); !want.Met(found) {
			now = append(now, asked(running, want, setting.Needs{}))
		}
	}
	p := plan.OfChanges(d.Host, goal.Goal{}, append(changes, now...))
	return change.Transact(ctx, env, p, &ops.Host{Facts: d.Host, Mechanisms: mechanisms}, apply.Options{DryRun: dryRun})
}

// changed reports whether an edit changes something.
func changed(e domain.Edit) bool { return e.From != e.To || e.HasFrom != e.HasTo }

// withKnob fills in the ID, title, stage and risk of a change: those of the knob that covers its value, or else those
// of a plain edit.
func withKnob(d *Definition, at setting.Address, c plan.Change) plan.Change {
	c.ID, c.Title = editID, "a value of a guest's definition"
	c.Stage, c.Risk, c.Severity = datapath.Domain, goal.GuestRestart, knob.Info
	for _, k := range knob.Catalogue() {
		if !k.Check && slices.Contains(k.Where(d.Host), at) {
			c.ID, c.Title, c.Stage, c.Risk = k.ID, k.Title, k.Stage, k.Risk
			break
		}
	}
	return c
}

// needsRestart returns what a change of a definition waits for: the guest's restart, or nothing if it does not run.
func needsRestart(g *facts.Guest) setting.Needs {
	if !g.Active() {
		return setting.Needs{}
	}
	return setting.RestartOf(g.Name)
}
