package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/kube"
	"mpps/internal/advise/tuned/export"
	"mpps/internal/cli"
	"mpps/internal/ops/profile"
	"mpps/internal/report"
)

func (a *app) exportCommand() *cobra.Command {
	return verbs("export", "write a target in another program's format", a.exportTunedCommand(),
		a.exportKubeCommand(profile.SRIOVPolicy, "write policies for the SR-IOV network operator"),
		a.exportKubeCommand(profile.Features, "write an audit as features of Node Feature Discovery"),
		a.exportKubeCommand(profile.Problems, "write a plugin's configuration for the node problem detector"),
		a.exportKubeCommand(profile.DaemonSet, "write a DaemonSet that only watches"))
}

func (a *app) exportTunedCommand() *cobra.Command {
	var flags goalFlags
	var ask profile.Request
	var as, label, pool string
	cmd := verb("tuned", "write a TuneD profile for a target", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) (err error) {
			if ask.Goal, err = flags.namedGoal("export tuned"); err != nil {
				return err
			}
			if ask.Name == "" {
				ask.Name = "mpps-" + string(ask.Goal.Tier())
				if guest := ask.Goal.Guest; guest != "" && export.CheckName("mpps-"+guest) == nil {
					ask.Name = "mpps-" + guest
				}
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
				return a.answerKube(h.Name, e, warnings)
			}
			return a.out.Answer(report.Answer{
				Verb: "export-tuned", Host: h.Name, Result: p, Warnings: warnings,
				Text: func(t *report.Text) { report.TunedExport(t, p, a.verbose) },
			})
		})
	flags.add(cmd, a)
	cmd.Flags().StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cmd.Flags().StringVar(&ask.Name, "name", "", "profile name (default: mpps-GUEST, or mpps- and the kind of target)")
	cmd.Flags().StringVarP(&ask.Output, "output", "o", "", "parent directory of the profile's directory; with "+
		"--as cr: file (default: write nothing)")
	cli.ChoiceVar(cmd.Flags(), &as, "as", "profile", "profile, or cr: an object of OpenShift's Node Tuning Operator",
		"profile", "cr")
	cmd.Flags().StringVar(&label, "node-label", "", "with --as cr: label of the nodes, as KEY=VALUE (default: the "+
		"host's name)")
	cmd.Flags().StringVar(&pool, "pool", "", "with --as cr: machine configuration pool, which kernel arguments need")
	return cmd
}

// checkNodes refuses texts that are no label of nodes and no pool of them. Both may be empty.
func checkNodes(label, pool string) error {
	if label != "" {
		if err := kube.CheckLabel(label); err != nil {
			return usage(fmt.Errorf("--node-label: %w", err), "")
		}
	}
	if pool != "" {
		if err := kube.CheckPool(pool); err != nil {
			return usage(fmt.Errorf("--pool: %w", err), "")
		}
	}
	return nil
}

// answerKube prints a file for a cluster as it is, so that it can be piped on; or, where it was written, what its
// target cannot hold.
func (a *app) answerKube(host string, e *kube.Export, warnings []report.Warning) error {
	if e.Written == "" && !a.json {
		return a.out.Raw([]byte(e.Text), warnings)
	}
	return a.out.Answer(report.Answer{
		Verb: "export-kube", Host: host, Result: e, Warnings: warnings,
		Text: func(t *report.Text) { report.KubeExport(t, e) },
	})
}

// exportKubeCommand writes a file for a cluster, of one kind.
func (a *app) exportKubeCommand(kind, short string) *cobra.Command {
	var flags goalFlags
	ask := profile.KubeRequest{Kind: kind}
	cmd := &cobra.Command{
		Use: kind, Short: short, Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if kind == profile.Features {
				if ask.Goal, err = flags.goal(); err != nil {
					return err
				}
			}
			if err := checkNodes(ask.Label, ""); err != nil {
				return err
			}
			h, e, warnings, err := profile.Kube(cmd.Context(), a.env(), ask)
			if err != nil {
				return err
			}
			return a.answerKube(h.Name, e, warnings)
		},
	}
	f := cmd.Flags()
	switch kind {
	case profile.Features:
		flags.add(cmd, a)
		cli.DurationVar(f, &ask.Valid, "valid", 24*time.Hour, time.Minute, 365*24*time.Hour, "how long the labels hold")
	case profile.DaemonSet:
		f.StringVar(&ask.Image, "image", "busybox:stable", "image with a chroot program")
	}
	if kind == profile.SRIOVPolicy || kind == profile.DaemonSet {
		f.StringVar(&ask.Label, "node-label", "", "label of the nodes, as KEY=VALUE (default: the host's name, or all)")
	}
	f.StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	cli.OutputVar(f, &ask.Output, "output,o", "", "file to write (default: write nothing)")
	return cmd
}
