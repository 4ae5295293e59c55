package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/kube"
	"mpps/internal/ops/profile"
	"mpps/internal/report"
)

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
			return a.out.Answer(report.Answer{
				Verb: "export-kube", Host: h.Name, Result: e, Warnings: warnings,
				Text: func(t *report.Text) { report.KubeExport(t, e) },
			})
		},
	}
	f := cmd.Flags()
	switch kind {
	case profile.Features:
		flags.add(cmd, a)
		f.DurationVar(&ask.Valid, "valid", 24*time.Hour, "how long the labels hold")
	case profile.DaemonSet:
		f.StringVar(&ask.Image, "image", "busybox:stable", "image with a chroot program")
	}
	if kind == profile.SRIOVPolicy || kind == profile.DaemonSet {
		f.StringVar(&ask.Label, "node-label", "", "label of the nodes, as KEY=VALUE (default: the host's name, or all)")
	}
	f.StringVar(&ask.Snapshot, "snapshot", "", "use this snapshot file instead of this host")
	f.StringVarP(&ask.Output, "output", "o", "", "file to write (default: write nothing)")
	return cmd
}
