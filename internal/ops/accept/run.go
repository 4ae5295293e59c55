package accept

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mpps/internal/advise/plan"
	"mpps/internal/measure/acceptance"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/ops/bench"
	"mpps/internal/ops/making"
	"mpps/internal/outcome"
)

// Runner runs experiments by calling this program's own commands.
type Runner struct {
	Env     *ops.Env
	Report  *Report
	Execute func(ctx context.Context, argv []string, trial func()) (Answer, error) // trial: as ops.Env.Trial

	room *making.Room // where the guests of a campaign are made; nil: none are
}

// Answer is the answer of a command: its JSON, its exit code, and the restarts that its changes wait for. An exit code
// that is an answer (drifted, findings) comes without an error.
type Answer struct {
	JSON     []byte
	Code     int
	Restarts []plan.Restart
}

// Run runs experiments one after the other until one must wait or fails, and returns their runs. With resume it
// continues unfinished runs with their own inputs, except that in.Keep is added.
func (x *Runner) Run(ctx context.Context, chosen []*acceptance.Experiment, in acceptance.Inputs,
	resume bool) ([]*acceptance.Run, error) {
	p := x.Report
	var runs []*acceptance.Run
	var err error
	for _, e := range chosen {
		r := p.Last(e.Name)
		switch {
		case resume && r.Unfinished():
			r.Inputs.Keep = r.Inputs.Keep || in.Keep
			if err := p.renew(r); err != nil {
				return runs, err
			}
			err = x.inRoom(ctx, len(r.Inputs.Made) > 0, func() error { return x.Continue(ctx, r) })
		case resume && len(chosen) == 1:
			return runs, outcome.Failed(fmt.Errorf("there is no run of %s in %s that could go on", e.Name, p.Dir),
				"without --resume a new run is begun")
		case resume && r != nil: // done already
			continue
		case r.Unfinished() && len(r.Standing) > 0:
			return runs, outcome.Failed(fmt.Errorf("a run of %s has changed this host and is not at its end: %s",
				e.Name, r.Why),
				fmt.Sprintf("'mpps acceptance %s --resume -o %s' goes on; 'mpps rollback %s' puts back what it "+
					"changed", e.Name, p.Dir, r.Standing[len(r.Standing)-1]))
		default:
			err = x.inRoom(ctx, e.MakesGuests(in), func() (err error) {
				r, err = x.begin(ctx, e, in)
				return err
			})
		}
		if r != nil {
			runs = append(runs, r)
		}
		if err != nil || r != nil && r.State != acceptance.Done && r.State != acceptance.Lacking {
			break
		}
	}
	return runs, err
}

// begin checks the prerequisites of an experiment and, if they are met, runs it.
func (x *Runner) begin(ctx context.Context, e *acceptance.Experiment, in acceptance.Inputs) (*acceptance.Run, error) {
	p := x.Report
	in, seen, err := x.LookAround(ctx, e, in)
	if err != nil {
		return nil, err
	}
	machine := acceptance.MachineOf(seen.Host, in)
	machine.Emulated = machine.Emulated || in.Lab
	if err := p.SetMachine(machine); err != nil {
		return nil, err
	}
	in.Dir = filepath.Join(p.Dir, p.NextDir(e.Name))
	r := e.Begin(in, time.Now())
	r.Machine, r.Checks = machine, e.Look(in, seen)
	if acceptance.Missing(r.Checks) {
		r.State, r.Why = acceptance.Lacking, "something it needs is missing"
		return r, errors.Join(p.Add(r), p.Save(x.Env.Version))
	}
	if err := p.Add(r); err != nil {
		return nil, err
	}
	return r, x.Continue(ctx, r)
}

// Continue runs the remaining steps of a run. Their outcome is in the run and on disk when it returns.
func (x *Runner) Continue(ctx context.Context, r *acceptance.Run) error {
	p := x.Report
	o, err := Outcomes(r)
	if err != nil {
		return err
	}
	r.State, r.Why, r.Hint = acceptance.Running, "", ""
	if err := x.makeGuests(ctx, r); err != nil {
		return p.Save(x.Env.Version)
	}
	for s := r.Next(); s != nil; s = r.Next() {
		if err := p.Save(x.Env.Version); err != nil {
			return err
		}
		if ctx.Err() != nil {
			recordFailure(ctx, r, s, context.Cause(ctx))
			break
		}
		if s.For != "" {
			waits, err := x.waits(ctx, r, s)
			if err != nil {
				return err
			}
			if waits {
				r.State = acceptance.Waiting
				break
			}
			continue
		}
		x.Env.Out.Step("%s %d/%d: %s", r.Name, slices.IndexFunc(r.Steps,
			func(d acceptance.StepDone) bool { return d.ID == s.ID })+1, len(r.Steps), s.Does)
		began := time.Now()
		s.Started = began.UTC()
		failure := x.step(ctx, r, s, o)
		s.Seconds = time.Since(began).Seconds()
		r.Seconds += s.Seconds
		if failure != nil {
			recordFailure(ctx, r, s, failure)
			break
		}
		s.State, s.Problem = acceptance.Ended, ""
		if err := x.look(ctx, r, s); err != nil {
			return err
		}
	}
	if r.State == acceptance.Running {
		r.State = acceptance.Done
		r.Notes = append(r.Notes, finalNotes(r)...)
	}
	r.Judge(o)
	return p.Save(x.Env.Version)
}

// look updates the run's machine after a step of the phase after the changes: the guest may have other queues then.
func (x *Runner) look(ctx context.Context, r *acceptance.Run, s *acceptance.StepDone) error {
	if s.Phase != acceptance.After {
		return nil
	}
	h, err := x.inventory(ctx)
	if err != nil {
		return err
	}
	r.Machine = acceptance.MachineOf(h, r.Inputs)
	r.Machine.Emulated = r.Machine.Emulated || r.Inputs.Lab
	return nil
}

// recordFailure records what ended a run early, with a hint.
func recordFailure(ctx context.Context, r *acceptance.Run, s *acceptance.StepDone, failure error) {
	code, hint := outcome.Of(failure)
	s.State, s.Code, s.Problem = acceptance.Broke, code, failure.Error()
	r.State, r.Why, r.Hint = acceptance.Failed, fmt.Sprintf("step %s failed: %s", s.ID, failure), hint
	if bench.Interrupted(ctx, failure) || ctx.Err() != nil {
		s.State, r.Why, r.Hint = acceptance.Pending, "interrupted in step "+s.ID, ""
	}
}

// waits reports whether a step still has to wait for a restart or for an agent.
func (x *Runner) waits(ctx context.Context, r *acceptance.Run, s *acceptance.StepDone) (bool, error) {
	m, err := x.Env.Open()
	if err != nil {
		return false, err
	}
	_, boot := m.Identity()
	if err := m.Close(); err != nil {
		return false, err
	}
	h, err := x.inventory(ctx)
	if err != nil {
		return false, err
	}
	now := acceptance.Waited{BootID: boot}
	for _, g := range h.Guests {
		if g.Name == r.Inputs.Guest && g.Active() {
			now.PID = g.PID
		}
	}
	first := s.Waited == nil
	if first {
		s.Waited, s.Started = &now, time.Now().UTC()
	}
	var answers error
	if s.For == acceptance.Answer {
		answers = x.reach(ctx, acceptance.Agent{At: s.At}, r.Inputs.SecretFile)
	}
	over, todo := s.Over(now, answers)
	if over && (s.For == acceptance.Answer || !first) {
		r.Pass(s)
		return false, nil
	}
	r.Why = s.Does
	r.Hint = todo + "; then 'mpps acceptance " + r.Name + " --resume'"
	return true, nil
}

// reach returns an error unless an agent answers with this version and the run's secret.
func (x *Runner) reach(ctx context.Context, a acceptance.Agent, secretFile string) error {
	e := bench.Ends{Agent: a.At, NIC: a.NIC, SecretFile: secretFile}
	e.From.Netns = a.Netns
	return e.Reach(ctx, x.Env.Version)
}

// finalNotes returns what to know about the host once a run is done.
func finalNotes(r *acceptance.Run) []string {
	notes := []string{}
	switch {
	case len(r.Standing) > 0:
		notes = append(notes, "what was changed stands, as asked for: transactions "+strings.Join(r.Standing,
			", ")+"; 'mpps rollback TX', the last one first, puts it back")
	case r.Restarted:
		notes = append(notes, "everything is put back; what was changed for the next start (definitions, kernel "+
			"arguments) is gone after one more start")
	}
	if r.Owes.Boot {
		notes = append(notes, "measured without what waits for a reboot of the host, as asked for")
	}
	if len(r.Owes.Restart) > 0 && len(r.Standing) > 0 {
		notes = append(notes, "still to take effect: "+strings.Join(r.Owes.Restart, ", "))
	}
	return notes
}

// LookAround returns the inputs of an experiment, with what follows from the host, and the facts by which its
// prerequisites are judged.
func (x *Runner) LookAround(ctx context.Context, e *acceptance.Experiment, in acceptance.Inputs) (acceptance.Inputs,
	acceptance.Seen, error) {
	h, err := x.inventory(ctx)
	if err != nil {
		return in, acceptance.Seen{}, err
	}
	in = e.Settle(in, h)
	s := acceptance.Seen{Host: h, Root: h.AsRoot, Agents: map[acceptance.Agent]error{}, Links: map[string]error{}}
	if !x.Env.Live() {
		return in, s, nil
	}
	for _, l := range in.Links() {
		if s.Links[l.Name] == nil {
			s.Links[l.Name] = bench.CheckLink(l.Name, l.Bridge)
		}
	}
	for _, a := range in.Agents() {
		s.Agents[a] = x.reach(ctx, a, in.SecretFile)
	}
	if e.MakesGuests(in) {
		s.Making, err = x.lookAtMaking(ctx, in)
	}
	return in, s, err
}

// inventory reads the machine's inventory without its settings.
func (x *Runner) inventory(ctx context.Context) (*facts.Host, error) {
	h, err := x.Env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	return h.Facts, h.Close()
}
