package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// Options of Run.
type Options struct {
	DryRun bool
	// Confirm is the time after the commit within which the changes must be confirmed; 0: they need not be.
	Confirm time.Duration
	// Arm starts or notifies the process that undoes the changes if this one cannot. It is called before the first
	// write; nil: there is no such process.
	Arm func(tx string) error
	// Newest, if given, is the journal's last transaction when the host was inspected. A later one makes the plan
	// stale, whichever values it concerns.
	Newest *string
	// Resume is the journal's record by which the plan can be resumed (journal.Resume.Encode); nil: it cannot be.
	Resume json.RawMessage
	// Follows names the transaction that the plan resumes. It must still be applied when the machine is changed.
	Follows string
	// Session is the work that the transaction is a part of, or nil. Others are refused while a session is open.
	Session *journal.Session
	// Beside are addresses that the changes may move although no change is about them. They are restored.
	Beside []setting.Address
}

// Result is what became of a run.
type Result struct {
	TX      string        `json:"tx,omitempty"` // empty where nothing had to be written
	State   journal.State `json:"state,omitempty"`
	Follows string        `json:"follows,omitempty"` // the transaction that was resumed
	Changes []Outcome     `json:"changes"`
	// ConfirmWithin is the number of seconds within which the changes are to be confirmed; 0 where they need not be.
	ConfirmWithin float64 `json:"confirm_within_seconds,omitempty"`
	Moved         []Moved `json:"moved,omitempty"` // values that the changes moved and that could not be restored
	Seconds       float64 `json:"seconds"`
}

// Written counts the changes that stand on the machine.
func (r Result) Written() int {
	return facts.Count(r.Changes, func(c Outcome) bool { return c.State == journal.ChangeDone })
}

// Outcome is what became of one change.
type Outcome struct {
	ID      string              `json:"id"`
	Address setting.Address     `json:"address"`
	From    string              `json:"from"`
	To      string              `json:"to"`
	Found   string              `json:"found,omitempty"`
	State   journal.ChangeState `json:"state"`
	Needs   setting.Needs       `json:"needs,omitzero"`
	Why     string              `json:"why,omitempty"`

	Reason journal.Reason `json:"-"` // of ChangeLeft

	want setting.Want
}

func outcome(c journal.Change) Outcome {
	o := Outcome{ID: c.ID, Address: c.Address, From: c.Before.String(), To: c.After.String(), State: c.State,
		Needs: c.Needs, Why: c.Why, Reason: c.Reason, want: c.Want}
	if c.Found != nil {
		o.Found = c.Found.String()
	}
	if c.Error != "" {
		o.Why = c.Error
	}
	switch c.State {
	case journal.ChangeFailed, journal.ChangeUndone, journal.ChangeUndoFailed, journal.ChangeLeft:
		o.Needs = setting.Needs{} // there is nothing to take effect
	}
	return o
}

// run is one transaction while it is written.
type run struct {
	*Engine
	writer  *journal.Writer
	changes []journal.Change // begun so far; the index is N-1
	left    map[int]error    // undo: why a change could not be put back, by N
	besides []beside         // values that must stay as they are
	moved   []Moved          // those of them that could not be put back

	lenient    bool  // go on where the disk of the journal takes no writes
	unrecorded error // lenient: why the journal is not written any more
}

// record writes a record to the journal.
func (r *run) record(record journal.Record) error {
	if r.unrecorded != nil {
		return nil
	}
	err := r.writer.Append(record)
	if err != nil && r.lenient && journal.Unwritable(err) {
		r.unrecorded, err = err, nil
	}
	return err
}

// room returns the most bytes that the journal of a plan takes, even if all changes are undone, and also the most that
// its rollback takes. Each value is in up to seven records of either.
func room(p *plan.Plan, before []setting.Reading, beside int) (int64, error) {
	const aRecord = 512 // without its values
	bytes := aRecord * (8 + 2*beside + 4*len(p.Changes))
	for i, c := range p.Changes {
		for _, value := range []setting.Reading{before[i], c.To} {
			text, err := json.Marshal(value)
			if err != nil {
				return 0, err
			}
			bytes += 7 * len(text)
		}
	}
	return int64(bytes), nil
}

// Run makes all changes of a plan or none. It refuses to begin if the machine is not as the plan says, an earlier
// transaction is not settled, or somebody else holds the lock. If a change fails or ctx is cancelled, everything done
// so far is undone, and the error (a *Failure) says what failed and what could not be restored.
func (e *Engine) Run(ctx context.Context, p *plan.Plan, o Options) (Result, error) {
	began := time.Now()
	lock, err := e.lock("apply")
	if err != nil {
		return Result{}, err
	}
	defer lock.Release()
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return Result{}, err
	}
	if err := e.settled(ledger, o.Session); err != nil {
		return Result{}, err
	}
	if newest := ledger.Newest(); o.Newest != nil && *o.Newest != newest {
		return Result{}, &plan.Stale{Changed: []plan.Difference{
			{What: "journal", Then: "last transaction " + *o.Newest, Now: newest}}}
	}
	if err := follows(ledger, o.Follows); err != nil {
		return Result{}, err
	}
	before, err := e.preflight(ctx, p)
	if err != nil {
		return Result{}, err
	}
	result := Result{Follows: o.Follows, Changes: planned(p, before)}
	if err := e.writable(result.Changes); err != nil && !o.DryRun {
		return Result{}, err
	}
	if o.DryRun || !needsWrite(p, before) {
		result.Seconds = time.Since(began).Seconds()
		return result, nil
	}
	goal, err := json.Marshal(p.Goal)
	if err != nil {
		return Result{}, err
	}
	if err := lock.Unnamed(); err != nil {
		return Result{}, fmt.Errorf("nothing was changed: others cannot learn who is at work: %w", err)
	}
	space, err := room(p, before, len(o.Beside))
	if err != nil {
		return Result{}, err
	}
	w, err := e.Journal.Create(lock, journal.Header{
		Kind: journal.Apply, Host: e.Host, BootID: e.BootID, Version: e.Version, Room: space,
		Goal: goal, Digest: p.Digest, Changes: len(p.Changes), Follows: o.Follows, Resume: o.Resume, Session: o.Session,
	})
	if err != nil {
		return Result{}, err
	}
	r := &run{Engine: e, writer: w, left: map[int]error{}}
	err = r.all(ctx, p, o, before)
	result.TX, result.State, result.Changes = w.TX(), journal.Applied, nil
	if err == nil && o.Confirm > 0 {
		result.ConfirmWithin = o.Confirm.Seconds()
	}
	if err != nil {
		err = r.undo(ctx, err)
		var failure *Failure
		if errors.As(err, &failure) {
			result.State = failure.State
		}
	}
	err = errors.Join(err, w.Close())
	if result.State == journal.FailedUndone {
		err = errors.Join(err, e.Journal.Unreserve(w.TX()))
	}
	result.Moved = r.moved
	for _, c := range r.changes {
		result.Changes = append(result.Changes, outcome(c))
	}
	result.Seconds = time.Since(began).Seconds()
	return result, err
}

// Settled returns, without taking the lock, why Run would refuse any plan right now: another process is at work, an
// earlier transaction is half done or waits for confirmation, or a session was interrupted. It returns nil otherwise.
func (e *Engine) Settled() error {
	ledger, err := e.Journal.Ledger()
	if err != nil {
		return err
	}
	if h := ledger.Holder; h != nil && h.Command != restoring { // for that one Run waits
		return &journal.Locked{Holder: *h}
	}
	return e.settled(ledger, nil)
}

// settled refuses to change a machine on which an earlier transaction is half done or waits for confirmation, or on
// which a session other than the caller's is open or was interrupted.
func (e *Engine) settled(l *journal.Ledger, own *journal.Session) error {
	if session, of := l.OpenSession(); session != nil && !session.Is(own) {
		if session.Running() {
			return &journal.Locked{Holder: sessionHolder(session, of)}
		}
		return &Unended{Session: session.Name, Transactions: len(of)}
	}
	if err := unsettled(l); err != nil {
		return err
	}
	for _, t := range l.Open() {
		if c := t.Confirmation(); c.Armed && !c.Confirmed {
			return &Unconfirmed{TX: t.Header.TX, Until: e.until(t)}
		}
	}
	return nil
}

// unsettled returns an error if a transaction is half done.
func unsettled(l *journal.Ledger) error {
	if open := l.Unsettled(); len(open) > 0 {
		return &Unsettled{TX: open[0].Header.TX, State: l.State(open[0])}
	}
	return nil
}

// preflight reads every value and refuses the plan with a *plan.Stale if one is neither as planned nor as wanted.
func (e *Engine) preflight(ctx context.Context, p *plan.Plan) ([]setting.Reading, error) {
	found := make([]setting.Reading, len(p.Changes))
	stale := &plan.Stale{}
	e.ahead.expect(p.Addresses())
	for i, c := range p.Changes {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("nothing was changed: %w", context.Cause(ctx))
		}
		found[i] = e.read(ctx, c.Address)
		if !c.Want.Met(found[i]) && (found[i].State == setting.Unknown || !found[i].Same(c.From)) {
			stale.Changed = append(stale.Changed, plan.Difference{What: c.Address.String(),
				Then: c.Address.Brief(c.From), Now: c.Address.BriefWhy(found[i])})
		}
	}
	if len(stale.Changed) > 0 {
		return nil, stale
	}
	return found, nil
}

func needsWrite(p *plan.Plan, found []setting.Reading) bool {
	for i, c := range p.Changes {
		if !c.Want.Met(found[i]) {
			return true
		}
	}
	return false
}

// writable marks changes that cannot be written on this machine as failed and returns the reasons as an error.
func (e *Engine) writable(outcomes []Outcome) error {
	if e.Writable == nil {
		return nil
	}
	var refused *Unwritable
	for i, o := range outcomes {
		if o.State != journal.ChangeIntended {
			continue
		}
		err := e.Writable(o.Address)
		if err == nil {
			continue
		}
		outcomes[i].State, outcomes[i].Why = journal.ChangeFailed, "cannot be written here: "+err.Error()
		if refused == nil {
			refused = &Unwritable{First: o.Address, Why: err}
		} else {
			refused.More++
		}
	}
	if refused == nil {
		return nil
	}
	return refused
}

// planned is the outcome before anything is written.
func planned(p *plan.Plan, found []setting.Reading) []Outcome {
	outcomes := make([]Outcome, len(p.Changes))
	for i, c := range p.Changes {
		o := Outcome{ID: c.ID, Address: c.Address, From: found[i].String(), To: c.To.String(),
			State: journal.ChangeIntended, Needs: c.Needs}
		if c.Want.Met(found[i]) {
			o.State, o.To, o.Found = journal.ChangeAlready, o.From, o.From
		}
		outcomes[i] = o
	}
	return outcomes
}

// all arms the confirm timer, makes every change and commits.
func (r *run) all(ctx context.Context, p *plan.Plan, o Options, before []setting.Reading) error {
	if o.Confirm > 0 {
		if err := r.record(journal.Record{Event: journal.ConfirmArmed, Seconds: o.Confirm.Seconds()}); err != nil {
			return err
		}
	}
	if o.Arm != nil {
		if err := o.Arm(r.writer.TX()); err != nil {
			return fmt.Errorf("start the process that undoes unconfirmed changes: %w", err)
		}
	}
	if err := r.watch(ctx, o.Beside); err != nil {
		return err
	}
	for i := 0; i < len(p.Changes); {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := r.together(len(p.Changes)-i, func(k int) setting.Address { return p.Changes[i+k].Address })
		if err := r.make(ctx, p.Changes[i:i+n], before[i:i+n]); err != nil {
			return err
		}
		i += n
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	if r.moved, err = r.keep(ctx); err != nil {
		return err
	}
	return r.record(journal.Record{Event: journal.Committed})
}

// make makes one change, or several that are written together.
func (r *run) make(ctx context.Context, changes []plan.Change, before []setting.Reading) error {
	var begun []plan.Change
	var numbers []int
	for i, c := range changes {
		write, err := r.announce(ctx, c, before[i])
		if err != nil {
			return err
		}
		if write {
			begun, numbers = append(begun, c), append(numbers, len(r.changes))
		}
	}
	var failed error
	switch len(begun) {
	case 0:
		return nil
	case 1:
		failed = r.write(ctx, begun[0].Address, begun[0].To)
	default:
		all := make([]setting.Assignment, len(begun))
		for i, c := range begun {
			all[i] = setting.Assignment{Address: c.Address, To: c.To}
		}
		failed = r.writeAll(ctx, all)
	}
	var problems []error
	for i, c := range begun {
		problems = append(problems, r.conclude(ctx, c, numbers[i], failed))
	}
	if failed != nil {
		return problems[0] // the others have the same reason
	}
	return errors.Join(problems...)
}

// announce journals a change and returns whether it needs a write. before is the value before the whole transaction,
// which an undo restores even if an earlier change of this transaction has moved it since: new channels reset rings,
// masks and affinities.
func (r *run) announce(ctx context.Context, c plan.Change, before setting.Reading) (write bool, err error) {
	n := len(r.changes) + 1
	begun := journal.Change{N: n, ID: c.ID, Address: c.Address, Before: before, After: c.To, Want: c.Want, Risk: c.Risk,
		Lasts: c.Lasts, Needs: c.Needs}
	if found := r.read(ctx, c.Address); c.Want.Met(found) && c.Want.Met(before) {
		begun.State, begun.After, begun.Found = journal.ChangeAlready, found, &found
		err := r.record(journal.Record{
			Event: journal.Already, N: n, ID: c.ID, Address: &c.Address, Found: &found, Want: &c.Want,
			Risk: c.Risk, Lasts: c.Lasts, Needs: c.Needs,
		})
		r.changes = append(r.changes, begun)
		return false, err
	}
	if err := r.record(journal.Record{
		Event: journal.Intent, N: n, ID: c.ID, Address: &c.Address, Before: &before, After: &c.To, Want: &c.Want,
		Risk: c.Risk, Lasts: c.Lasts, Needs: c.Needs,
	}); err != nil {
		return false, err
	}
	begun.State = journal.ChangeIntended
	r.changes = append(r.changes, begun)
	return true, nil
}

// conclude reads back what was written, unless the write failed, and journals the outcome of the change.
func (r *run) conclude(ctx context.Context, c plan.Change, n int, failed error) error {
	change := &r.changes[n-1]
	if failed != nil {
		err := refused(c.Address, wanted(c.Address, c.Want), failed)
		event := journal.Failed
		change.State, change.Error = journal.ChangeFailed, err.Error()
		if errors.Is(err, setting.ErrInDoubt) {
			event, change.State, change.Doubted = journal.InDoubt, journal.ChangeInDoubt, true
		}
		return errors.Join(err, r.record(journal.Record{Event: event, N: n, Error: err.Error()}))
	}
	found, met := r.readBack(ctx, c.Address, c.Want.Met)
	change.Found = &found
	if !met {
		err := fmt.Errorf("%s: wanted %s, wrote %s, but it reads back as %s", c.Address, wanted(c.Address, c.Want),
			c.Address.Brief(c.To), c.Address.BriefWhy(found))
		change.State, change.Error = journal.ChangeFailed, err.Error()
		return errors.Join(err, r.record(journal.Record{Event: journal.Failed, N: n, Error: err.Error()}))
	}
	change.State = journal.ChangeDone
	return r.record(journal.Record{Event: journal.Done, N: n, Found: &found})
}
