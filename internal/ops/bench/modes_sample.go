package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/search"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/outcome"
	"mpps/internal/owned"
)

// sampler takes the samples of a campaign on this machine. Each sample opens and closes what it needs, so that none
// finds a program or port of another.
type sampler struct {
	machine *rig.Machine
	plan    *measure.ModesPlan
	options rig.Options
	secret  []byte
	version string
	alone   map[string]bool       // modes whose generator and receiver have been measured alone
	stopped map[int]bool          // processes that were found stopped
	turns   map[string]*planTurns // by the name of a mode's plan
}

// openPlans opens the plans of all modes, before anything is measured.
func (t *sampler) openPlans(ctx context.Context, env *ops.Env, foreign bool) (err error) {
	for _, m := range t.plan.Modes {
		if m.Plan == "" || t.turns[m.Plan] != nil {
			continue
		}
		if t.turns[m.Plan], err = openTurns(ctx, env, change.Source{Name: m.Plan, Foreign: foreign}); err != nil {
			delete(t.turns, m.Plan)
			return fmt.Errorf("mode %s: plan %s: %w", m.Name, m.Plan, err)
		}
	}
	return nil
}

// closePlans rolls back what still stands: an interrupted turn has no other way to say that it could not.
func (t *sampler) closePlans(ctx context.Context) (err error) {
	for _, turns := range t.turns {
		err = errors.Join(err, turns.Back(ctx), turns.close())
	}
	return err
}

// take takes one sample. A permanent error (a frame larger than the MTU, a missing interface) ends the campaign.
func (t *sampler) take(ctx context.Context, turn measure.Turn) (measure.ModeCell, error) {
	cell := measure.ModeCell{Turn: turn, Started: time.Now().UTC()}
	run, err := t.once(ctx, turn, &cell)
	cell.Seconds = time.Since(cell.Started).Seconds()
	switch {
	case permanent(err):
		return cell, err
	case err != nil:
		cell.Error = err.Error()
	case len(run.Samples) == 0:
		cell.Error = "the trial was cut short"
	default:
		cell.Sample, cell.Counters = &run.Samples[0], run.Counters
		cell.Warnings = append(cell.Warnings, run.Warnings...)
	}
	return cell, nil
}

// permanent reports whether a retry would fail in the same way.
func permanent(err error) bool {
	var wrong *outcome.Fault
	return errors.As(err, &wrong) && wrong.Code == outcome.CodeUsage || errors.Is(err, agent.ErrVersion) ||
		errors.Is(err, agent.ErrSecret) || errors.Is(err, agent.ErrHello) || errors.Is(err, errSwitch)
}

// errSwitch means that the host is not as the rest of the campaign needs it.
var errSwitch = errors.New("switch the mode's plan")

func switched(err error) error {
	if err != nil {
		err = fmt.Errorf("%w: %w", errSwitch, err)
	}
	return err
}

func (t *sampler) once(ctx context.Context, turn measure.Turn, cell *measure.ModeCell) (_ *measure.Run, err error) {
	mode, w, err := t.plan.Of(turn)
	if err != nil {
		return nil, err
	}
	run := &measure.Run{Kind: w.Kind, Load: w.Load}
	if by := t.turns[mode.Plan]; by != nil {
		defer func() { err = errors.Join(err, switched(by.Back(ctx))) }()
		if err := by.Apply(ctx); err != nil {
			return run, switched(err)
		}
	}
	freeze, err := t.thaw(mode)
	if err != nil {
		return run, err
	}
	defer freeze()
	if w.Kind == measure.PPS {
		return run, t.packets(ctx, mode, w, run, cell)
	}
	return run, t.talk(ctx, mode, w, run, cell)
}

// packets sends test frames to a mode's agent.
func (t *sampler) packets(ctx context.Context, mode measure.Mode, w measure.Workload, run *measure.Run,
	cell *measure.ModeCell) (err error) {
	o, from, err := t.agent(mode)
	if err != nil {
		return err
	}
	if w.Search > 0 {
		run.Load.Rate = 1 // trials are paced, which generators must know from the start
	}
	way := rig.With{Agent: o, Bridge: mode.Via, From: from}
	if mode.Gateway != "" {
		if way.Gateway, err = netip.ParseAddr(mode.Gateway); err != nil {
			return err
		}
	}
	p, err := rig.WithAgent(ctx, t.machine, way, run.Load, t.options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	b := &measure.Bench{Path: p}
	if w.Search > 0 {
		err = t.search(ctx, b, w, run, cell)
	} else {
		err = t.trial(ctx, b, mode, run, cell)
	}
	cell.From, cell.To, cell.Generator, cell.Sink = p.From, p.To, p.Generator(), p.Sink()
	cell.FarHost, cell.FarKernel = p.FarHost, p.FarKernel
	cell.Warnings = p.Warnings
	return err
}

// trial sends as fast as possible, once. The first time for a mode, generator and receiver are measured alone as well.
func (t *sampler) trial(ctx context.Context, b *measure.Bench, mode measure.Mode, run *measure.Run,
	cell *measure.ModeCell) error {
	first := !t.alone[mode.Name]
	if err := b.Once(ctx, run, first); err != nil {
		return err
	}
	if first {
		t.alone[mode.Name] = true
		cell.Baseline = &run.Baseline
	}
	return nil
}

// search finds the highest rate without loss.
func (t *sampler) search(ctx context.Context, b *measure.Bench, w measure.Workload, run *measure.Run,
	cell *measure.ModeCell) error {
	s := &measure.Search{}
	d := &measure.Searched{Bench: b, Load: run.Load}
	err := d.Search(ctx, s, search.Options{Mode: search.Fast, MinPPS: 1, PDR: 0.005, Width: 0.005,
		FrameBytes: run.Load.FrameBytes, Budget: w.Search})
	if err != nil {
		return err
	}
	sample := measure.Sample{Seconds: s.Seconds, CPU: []measure.MachineCPU{}}
	switch lower := s.NDR.LowerPPS; {
	case lower != nil:
		sample.PPS, sample.OfferedPPS = *lower, *lower
	case s.NDR.None == "":
		return fmt.Errorf("the search found no rate without loss within %v of traffic", w.Search)
	}
	run.Samples, run.Counters = []measure.Sample{sample}, s.Counters
	run.Warnings = append(run.Warnings, s.Warnings...)
	cell.Search, cell.Baseline, cell.LimitedBy = &s.Result, &s.Baseline, measure.Limit(s.LimitedBy)
	return nil
}

// talk measures a conversation over TCP with a mode's agent.
func (t *sampler) talk(ctx context.Context, mode measure.Mode, w measure.Workload, run *measure.Run,
	cell *measure.ModeCell) (err error) {
	c, err := t.connect(ctx, mode, w)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := (&measure.Conversation{Exchange: c}).Once(ctx, run); err != nil {
		return err
	}
	cell.From, cell.To, cell.FarHost, cell.FarKernel = c.From, c.To, c.FarHost, c.FarKernel
	cell.Warnings, cell.Engine = c.Warnings, c.Engine.Version()
	return nil
}

// connect sets up a conversation with a mode's agent, or with the server of a workload's engine beside it.
func (t *sampler) connect(ctx context.Context, mode measure.Mode, w measure.Workload) (*rig.Talk, error) {
	o, _, err := t.agent(mode)
	if err != nil {
		return nil, err
	}
	if w.Engine != "" {
		return rig.EngineWithAgent(ctx, t.machine, w.Engine, w.Kind, o, w.EnginePort, w.Reverse)
	}
	return rig.TalkWithAgent(ctx, t.machine, w.Kind, o, w.Reverse)
}

// agent returns the options of the connection to a mode's agent, from the namespace of the mode's endpoint.
func (t *sampler) agent(mode measure.Mode) (o rig.AgentOptions, from traffic.Endpoint, err error) {
	if mode.From != "" {
		if from, err = traffic.ParseEndpoint(mode.From); err != nil {
			return o, from, err
		}
	}
	return rig.AgentOptions{Address: mode.Agent, Version: t.version, Secret: t.secret, NIC: mode.NIC,
		Netns: from.Netns}, from, nil
}

// greetAttempts is how often an agent is called before the campaign begins: a busy machine answers late.
const greetAttempts = 6

// greet checks that every agent answers, has the right version and secret, and has the requested interface, and that
// the engine's server answers beside it.
func (t *sampler) greet(ctx context.Context) error {
	for _, mode := range t.plan.Modes {
		var err error
		for range greetAttempts {
			if err = t.greetOne(ctx, mode); err == nil || ctx.Err() != nil || permanent(err) {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		if err != nil {
			return fmt.Errorf("mode %s: %w", mode.Name, err)
		}
	}
	return nil
}

func (t *sampler) greetOne(ctx context.Context, mode measure.Mode) error {
	freeze, err := t.thaw(mode)
	if err != nil {
		return err
	}
	defer freeze()
	greeting := measure.Workload{Kind: measure.RR}
	for _, w := range t.plan.Workloads {
		if w.Engine != "" {
			greeting = w
		}
	}
	c, err := t.connect(ctx, mode, greeting)
	if err != nil {
		return err
	}
	return c.Close()
}

// stopPatience is how long a guest that was sent SIGSTOP may take to be stopped: each of its threads has to be.
const stopPatience = 5 * time.Second

// thaw lets a frozen guest run until freeze is called or mpps ends; it does nothing for other guests. The PID file's
// name comes from a file of the user: the process must be a guest's QEMU and already stopped, so that no other is
// stopped.
func (t *sampler) thaw(mode measure.Mode) (freeze func(), err error) {
	if mode.Frozen == "" {
		return func() {}, nil
	}
	f, err := ops.OpenFile(mode.Frozen)
	if err != nil {
		return nil, fmt.Errorf("frozen guest: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if err != nil {
		return nil, fmt.Errorf("frozen guest: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		return nil, fmt.Errorf("frozen guest: found %q in %s, expected the number of a process", text, mode.Frozen)
	}
	freeze, err = t.thawProcess(pid)
	if err != nil {
		return nil, fmt.Errorf("frozen guest: process %d of %s: %w", pid, mode.Frozen, err)
	}
	return freeze, nil
}

func (t *sampler) thawProcess(pid int) (freeze func(), err error) {
	process, err := unix.PidfdOpen(pid, 0) // before the checks: if the number is reused after them, Thaw fails
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(process) }()
	if !t.machine.IsGuest(pid) {
		return nil, errors.New("it is not the QEMU process of a guest, or not the system's QEMU")
	}
	for end := time.Now().Add(stopPatience); !t.stopped[pid]; time.Sleep(10 * time.Millisecond) {
		if t.stopped[pid] = owned.Stopped(pid); !t.stopped[pid] && time.Now().After(end) {
			return nil, fmt.Errorf("it runs: stop it first (kill -STOP %d), or leave frozen= out", pid)
		}
	}
	return owned.Thaw(process)
}
