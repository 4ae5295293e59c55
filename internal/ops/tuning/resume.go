package tuning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/lasting"
	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/change/apply"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
)

// waitingPath is where a run that waits for a restart keeps what it takes to go on, below the root directory.
const waitingPath = "var/lib/mpps/tune-waiting.json"

// waitingSchema is the version of its format.
const waitingSchema = "mpps.tune-waiting/1"

// waitingTune is a run that waits for a restart.
type waitingTune struct {
	Schema  string              `json:"schema"`
	Flags   map[string][]string `json:"flags"` // of the command, as they were given
	Earlier tune.Earlier        `json:"earlier"`
}

// sooner keeps of changes that need a restart those of guests, where there are any: a reboot of the host is asked for
// when nothing less is
// left, so that each restart can be measured by itself.
func sooner(changes []plan.Change) []plan.Change {
	guests := slices.DeleteFunc(slices.Clone(changes),
		func(c plan.Change) bool { return c.Needs.Kind == setting.HostReboot })
	if len(guests) > 0 {
		return guests
	}
	return changes
}

// restart applies what waits for the next restart, and takes down what it takes to go on behind it. It returns the
// plan; nil where there was
// nothing to apply.
func (h *trialHost) restart(ctx context.Context, o *Options, r *tune.Result) (*plan.Plan, error) {
	h.stale = true
	if err := h.look(ctx); err != nil {
		return nil, err
	}
	var changes []plan.Change
	for _, c := range h.plan.Changes {
		if !c.Needs.IsZero() && c.Risk != goal.Connectivity {
			changes = append(changes, c)
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	changes = sooner(changes)
	samples, err := tune.Ahead(ctx, h, h.load, func() bool { return o.Budget > 0 && time.Since(r.Started) > o.Budget })
	if err != nil {
		return nil, err
	}
	load := h.load
	p := h.part(changes)
	p.Later = h.plan.Later
	if err := lasting.Add(p, h.host.Facts, change.Given(h.env)...); err != nil {
		return nil, err
	}
	how := apply.Options{Beside: change.Besides(p, h.host.Facts)}
	if len(r.Chain) > 0 {
		how.Follows = r.Chain[len(r.Chain)-1]
	}
	if how.Resume, err = change.GoalOf(h.env, &change.Planned{Plan: p, Host: h.host}, o.RuntimeOnly); err != nil {
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
	var needs []string
	for _, c := range changes {
		e.Changes = append(e.Changes, tune.Change{ID: c.ID, Address: c.Address.String(), From: c.Address.Brief(c.From),
			To: c.Address.Brief(c.To), Needs: c.Needs})
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
	text, err := json.MarshalIndent(waitingTune{Schema: waitingSchema, Flags: o.Flags, Earlier: e}, "", "  ")
	if err != nil {
		return p, err
	}
	name := filepath.Join(h.env.Root, waitingPath)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return p, err
	}
	return p, ops.ReplaceFile(name, text)
}

// Waiting reads the run that waits for a restart and the flags that it was given, and refuses to go on before what it
// waits
// for has happened.
func Waiting(ctx context.Context, env *ops.Env) (*tune.Earlier, map[string][]string, error) {
	file, err := ops.OpenJSON(filepath.Join(env.Root, waitingPath))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, &outcome.Fault{Err: errors.New("no tuning run waits for a restart"),
			Hint: "'mpps tune --restarts …' begins one", Code: outcome.CodeNotConfigured}
	}
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	var w waitingTune
	if err := json.NewDecoder(file).Decode(&w); err != nil {
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
