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
		Short: "write a TuneD profile for a target",
		Args:  args(cobra.NoArgs),
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
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cmd.Flags().StringVar(&ask.Name, "name", "", "profile name (default: mpps-GUEST, or mpps- and the kind of target)")
	cmd.Flags().StringVarP(&ask.Output, "output", "o", "", "parent directory of the profile's directory (default: "+
		"write nothing)")
	return cmd
}
