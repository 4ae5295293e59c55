package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/queuepath"
	"mpps/internal/setting"
)

// steerFlags are the flags of mpps path --steer.
type steerFlags struct {
	on, dryRun, detailed bool
	nic, by              string
	weights              []string
}

func (f *steerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "steer", false, "give each guest's queues NIC queues of their own, as a transaction that 'mpps rollback' undoes")
	flags.StringVar(&f.nic, "nic", "", "with --steer: only this NIC, and those that the same guests send by")
	flags.StringArrayVar(&f.weights, "weight", nil, "with --steer: GUEST=N, a guest's share where there are too few queues (1 where not said); repeated")
	flags.StringVar(&f.by, "by", "", "with --steer: xps or program instead of the gentlest that works")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --steer: read everything, write nothing")
	flags.BoolVar(&f.detailed, "detailed-exit-code", false, "with --steer: exit with 2 where changes were made or would be")
}

// steeringFlags are those that mean something with --steer only.
var steeringFlags = []string{"nic", "weight", "by", "dry-run", "detailed-exit-code"}

// check refuses flags that do not go together. given tells whether one stands on the command line.
func (f *steerFlags) check(p *pathFlags, given func(string) bool) error {
	if !f.on {
		for _, name := range steeringFlags {
			if given(name) {
				return usage(fmt.Errorf("--%s without --steer: watching changes nothing", name), "add --steer")
			}
		}
		return nil
	}
	for _, name := range []string{"netns", "guest", "every-packet", "output"} {
		if given(name) {
			return usage(fmt.Errorf("--steer and --%s: steering is of all guests of a NIC of this host, and draws nothing", name), "give one of the two")
		}
	}
	switch queuepath.Means(f.by) {
	case "", queuepath.ByXPS, queuepath.ByProgram:
	default:
		return usage(fmt.Errorf("--by %s: expected xps or program", f.by), "")
	}
	if p.interval < 0 || p.interval > time.Hour {
		return usage(fmt.Errorf("--for %v: expected at most an hour; 0 plans from what the host is, without watching", p.interval), "")
	}
	return nil
}

// parsed are the weights by guest, of guests of this host.
func (f *steerFlags) parsed(h *facts.Host) (map[string]float64, error) {
	weights := map[string]float64{}
	for _, word := range f.weights {
		at := strings.LastIndexByte(word, '=')
		if at < 1 {
			return nil, usage(fmt.Errorf("--weight %s: expected GUEST=N", word), "such as --weight vm1=2")
		}
		name := word[:at]
		n, err := strconv.ParseFloat(word[at+1:], 64)
		if err != nil || !(n >= 0.001 && n <= 1000) {
			return nil, usage(fmt.Errorf("--weight %s: expected a number from 0.001 to 1000 behind the guest's name", word), "such as --weight vm1=2")
		}
		if _, twice := weights[name]; twice {
			return nil, usage(fmt.Errorf("--weight %s: %s is given twice", word, name), "")
		}
		if err := ops.HasGuest(h, name); err != nil {
			return nil, err
		}
		weights[name] = n
	}
	return weights, nil
}

// runSteer plans from what was watched and what the host is, and carries it out.
func (a *app) runSteer(ctx context.Context, p *pathFlags) error {
	f := &p.steer
	var planned *queuepath.Steering
	var stock *facts.Host
	wish := func(h *facts.Host, read func(...setting.Address)) ([]plan.Change, error) {
		weights, err := f.parsed(h)
		if err != nil {
			return nil, err
		}
		seen, err := a.watchToSteer(ctx, p.interval, h)
		if err != nil {
			return nil, err
		}
		standing, err := a.askLanes(h)
		if err != nil {
			return nil, err
		}
		options := queuepath.SteerOptions{NIC: f.nic, Weights: weights, By: queuepath.Means(f.by), Standing: standing}
		read(queuepath.SteerAddresses(h, seen, options)...)
		s, err := queuepath.Steer(h, seen, options)
		if err != nil {
			return nil, err
		}
		a.tellSteering(s)
		planned, stock = s, h
		return s.Changes, nil
	}
	look := func(ctx context.Context, _ *host.Machine) ([]outcome.Warning, error) {
		return a.watchSteered(ctx, p.interval, stock, planned)
	}
	if f.dryRun || p.interval == 0 || a.root != "/" {
		look = nil
	}
	return a.carryOutAnd(ctx, goal.Goal{}, wish, apply.Options{DryRun: f.dryRun}, f.detailed, look)
}

// askLanes asks the kernel whether it takes lanes, and which NICs have some now.
func (a *app) askLanes(h *facts.Host) (standing []string, err error) {
	m, err := a.env().Open()
	if err != nil {
		return nil, err
	}
	m.AskLanes(h)
	nics, err := m.SteeredNICs()
	return nics, errors.Join(err, m.Close())
}

// tellSteering says what was chosen and why, and what would help besides. Programs find it among the warnings.
func (a *app) tellSteering(s *queuepath.Steering) {
	for _, g := range s.Groups {
		text := fmt.Sprintf("%s: %s: %s", strings.Join(g.NICs, ", "), g.Means.Words(), g.Why)
		if a.json {
			a.notes = append(a.notes, outcome.Warning{Code: "steering", Text: text})
			continue
		}
		a.out.Step("%s", text)
	}
	for _, advice := range s.Advice {
		a.notes = append(a.notes, outcome.Warning{Code: "advice", Text: advice.Text, Hint: advice.Command})
	}
}
