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
		Long: `Live migration with a virtual function is refused by libvirt and QEMU: its state
is in the card. This says so of the guest, checks both hosts, and prints the
commands of both, in order, with what the traffic does meanwhile and how each
step is undone. It carries nothing out.

A running guest: detach, migrate live, attach; or define anew, with a shutdown.
With --failover: a pair of a virtio NIC and the function (teaming), with which
QEMU does the detaching and attaching. With a snapshot of the other host its
free functions, processor, memory and bridges are checked here, and the commands
name its function; without one they ask there.

  mpps sriov migrate-plan vm1 --to kvm2
  ssh kvm2 mpps snapshot > kvm2.json
  mpps sriov migrate-plan vm1 --to kvm2 --to-snapshot kvm2.json
  mpps sriov migrate-plan vm1 --to kvm2 --failover

Exit codes: 0 nothing is known to stand in the way · 1 there is no plan ·
4 a check failed, which the plan shows · 64 a flag is wrong.`,
		Args: args(cobra.ExactArgs(1)),
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
	cmd.Flags().StringVar(&ask.To, "to", "", "the other host")
	cmd.Flags().StringVar(&snapshot, "to-snapshot", "", "a snapshot of it ('mpps snapshot' there)")
	cmd.Flags().BoolVar(&ask.Failover, "failover", false, "plan a pair of a virtio NIC and the function")
	return cmd
}
