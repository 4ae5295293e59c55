package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

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
	cmd := &cobra.Command{
		Use:   "path",
		Short: "show which queues packets take, from guest to wire and back",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.steer.check(&f, cmd.Flags().Changed); err != nil {
				return err
			}
			if f.steer.on {
				return a.runSteer(cmd.Context(), &f)
			}
			return a.runPath(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.For, "for", 5*time.Second, "how long to watch, at most 1h; Ctrl-C stops early and reports")
	flags.StringVar(&f.Netns, "netns", "", "watch this network namespace (see 'ip netns list') instead of the "+
		"current one")
	flags.StringVar(&f.Guest, "guest", "", "show only packets from and to this guest")
	flags.BoolVar(&f.EveryPacket, "every-packet", false, "count every packet, not short windows; slows a busy path")
	flags.StringVarP(&f.output, "output", "o", "", "draw as this HTML file; - is standard output")
	f.steer.add(cmd)
	return cmd
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
