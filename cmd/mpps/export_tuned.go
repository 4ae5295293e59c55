package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/advise/tuned/export"
	"mpps/internal/ops/profile"
	"mpps/internal/report"
)

func (a *app) exportTunedCommand() *cobra.Command {
	var flags goalFlags
	var ask profile.Request
	cmd := &cobra.Command{
		Use:   "tuned",
		Short: "write a TuneD profile for a goal",
		Long: `Makes a profile of TuneD of what a goal needs on this host. It includes
realtime-virtual-host for a latency, virtual-host for packets and
network-throughput for bulk data, gives the variables that these ask for, and
says only what they do not. What TuneD cannot hold (guests' pins, swap,
interrupts of one queue) is listed in the profile and in the answer, each with
the command that sets it. Nothing but the directory is written: 'tuned-adm
profile NAME' puts it in force, and kernel arguments need a reboot.

  mpps export tuned --latency 20us --cpus 2-3 --guest rt1
  mpps export tuned --latency 20us --cpus 2-3 -o /etc/tuned/profiles
  mpps export tuned --pps 1.8M --name fast --snapshot host.json -o profiles

TuneD up to 2.23 looks for profiles in /etc/tuned, later ones in
/etc/tuned/profiles.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if ask.Goal, err = flags.namedGoal("export tuned"); err != nil {
				return err
			}
			if ask.Name == "" {
				ask.Name = "mpps-" + string(ask.Goal.Tier())
				if guest := ask.Goal.Guest; guest != "" && export.CheckName("mpps-"+guest) == nil {
					ask.Name = "mpps-" + guest
				}
			}
			if err := export.CheckName(ask.Name); err != nil {
				return usage(err, "--name takes another")
			}
			ask.Flags = flags.commandLine()
			h, p, warnings, err := profile.Export(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "export-tuned", Host: h.Name, Result: p, Warnings: warnings,
				Text: func(t *report.Text) { report.TunedExport(t, p, a.verbose) },
			})
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "a snapshot file instead of this machine")
	cmd.Flags().StringVar(&ask.Name, "name", "", "of the profile (default mpps- and the guest's name, or the tier)")
	cmd.Flags().StringVarP(&ask.Output, "output", "o", "", "the directory below which the profile's directory is made")
	return cmd
}
