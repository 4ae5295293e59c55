package tuning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/apply"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// waitingPath is the file, below the root, from which a run that waits for a restart is resumed.
const waitingPath = "var/lib/mpps/tune-waiting.json"

// waitingSchema is the schema of that file.
const waitingSchema = "mpps.tune-waiting/1"

// waitingRun is a run that waits for a restart.
type waitingRun struct {
	Schema  string              `json:"schema"`
	Flags   map[string][]string `json:"flags"` // of the command line
	Earlier tune.Earlier        `json:"earlier"`
}

// leastDisruptive returns the changes that wait for guests' restarts, or all if there are none: the host's reboot comes
// last, so that each restart can be measured by itself.
func leastDisruptive(changes []plan.Change) []plan.Change {
	guests := slices.DeleteFunc(slices.Clone(changes),
		func(c plan.Change) bool { return c.Needs.Kind == setting.HostReboot })
	if len(guests) > 0 {
		return guests
	}
	return changes
}

// restart applies the changes that wait for the next restart and writes the file to resume from. It returns the plan;
// nil if there was nothing to apply.
func (h *trialHost) restart(ctx context.Context, o *Options, r *tune.Result) (*plan.Plan, error) {
	h.stale = true
	if err := h.refresh(ctx); err != nil {
		return nil, err
	}
	changes := facts.Where(h.plan.Changes, func(c plan.Change) bool {
		return !c.Needs.IsZero() && c.Risk != goal.Connectivity
	})
	if len(changes) == 0 {
		return nil, nil
	}
	changes = leastDisruptive(changes)
	samples, err := tune.RestartSamples(ctx, h, h.load, o.Trial,
		func() bool { return o.Budget > 0 && time.Since(r.Started) > o.Budget })
	if err != nil {
		return nil, err
	}
	load := h.load
	p := h.subplan(changes)
	p.Later = h.plan.Later
	if err := lasting.Add(p, h.host.Facts, change.StandingChanges(h.env)...); err != nil {
		return nil, err
	}
	how := h.chainOptions(p, r)
	if how.Resume, err = change.ResumeState(h.env, &change.Planned{Plan: p, Host: h.host}, o.RuntimeOnly); err != nil {
		return nil, err
	}
	result, err := h.engine.Run(ctx, p, how)
	if err != nil {
		return nil, fmt.Errorf("apply what waits for a restart: %w", err)
	}
	e := tune.Earlier{
		TX: result.TX, Baseline: r.Baseline, Rate: r.Final, LoadPPS: load, Samples: samples, Before: r.Before,
		Attempts: r.Attempts, Kept: r.Kept,
	}
	if gain, shown := r.Shown(); shown {
		e.Gain = &gain
	}
	var needs []string
	for _, c := range changes {
		e.Changes = append(e.Changes, recordOf(c))
		if !slices.Contains(e.Keys, c.ID) {
			e.Keys = append(e.Keys, c.ID)
		}
		if !slices.Contains(needs, c.Needs.String()) {
			needs = append(needs, c.Needs.String())
		}
	}
	e.Restart = strings.Join(needs, ", ")
	r.RestartTX, r.RestartFor = result.TX, e.Restart
	e.Undo = append([]string{r.UndoCommand()}, r.UndoEarlier...)
	text, err := json.MarshalIndent(waitingRun{Schema: waitingSchema, Flags: o.Flags, Earlier: e}, "", "  ")
	if err != nil {
		return p, err
	}
	return p, h.env.WriteState(waitingPath, text)
}

// ReadWaiting returns the run that waits for a restart and its flags. It returns an error if the restart has not
// happened yet.
func ReadWaiting(ctx context.Context, env *ops.Env) (*tune.Earlier, map[string][]string, error) {
	file, err := env.OpenState(waitingPath)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &outcome.Fault{Err: errors.New("no tuning run waits for a restart"),
			Hint: "'mpps tune --restarts …' begins one", Code: outcome.CodeNotConfigured}
	}
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	var w waitingRun
	if err := json.NewDecoder(ops.JSON(file)).Decode(&w); err != nil {
		return nil, nil, outcome.Failed(fmt.Errorf("%s: %w", waitingPath, err), "start over: 'mpps tune …'")
	}
	if w.Schema != waitingSchema {
		return nil, nil, outcome.Failed(fmt.Errorf("%s: found schema %q, expected %q", waitingPath, w.Schema,
			waitingSchema), "go on with the version of mpps that began it, or start over")
	}
	e, err := change.Open(env, nil)
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	e.WatchGuests(ctx)
	s, err := e.Status(ctx)
	if err != nil {
		return nil, nil, err
	}
	stands := false
	for _, row := range s.Rows {
		if stands = stands || row.TX == w.Earlier.TX; row.TX == w.Earlier.TX && row.State == apply.WaitsFor {
			return nil, nil, outcome.Failed(fmt.Errorf("it still waits for a %s: %s", w.Earlier.Restart, row.Why),
				"do that, then 'mpps tune --resume'")
		}
	}
	if !stands {
		return nil, nil, outcome.Failed(fmt.Errorf("transaction %s, which made what waited, does not stand any more",
			w.Earlier.TX), "start over: 'mpps tune …'")
	}
	return &w.Earlier, w.Flags, nil
}
