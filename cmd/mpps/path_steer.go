package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/queuepath"
	"mpps/internal/ops/change"
	"mpps/internal/ops/queues"
)

// steerFlags are the flags of mpps path --steer.
type steerFlags struct {
	on, dryRun, detailed bool
	nic, by              string
	weights              []string
}

func (f *steerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "steer", false, "give each guest's queues NIC queues of their own; undo with 'mpps rollback'")
	flags.StringVar(&f.nic, "nic", "", "with --steer: only this NIC, and others that the same guests use")
	flags.StringArrayVar(&f.weights, "weight", nil, "with --steer: share of a guest if queues are short, GUEST=N "+
		"(default: 1); repeatable")
	flags.StringVar(&f.by, "by", "", "with --steer: method: xps or program (default: xps if it works)")
	flags.BoolVar(&f.dryRun, "dry-run", false, "with --steer: show what would change; write nothing")
	flags.BoolVar(&f.detailed, "detailed-exit-code", false, "with --steer: exit code 2 if changes were or would be "+
		"made")
}

// steeringFlags are the flags that need --steer.
var steeringFlags = []string{"nic", "weight", "by", "dry-run", "detailed-exit-code"}

// check refuses contradicting flags. given reports whether a flag is on the command line.
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
			return usage(fmt.Errorf("--steer and --%s: steering is of all guests of a NIC of this host, and draws "+
				"nothing", name), "give one of the two")
		}
	}
	switch queuepath.Means(f.by) {
	case "", queuepath.ByXPS, queuepath.ByProgram:
	default:
		return usage(fmt.Errorf("--by %s: expected xps or program", f.by), "")
	}
	if p.For < 0 || p.For > time.Hour {
		return usage(fmt.Errorf("--for %v: expected at most an hour; 0 plans from what the host is, without watching",
			p.For), "")
	}
	return nil
}

// parseWeights returns the weights of --weight by guest.
func (f *steerFlags) parseWeights() (map[string]float64, error) {
	weights := map[string]float64{}
	for _, word := range f.weights {
		at := strings.LastIndexByte(word, '=')
		if at < 1 {
			return nil, usage(fmt.Errorf("--weight %s: expected GUEST=N", word), "such as --weight vm1=2")
		}
		name := word[:at]
		n, err := strconv.ParseFloat(word[at+1:], 64)
		if err != nil || !(n >= 0.001 && n <= 1000) {
			return nil, usage(fmt.Errorf("--weight %s: expected a number from 0.001 to 1000 behind the guest's name",
				word), "such as --weight vm1=2")
		}
		if _, twice := weights[name]; twice {
			return nil, usage(fmt.Errorf("--weight %s: %s is given twice", word, name), "")
		}
		weights[name] = n
	}
	return weights, nil
}

// runSteer plans from watched packets and the host's configuration, and applies the plan.
func (a *app) runSteer(ctx context.Context, p *pathFlags) error {
	f := &p.steer
	weights, err := f.parseWeights()
	if err != nil {
		return err
	}
	d, err := queues.Steer(ctx, a.env(), queues.SteerOptions{
		Options: change.Options{DryRun: f.dryRun}, For: p.For, NIC: f.nic, By: queuepath.Means(f.by), Weights: weights,
		Announce: !a.json,
	})
	return a.answerApply(d, err, f.detailed)
}
