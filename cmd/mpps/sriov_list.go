package main

import (
	"context"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/sriov"
)

func (a *app) sriovListCommand() *cobra.Command {
	var which sriov.Which
	var snapshot string
	cmd := &cobra.Command{
		Use:   "list [PF]",
		Short: "every virtual function: who has it, and what is set for it",
		Long: `Lists the virtual functions of all NICs, or of one physical function (its name
or PCI address): which guest runs with each, or is only defined with it (off),
or was given it by mpps (reserved); which are free; MAC, VLAN, rates in Mb/s,
spoof check, trust, link state, queues, and traffic where the driver counts. A
function that several definitions name is marked !+1. Without a terminal of 150
columns settings that a new function has are left out; --json has all of them.

  mpps sriov list
  mpps sriov list ens1f0 --free
  mpps sriov list --guest web1 --json
  mpps sriov list --snapshot customer.json`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if len(argv) > 0 {
				which.PF = argv[0]
			}
			h, err := a.functions(cmd.Context(), snapshot)
			if err != nil {
				return err
			}
			l, err := sriov.Show(h, which)
			if err != nil {
				return outcome.Failed(err, outcome.HintOf(err, ""))
			}
			return a.out.Answer(report.Answer{
				Verb: "sriov-list", Host: h.Name, Result: l, Warnings: ops.Unseen(h),
				Text: func(t *report.Text) { report.SRIOVList(t, l) },
			})
		},
	}
	cmd.Flags().BoolVar(&which.Free, "free", false, "only functions that nobody has")
	cmd.Flags().StringVar(&which.Guest, "guest", "", "only functions of this guest")
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	return cmd
}

// functions is what is known of virtual functions and their guests, of this machine or of a snapshot.
func (a *app) functions(ctx context.Context, snapshot string) (*facts.Host, error) {
	if snapshot != "" {
		return ops.ReadSnapshot(snapshot)
	}
	m, err := a.env().Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Functions(ctx), nil
}
