package tuning

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/journal"
	"mpps/internal/machine/load"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
)

// trialHost is the host under tuning: candidates are the changes that a plan for the goal would make, trials are
// transactions of one session. If this process dies, another one rolls back what is under trial; what was kept stands
// until 'mpps rollback'.
type trialHost struct {
	env     *ops.Env
	goal    goal.Goal
	gauge   Gauge
	trial   time.Duration
	only    []string // knobs and families that may be tried; none: all
	session *journal.Session
	engine  *change.Engine
	orphans *change.OrphanGuard

	host      *ops.Host                // as last read
	plan      *plan.Plan               // what remains to be done for the goal
	changes   map[string][]foundChange // of candidates, by key
	keptKeys  map[string]bool          // keys of which something was kept: their changes stay as they were measured
	stale     bool                     // something was kept or rolled back since the host was read
	fresh     bool                     // the configuration changed since the last sample
	kept      []string                 // transactions that were kept
	tried     []string                 // transactions that are tried
	triedKeys []string                 // keys of what is tried; none if it is the whole
	live      bool
	whole     [][]plan.Change // everything that was kept, candidate by candidate
	load      float64         // of the last trial, packets per second
	sent      float64         // in the last trial that counted, packets per second; 0: not known
	found     tune.Rate       // of the host as the run found it
}

// open opens the host for a tuning session.
func open(env *ops.Env, o *Options, by Gauge) (*trialHost, error) {
	e, err := change.Open(env, nil)
	if err != nil {
		return nil, err
	}
	h := &trialHost{
		env: env, goal: o.Goal, gauge: by, trial: o.Trial, only: o.Only, session: journal.NewSession("tune"), engine: e,
		changes: map[string][]foundChange{}, keptKeys: map[string]bool{}, stale: true,
	}
	m, err := env.Open()
	if err == nil {
		h.live = m.Live()
		err = m.Close()
	}
	if err == nil {
		h.orphans, err = change.StartOrphanGuard(env)
	}
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return h, nil
}

func (h *trialHost) close() error {
	err := errors.Join(h.orphans.Close(), h.engine.Close())
	if h.host != nil {
		err = errors.Join(err, h.host.Close())
	}
	return err
}

// evidenceTime is how long counters are watched for knobs that depend on losses.
const evidenceTime = time.Second

// refresh reads the host while packets are sent and plans what remains for the goal, unless the last plan is current.
func (h *trialHost) refresh(ctx context.Context) error {
	if !h.stale {
		return nil
	}
	var m *ops.Host
	watch := evidenceTime
	if !h.live { // the counters of a recorded machine do not move
		watch = 0
	}
	err := h.withTraffic(ctx, 0, func(ctx context.Context) (err error) {
		m, err = h.env.Gather(ctx, ops.Look{Guest: h.goal.Guest, Interval: watch})
		return err
	})
	if err != nil {
		return err
	}
	if h.host != nil {
		err = h.host.Close()
	}
	h.host = m
	if err == nil {
		err = ops.CheckGoal(m.Facts, h.goal)
	}
	if err == nil {
		h.plan, err = change.Plan(h.env, m, change.Target{Goal: h.goal, RuntimeOnly: true, Trials: true})
	}
	if err == nil {
		gear := fmt.Sprintf("mpps-%d", os.Getpid()) // the port through which our own packets enter a bridge
		h.plan.Changes = slices.DeleteFunc(h.plan.Changes, func(c plan.Change) bool {
			return strings.Contains(c.Address.String(), gear) || len(h.only) > 0 && !goal.Includes(h.only, c.ID)
		})
		h.plan.Seal()
	}
	h.stale = err != nil
	return err
}

// withTraffic calls act while packets are sent at a rate; 0: the last one. A recorded machine only gets a short trial,
// since its counters do not move.
func (h *trialHost) withTraffic(ctx context.Context, pps float64, act func(context.Context) error) error {
	pps = cmp.Or(pps, h.load)
	if !h.live {
		_, err := h.gauge.Sample(ctx, pps, 100*time.Millisecond, true)
		return errors.Join(act(ctx), err)
	}
	done, sent := make(chan struct{}), make(chan error, 1)
	go func() { sent <- h.gauge.Flood(ctx, pps, done) }()
	failure := act(ctx)
	close(done)
	err := <-sent
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return errors.Join(failure, err)
}

// Diagnose watches the stages while packets are sent.
func (h *trialHost) Diagnose(ctx context.Context, pps float64) (*bottleneck.Diagnosis, error) {
	const watched = 2 * time.Second
	if err := h.refresh(ctx); err != nil {
		return nil, err
	}
	m, err := h.env.Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	m.Inside.Select(h.goal.Guest)
	if !m.Live() { // the counters of a recorded machine do not move
		return h.bottleneck(load.Observe(ctx, m.Tree, h.host.Facts, load.Options{})), nil
	}
	var found *facts.Load
	err = h.withTraffic(ctx, pps, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond): // generators take a moment to begin
		}
		found = load.Observe(ctx, m.Tree, h.host.Facts,
			load.Options{Interval: watched, Netns: h.gauge.Netns(), Inside: m.Inside})
		return nil
	})
	if err != nil {
		return nil, err
	}
	d := h.bottleneck(found)
	if !h.gauge.SendsHere() { // the busy thread of ours is the receiver
		d.OnSender = 0
	}
	return d, nil
}

// bottleneck judges a load as 'mpps diagnose' does for the same guest: other guests only use CPUs.
func (h *trialHost) bottleneck(load *facts.Load) *bottleneck.Diagnosis {
	if h.goal.Guest != "" {
		load = load.ForGuest(h.goal.Guest)
	}
	return bottleneck.Find(h.host.Facts, load)
}

// Sample runs a trial of length times the usual duration and returns the rate received, in packets per second. After a
// change it first sends some traffic that does not count, until the queues hold only what came after it.
func (h *trialHost) Sample(ctx context.Context, pps float64, length int, exact bool) (float64, error) {
	h.load = pps
	if h.fresh {
		if _, err := h.gauge.Sample(ctx, pps, max(100*time.Millisecond, h.trial/4), exact); err != nil {
			return 0, err
		}
		h.fresh = false
	}
	trial, err := h.gauge.Sample(ctx, pps, h.trial*time.Duration(length), exact)
	h.sent = trial.Sent
	h.found.Loaded = cmp.Or(h.found.Loaded, trial.PPS)
	return trial.PPS, err
}

// Sent returns the rate sent in the last trial, in packets per second; 0: unknown.
func (h *trialHost) Sent() float64 { return h.sent }

// Search finds the highest rate.
func (h *trialHost) Search(ctx context.Context) (tune.Rate, error) {
	rate, err := h.gauge.Search(ctx)
	if err == nil && h.found.LimitedBy == "" {
		h.found = rate
	}
	return rate, err
}

// Advise returns advice on what to buy or change beyond tuning.
func (h *trialHost) Advise(r *tune.Result, d *bottleneck.Diagnosis) []tune.Advice {
	if h.host == nil {
		return nil
	}
	return tune.Advise(h.host.Facts, r, d)
}
