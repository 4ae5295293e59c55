package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/queuepath"
	"mpps/internal/cli"
	"mpps/internal/ops/change"
	"mpps/internal/ops/queues"
	"mpps/internal/report"
	draw "mpps/internal/report/queues"
)

// pathFlags are the flags of mpps path.
type pathFlags struct {
	queues.Options
	output string
	steer  steerFlags
}

func (a *app) pathCommand() *cobra.Command {
	var f pathFlags
	cmd := verb("path", "show which queues packets take, from guest to wire and back", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			if err := f.steer.check(&f, cmd.Flags().Changed); err != nil {
				return err
			}
			if f.steer.on {
				return a.runSteer(cmd.Context(), &f)
			}
			return a.runPath(cmd.Context(), &f)
		})
	flags := cmd.Flags()
	flags.DurationVar(&f.For, "for", 5*time.Second, "how long to watch, at most 1h; Ctrl-C stops early and reports")
	flags.StringVar(&f.Netns, "netns", "", "watch this network namespace (see 'ip netns list') instead of the "+
		"current one")
	flags.StringVar(&f.Guest, "guest", "", "show only packets from and to this guest")
	flags.BoolVar(&f.EveryPacket, "every-packet", false, "count every packet, not short windows; slows a busy path")
	cli.OutputVar(flags, &f.output, "output,o", "", "draw as this HTML file; - is standard output")
	f.steer.add(cmd)
	return cmd
}

// isNamespace checks the name of a network namespace.
func isNamespace(name string) error {
	if _, err := os.Stat(filepath.Join("/run/netns", name)); err != nil {
		return fmt.Errorf(" %q: there is no such network namespace: 'ip netns list' shows them", name)
	}
	return nil
}

func (f *pathFlags) check(root string) error {
	if f.For <= 0 || f.For > time.Hour {
		return usage(fmt.Errorf("--for %v: expected more than nothing and at most an hour", f.For), "such as --for 5s")
	}
	if root != "/" {
		return usage(errors.New("--root is for recorded machines, and packets are watched on a live one"),
			"leave --root out")
	}
	if f.Netns != "" && f.Guest != "" {
		return usage(errors.New("--netns and --guest: guests have their taps in the host's own namespace"),
			"give one of the two")
	}
	if err := isNamespace(f.Netns); f.Netns != "" && err != nil {
		return usage(fmt.Errorf("--netns%w", err), "")
	}
	return nil
}

func (a *app) runPath(ctx context.Context, f *pathFlags) error {
	if err := f.check(a.root); err != nil {
		return err
	}
	w, err := queues.Watch(ctx, a.env(), f.Options)
	if err != nil {
		return err
	}
	if f.output != "" {
		err := a.writeEncoded(f.output, func(out io.Writer) error {
			return draw.HTML(out, w.Host, w.Path, w.Warnings, version, time.Now())
		})
		if err != nil {
			return err
		}
	}
	if f.output == "-" {
		return nil
	}
	return a.out.Answer(report.Answer{
		Verb: "path", Host: w.Host, Result: w.Path, Warnings: w.Warnings,
		Text: func(t *report.Text) { draw.Text(t, w.Path) },
	})
}

// steerFlags are the flags of mpps path --steer.
type steerFlags struct {
	on, dryRun, detailed bool
	nic, by              string
	weights              []string
}

func (f *steerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.on, "steer", false, "give each guest's queues dedicated NIC queues; undo with 'mpps rollback'")
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
