package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/advise/tuned/export"
	"mpps/internal/ops/profile"
	"mpps/internal/report"
)

func (a *app) exportTunedCommand() *cobra.Command {
	var flags goalFlags
	var ask profile.Request
	var as, label, pool string
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
			if as != "profile" && as != "cr" {
				return usage(fmt.Errorf("--as %q: expected profile or cr", as), "")
			}
			if err := checkNodes(label, pool); err != nil {
				return err
			}
			if err := export.CheckName(ask.Name); err != nil {
				return usage(err, "--name takes another")
			}
			ask.Flags = flags.commandLine()
			output := ask.Output
			if as != "profile" { // one file
				ask.Output = ""
			}
			h, p, warnings, err := profile.Export(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			if as != "profile" {
				e, err := profile.Tuned(p, a.env().Version, h.Name, label, pool, output)
				if err != nil {
					return err
				}
				return a.out.Answer(report.Answer{
					Verb: "export-kube", Host: h.Name, Result: e, Warnings: warnings,
					Text: func(t *report.Text) { report.KubeExport(t, e) },
				})
			}
			return a.out.Answer(report.Answer{
				Verb: "export-tuned", Host: h.Name, Result: p, Warnings: warnings,
				Text: func(t *report.Text) { report.TunedExport(t, p, a.verbose) },
			})
		},
	}
	flags.add(cmd, a)
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cmd.Flags().StringVar(&ask.Name, "name", "", "profile name (default: mpps-GUEST, or mpps- and the kind of target)")
	cmd.Flags().StringVarP(&ask.Output, "output", "o", "", "parent directory of the profile's directory; with "+
		"--as cr: file (default: write nothing)")
	cmd.Flags().StringVar(&as, "as", "profile", "profile, or cr: an object of OpenShift's Node Tuning Operator")
	cmd.Flags().StringVar(&label, "node-label", "", "with --as cr: label of the nodes, as KEY=VALUE (default: the "+
		"host's name)")
	cmd.Flags().StringVar(&pool, "pool", "", "with --as cr: machine configuration pool, which kernel arguments need")
	return cmd
}
