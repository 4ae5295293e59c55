package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"
)

// changeFlags are the flags of verbs that change the number of VFs.
type changeFlags struct {
	change.Options
	detailed, force bool
}

func (f *changeFlags) add(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.Confirm, "confirm", change.ConfirmByRisk, "revert unless confirmed within this time, "+
		"such as 60s (default: 60s if the NIC carries your session; 0 turns it off)")
	cmd.Flags().Lookup("confirm").DefValue = "0s"
	cmd.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&f.detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	cmd.Flags().BoolVar(&f.force, "force", false, "also remove VFs that are only reserved or have an IP address on "+
		"the host")
}

func (a *app) sriovCreateCommand() *cobra.Command {
	var flags changeFlags
	var ask sriov.CreateRequest
	var persist string
	cmd := &cobra.Command{
		Use:   "create PF -n N",
		Short: "create virtual functions",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			ask.PF, ask.Persist, ask.Force = given[0], sriov.Persist(persist), flags.force
			if !slices.Contains([]sriov.Persist{sriov.ByUnit, sriov.ByLink, sriov.ByNoOne}, ask.Persist) {
				return usage(fmt.Errorf("--persist %q: expected unit, link or none", persist), "")
			}
			if !cmd.Flags().Changed("number") {
				return usage(fmt.Errorf("how many virtual functions: expected -n N"),
					"'mpps sriov destroy' takes all of them away")
			}
			if err := checkConfirm(flags.Confirm); err != nil {
				return err
			}
			d, err := vf.Create(cmd.Context(), a.env(), ask, flags.Options)
			return a.answerApply(d, err, flags.detailed)
		},
	}
	flags.add(cmd)
	cmd.Flags().IntVarP(&ask.Count, "number", "n", 0, "number of virtual functions")
	cmd.Flags().BoolVar(&ask.NoHostDriver, "no-host-driver", false, "do not bind host drivers to the VFs")
	cmd.Flags().BoolVar(&ask.Blacklist, "blacklist", false, "blacklist the VF driver on the host (modprobe.d)")
	cmd.Flags().BoolVar(&ask.LeaveDown, "leave-down", false, "do not bring the PF up")
	cmd.Flags().StringVar(&persist, "persist", string(sriov.ByUnit), "what creates the VFs at boot: unit, link or none")
	return cmd
}

func (a *app) sriovDestroyCommand() *cobra.Command {
	var flags changeFlags
	cmd := &cobra.Command{
		Use:   "destroy PF",
		Short: "remove all virtual functions of a NIC",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if err := checkConfirm(flags.Confirm); err != nil {
				return err
			}
			d, err := vf.Destroy(cmd.Context(), a.env(), given[0], flags.force, flags.Options)
			return a.answerApply(d, err, flags.detailed)
		},
	}
	flags.add(cmd)
	return cmd
}
