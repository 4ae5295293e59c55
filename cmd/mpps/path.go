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
		Long: `Watches packets on their way through the host and counts which queue of which
device they come from and go to, and on which CPU: from a guest's queue (its
tap) over bridge and tunnel to a NIC's transmit queue, and the way back. Packets
are counted in the kernel, none is copied; nothing stays behind, however the
command ends. Needs root, and a kernel that describes its structures (BTF).

Usually it looks in short windows, so that it takes at most 3 % of the highest
rate; every packet within a window is counted. With --every-packet the whole
time is one window, which costs a busy path a quarter of its rate.

What is wrong with the way is named first, with its cause and what mends it;
-o draws the lanes as a page, as bands whose width is packets.

With --steer it mends what it finds: each guest's queues get NIC queues of
their own as far as there are enough, by XPS where each vhost thread has its own
CPU, else by a small program that carries the queue's number from the tap to the
NIC. A tunnel that needs no queue discipline loses the kernel's. That is a
transaction like that of 'mpps apply': journaled, read back, kept by
mpps-restore.service, undone by 'mpps rollback'. Programs and XPS come and go
without losing a packet.

  mpps path
  mpps path --for 30s --guest vm1 -o path.html
  mpps path --netns blue --every-packet --json
  mpps path --steer --dry-run
  mpps path --steer --nic ens1f0 --weight vm1=2

Exit codes of --steer: 0 all is as planned · 1 refused or failed, and put back ·
2 changes were made, or with --dry-run would be (--detailed-exit-code) · 11
another mpps is at work.`,
		Args: args(cobra.NoArgs),
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
	flags.DurationVar(&f.For, "for", 5*time.Second, "how long to watch, at most an hour; SIGINT ends it with what "+
		"was seen")
	flags.StringVar(&f.Netns, "netns", "", "watch the devices of this network namespace (ip netns list) instead of "+
		"one's own")
	flags.StringVar(&f.Guest, "guest", "", "show only the packets from and to this guest")
	flags.BoolVar(&f.EveryPacket, "every-packet", false, "count all packets, not those of short windows; costs the "+
		"path speed")
	flags.StringVarP(&f.output, "output", "o", "", "write the picture to this HTML file; - is standard output")
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
