package main

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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/apply"
	"mpps/internal/goal"
	"mpps/internal/lasting"
	"mpps/internal/plan"
	"mpps/internal/setting"
	"mpps/internal/tune"
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

// notAgain are flags that are of one call and not of what it is to reach.
var notAgain = []string{"resume", "restarts", "output", "report", "plan-output", "json", "quiet", "no-color", "verbose", "root", "seed", "budget"}

// given are the flags of a command line, to be given again.
func given(flags *pflag.FlagSet) map[string][]string {
	all := map[string][]string{}
	flags.Visit(func(f *pflag.Flag) {
		if slices.Contains(notAgain, f.Name) {
			return
		}
		if many, is := f.Value.(pflag.SliceValue); is {
			all[f.Name] = many.GetSlice()
		} else {
			all[f.Name] = []string{f.Value.String()}
		}
	})
	return all
}

// sooner keeps of changes that need a restart those of guests, where there are any: a reboot of the host is asked for when nothing less is
// left, so that each restart can be measured by itself.
func sooner(changes []plan.Change) []plan.Change {
	guests := slices.DeleteFunc(slices.Clone(changes), func(c plan.Change) bool { return c.Needs.Kind == setting.HostReboot })
	if len(guests) > 0 {
		return guests
	}
	return changes
}

// restart applies what waits for the next restart, and takes down what it takes to go on behind it. It returns the plan; nil where there was
// nothing to apply.
func (h *tuneHost) restart(ctx context.Context, f *tuneFlags, r *tune.Result) (*plan.Plan, error) {
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
	samples, err := tune.Ahead(ctx, h, h.load, func() bool { return f.budget > 0 && time.Since(r.Started) > f.budget })
	if err != nil {
		return nil, err
	}
	load := h.load
	p := h.part(changes)
	p.Later = h.plan.Later
	if err := lasting.Add(p, h.machine.facts, h.app.standing()...); err != nil {
		return nil, err
	}
	o := apply.Options{Beside: besides(p, h.machine.facts)}
	if len(r.Chain) > 0 {
		o.Follows = r.Chain[len(r.Chain)-1]
	}
	if err := h.app.keepGoal(&o, p, h.machine, f.runtimeOnly); err != nil {
		return nil, err
	}
	result, err := h.engine.Run(ctx, p, o)
	if err != nil {
		return nil, fmt.Errorf("apply what waits for a restart: %w", err)
	}
	e := tune.Earlier{
		TX: result.TX, Baseline: r.Baseline, Rate: r.Final, LoadPPS: load, Samples: samples, Before: r.Before, Attempts: r.Attempts, Kept: r.Kept,
	}
	var needs []string
	for _, c := range changes {
		e.Changes = append(e.Changes, tune.Change{ID: c.ID, Address: c.Address.String(), From: c.Address.Brief(c.From), To: c.Address.Brief(c.To), Needs: c.Needs})
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
	text, err := json.MarshalIndent(waitingTune{Schema: waitingSchema, Flags: given(f.goal.set), Earlier: e}, "", "  ")
	if err != nil {
		return p, err
	}
	name := filepath.Join(h.app.root, waitingPath)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return p, err
	}
	return p, replaceFile(name, text)
}

// giveAgain sets a flag as given found it, such that given finds it again.
func giveAgain(flags *pflag.FlagSet, name string, values []string) error {
	f := flags.Lookup(name)
	if f == nil {
		return errors.New("there is no such flag")
	}
	many, is := f.Value.(pflag.SliceValue)
	if len(values) == 0 || !is && len(values) != 1 {
		return fmt.Errorf("found %d values, expected one", len(values))
	}
	// By Set, also where the whole list takes its place: only Set makes a flag count as given.
	if err := flags.Set(name, values[0]); err != nil || !is {
		return err
	}
	return many.Replace(values)
}

// goOnTuning takes the flags and the findings of the run that waits, and refuses to go on before what it waits for has happened.
func (a *app) goOnTuning(cmd *cobra.Command, f *tuneFlags) error {
	for name := range given(cmd.Flags()) {
		return usage(fmt.Errorf("--resume and --%s: the run that waits has its flags", name), "beside --resume only --restarts, --budget, --seed and where the result goes may be given")
	}
	file, err := openJSON(filepath.Join(a.root, waitingPath))
	if errors.Is(err, fs.ErrNotExist) {
		return &fault{err: errors.New("no tuning run waits for a restart"), hint: "'mpps tune --restarts …' begins one", code: exitNotConfigured}
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var w waitingTune
	if err := json.NewDecoder(file).Decode(&w); err != nil {
		return failed(fmt.Errorf("%s: %w", waitingPath, err), "begin anew: 'mpps tune …'")
	}
	if w.Schema != waitingSchema {
		return failed(fmt.Errorf("%s: found schema %q, expected %q", waitingPath, w.Schema, waitingSchema), "go on with the version of mpps that began it, or begin anew")
	}
	for name, values := range w.Flags {
		if err := giveAgain(cmd.Flags(), name, values); err != nil {
			return failed(fmt.Errorf("%s: --%s: %w", waitingPath, name, err), "begin anew: 'mpps tune …'")
		}
	}
	e, err := a.engine(nil)
	if err != nil {
		return err
	}
	defer e.close()
	e.watchGuests(cmd.Context(), a.root)
	s, err := e.Status(cmd.Context())
	if err != nil {
		return err
	}
	stands := false
	for _, row := range s.Rows {
		if stands = stands || row.TX == w.Earlier.TX; row.TX == w.Earlier.TX && row.State == apply.WaitsFor {
			return failed(fmt.Errorf("it still waits for a %s: %s", w.Earlier.Restart, row.Why), "do that, then 'mpps tune --resume'")
		}
	}
	if !stands {
		return failed(fmt.Errorf("transaction %s, which made what waited, does not stand any more", w.Earlier.TX), "begin anew: 'mpps tune …'")
	}
	f.earlier = &w.Earlier
	return nil
}
