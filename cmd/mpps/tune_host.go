package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mpps/internal/apply"
	"mpps/internal/bottleneck"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/plan"
	"mpps/internal/setting"
	"mpps/internal/tune"
)

// tuneHost is the machine under tuning: candidates are the changes that a plan for the goal would make, trials are transactions of
// one session. What is tried is put back by a process of its own should this one die; what was kept stands until 'mpps rollback'.
type tuneHost struct {
	app     *app
	goal    goal.Goal
	gauge   gauge
	trial   time.Duration
	only    []string // knobs that may be tried; none: all
	session *journal.Session
	engine  *engine
	alone   *orphans

	machine *machine                 // as it was last looked at
	plan    *plan.Plan               // what remains to be done for the goal
	changes map[string][]plan.Change // of candidates, by key
	stale   bool                     // something was kept or put back since the machine was looked at
	fresh   bool                     // the configuration changed since the last sample
	stack   []string                 // transactions that were kept
	tried   []string                 // transactions that are tried
	live    bool
	whole   [][]plan.Change // everything that was kept, candidate by candidate
	load    float64         // that was last sent, packets per second
}

// openTuneHost takes hold of the machine for a session.
func (a *app) openTuneHost(g goal.Goal, by gauge, trial time.Duration, only []string) (*tuneHost, error) {
	e, err := a.engine(nil)
	if err != nil {
		return nil, err
	}
	h := &tuneHost{app: a, goal: g, gauge: by, trial: trial, only: only, session: journal.NewSession("tune"), engine: e, changes: map[string][]plan.Change{}, stale: true}
	m, err := host.Open(a.root)
	if err == nil {
		h.live = m.Live()
		err = m.Close()
	}
	if err == nil {
		h.alone, err = a.watchOrphans()
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return h, nil
}

func (h *tuneHost) close() error {
	err := errors.Join(h.alone.told.Close(), h.engine.close())
	if h.machine != nil {
		err = errors.Join(err, h.machine.close())
	}
	return err
}

// evidence is how long counters are watched for knobs that decide by what is lost.
const evidence = time.Second

// look takes stock of the machine while packets are sent, and plans for the goal what remains.
func (h *tuneHost) look(ctx context.Context) error {
	if !h.stale {
		return nil
	}
	var m *machine
	watch, length := evidence, evidence+2*time.Second
	if !h.live { // it stands still
		watch, length = 0, 100*time.Millisecond
	}
	err := h.under(ctx, 0, length, func(ctx context.Context) (err error) {
		m, err = h.app.gatherOver(ctx, "", watch, h.goal.Guest)
		return err
	})
	if err != nil {
		return err
	}
	if h.machine != nil {
		err = h.machine.close()
	}
	h.machine = m
	if err == nil {
		err = m.has(h.goal)
	}
	if err == nil {
		h.plan, err = h.app.lastingPlan(m, h.goal, true)
	}
	if err == nil {
		gear := fmt.Sprintf("mpps-%d", os.Getpid()) // the port by which our own packets enter a bridge
		h.plan.Changes = slices.DeleteFunc(h.plan.Changes, func(c plan.Change) bool {
			return strings.Contains(c.Address.String(), gear) || len(h.only) > 0 && !slices.Contains(h.only, c.ID)
		})
		h.plan.Seal()
	}
	h.stale = err != nil
	return err
}

// under does something while packets are sent: a rate, or what was sent last.
func (h *tuneHost) under(ctx context.Context, pps float64, length time.Duration, act func(context.Context) error) error {
	if pps == 0 {
		pps = h.load
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		_, err := h.gauge.sample(sending, pps, length)
		sent <- err
	}()
	acted := act(ctx)
	err := <-sent
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return errors.Join(acted, err)
}

// Candidates are the changes of the plan by knob: those that take effect at once, and those that wait for a restart. What is not to
// be tried in turns is told apart by untried.
func (h *tuneHost) Candidates(ctx context.Context) ([]tune.Candidate, error) {
	if err := h.look(ctx); err != nil {
		return nil, err
	}
	var all []tune.Candidate
	at := map[string]int{}
	for _, c := range h.plan.Changes {
		if c.Risk == goal.Connectivity || c.Want.Met(h.machine.facts.Readings.At(c.Address)) {
			continue
		}
		key := c.ID
		if c.Needs != "" {
			key += " after " + c.Needs
		}
		i, known := at[key]
		if !known {
			i = len(all)
			at[key] = i
			h.changes[key] = nil
			all = append(all, tune.Candidate{Key: key, IDs: []string{c.ID}, Title: c.Title, Stage: c.Stage.String(), Risk: c.Risk, Needs: c.Needs})
		}
		all[i].Weight = max(all[i].Weight, float64(c.Severity)/5)
		all[i].Changes = append(all[i].Changes, tune.Change{ID: c.ID, Address: c.Address.String(), From: c.Address.Brief(c.From), To: c.Address.Brief(c.To), Needs: c.Needs})
		h.changes[key] = append(h.changes[key], c)
	}
	return all, nil
}

// untried are changes that are wanted and not tried, whatever time there is.
func (h *tuneHost) untried() []tune.Untried {
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
			add(c, "it can cut the way that you came by, and would be changed many times: try it with 'mpps apply --confirm'")
		}
	}
	return all
}

// Diagnose watches the stages while packets are sent.
func (h *tuneHost) Diagnose(ctx context.Context, pps float64) (*bottleneck.Diagnosis, error) {
	const watched = 2 * time.Second
	if err := h.look(ctx); err != nil {
		return nil, err
	}
	m, err := host.Open(h.app.root)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	if !m.Live() { // it stands still
		return bottleneck.Find(h.machine.facts, m.Load(ctx, h.machine.facts, host.LoadOptions{})), nil
	}
	var load *facts.Load
	err = h.under(ctx, pps, watched+time.Second, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond): // generators take a moment to begin
		}
		load = m.Load(ctx, h.machine.facts, host.LoadOptions{Interval: watched, Netns: h.gauge.netns()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return bottleneck.Find(h.machine.facts, load), nil
}

// part is a plan of the changes of a candidate.
func (h *tuneHost) part(changes []plan.Change) *plan.Plan {
	p := *h.plan
	p.Changes = slices.Clone(changes)
	p.Restarts, p.Later, p.Consent, p.Skipped = []plan.Restart{}, []plan.Later{}, []plan.Change{}, []plan.Skipped{}
	p.Phases = []plan.Phase{}
	p.Seal()
	return &p
}

// of are the changes of a candidate, in the order in which they are to be made.
func (h *tuneHost) of(c tune.Candidate) ([]plan.Change, error) {
	var all []plan.Change
	for _, key := range strings.Split(c.Key, "+") {
		changes, known := h.changes[key]
		if !known {
			return nil, fmt.Errorf("no changes are known of candidate %q", key)
		}
		all = append(all, changes...)
	}
	place := func(c plan.Change) int {
		return slices.IndexFunc(h.plan.Changes, func(p plan.Change) bool { return p.Address == c.Address })
	}
	slices.SortStableFunc(all, func(a, b plan.Change) int { return place(a) - place(b) })
	return all, nil
}

// Try applies a candidate as a transaction of the session; everything that was kept as one after the other, since what was planned
// behind one may be about what it made: interrupts of new queues.
func (h *tuneHost) Try(ctx context.Context, c tune.Candidate) error {
	if len(h.tried) > 0 {
		return fmt.Errorf("transaction %s is tried already", h.tried[0])
	}
	parts := h.whole
	if c.Key != wholeKey {
		changes, err := h.of(c)
		if err != nil {
			return err
		}
		parts = [][]plan.Change{changes}
	}
	for _, changes := range parts {
		if err := h.apply(ctx, h.part(changes)); errors.Is(err, tune.ErrRefused) {
			return errors.Join(err, h.Back(ctx))
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (h *tuneHost) apply(ctx context.Context, p *plan.Plan) error {
	h.fresh = true
	result, err := h.engine.Run(ctx, p, apply.Options{Beside: besides(p, h.machine.facts), Session: h.session, Arm: h.alone.stands})
	var failure *apply.Failure
	var stale *plan.Stale
	var unwritable *apply.Unwritable
	switch {
	case errors.As(err, &failure) && failure.State != journal.FailedUndone:
		h.tried = append(h.tried, failure.TX)
		return err
	case ctx.Err() != nil && err != nil:
		return err
	case errors.As(err, &failure), errors.As(err, &unwritable), errors.As(err, &stale):
		h.stale = h.stale || stale != nil // somebody else changed it: look anew before the next
		return errors.Join(fmt.Errorf("%w: %w", tune.ErrRefused, err), h.alone.stands(""))
	case err != nil:
		return err
	case result.TX == "":
		return fmt.Errorf("%w: everything is as planned already: somebody else changed it meanwhile", tune.ErrRefused)
	}
	h.tried = append(h.tried, result.TX)
	return nil
}

// Back rolls back what is tried.
func (h *tuneHost) Back(ctx context.Context) error {
	for len(h.tried) > 0 {
		last := len(h.tried) - 1
		if err := h.rollback(ctx, h.tried[last]); err != nil {
			return err
		}
		h.tried = h.tried[:last]
	}
	return h.alone.stands("")
}

func (h *tuneHost) rollback(ctx context.Context, tx string) error {
	ctx = context.WithoutCancel(ctx)
	h.fresh = true
	o := apply.RollbackOptions{TX: tx, Session: h.session, Why: "mpps tune", WithLater: true}
	restored, err := h.engine.Rollback(ctx, o)
	var locked *journal.Locked
	for deadline := time.Now().Add(patience); errors.As(err, &locked) && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
		restored, err = h.engine.Rollback(ctx, o)
	}
	if err != nil {
		return failed(fmt.Errorf("put back transaction %s: %w", tx, err), "'mpps rollback' restores the beginning of the run")
	}
	for _, r := range restored {
		if n := r.Drifted(); n > 0 {
			return failed(fmt.Errorf("%s of transaction %s: somebody else changed them while they were measured, and they were left alone", counted(n, "value"), tx),
				"find out who ('mpps history "+tx+"' names them), then run it again")
		}
	}
	return nil
}

// Keep lets stand what is tried.
func (h *tuneHost) Keep(context.Context) error {
	if len(h.tried) == 0 {
		return errors.New("nothing is tried that could be kept")
	}
	h.stack, h.tried, h.stale = append(h.stack, h.tried...), nil, true
	return h.alone.stands("")
}

// Begin rolls back everything of the session, the latest first.
func (h *tuneHost) Begin(ctx context.Context) error {
	if err := h.Back(ctx); err != nil {
		return err
	}
	for len(h.stack) > 0 {
		last := len(h.stack) - 1
		if err := h.rollback(ctx, h.stack[last]); err != nil {
			return err
		}
		h.stack, h.stale = h.stack[:last], true
	}
	return nil
}

// wholeKey names everything that was kept, as a candidate.
const wholeKey = "everything that was kept"

// Whole is what was kept as one candidate.
func (h *tuneHost) Whole(_ context.Context, kept []tune.Candidate) (tune.Candidate, error) {
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

// merged are changes that are made one behind the other as changes of one plan: from the values of the beginning to the last ones.
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

// Sample sends the load for one trial; behind a change some traffic goes before that does not count.
func (h *tuneHost) Sample(ctx context.Context, pps float64) (float64, error) {
	h.load = pps
	if h.fresh {
		if _, err := h.gauge.sample(ctx, pps, max(200*time.Millisecond, h.trial/4)); err != nil {
			return 0, err
		}
		h.fresh = false
	}
	return h.gauge.sample(ctx, pps, h.trial)
}

// Search finds the highest rate.
func (h *tuneHost) Search(ctx context.Context) (tune.Rate, error) { return h.gauge.search(ctx) }

// Advise says what to buy or change.
func (h *tuneHost) Advise(r *tune.Result, d *bottleneck.Diagnosis) []tune.Advice {
	if h.machine == nil {
		return nil
	}
	return tune.Advise(h.machine.facts, r, d)
}
