package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/ops"
	"mpps/internal/ops/vf"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) sriovMigratePlanCommand() *cobra.Command {
	var snapshot string
	var ask sriov.MigrateRequest
	cmd := &cobra.Command{
		Use:   "migrate-plan GUEST --to HOST",
		Short: "explain how to migrate a guest with virtual functions",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			ask.Guest = given[0]
			if ask.To == "" {
				return usage(errors.New("expected --to with the host that the guest goes to"),
					"--to HOST, as ssh and libvirt reach it")
			}
			h, found, err := vf.Migrate(cmd.Context(), a.env(), ask, snapshot)
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-migrate-plan", Host: h.Name, Result: found, Warnings: ops.UnseenWarnings(h),
				Text: func(t *report.Text) { report.Migration(t, found) },
			})
			return cmp.Or(err, exitIf(len(found.Missing()) > 0, outcome.CodeDrifted))
		},
	}
	cmd.Flags().StringVar(&ask.To, "to", "", "name of the destination host")
	cmd.Flags().StringVar(&snapshot, "to-snapshot", "", "snapshot file of the destination host")
	cmd.Flags().BoolVar(&ask.Failover, "failover", false, "plan a virtio NIC and the VF as a failover pair")
	return cmd
}
