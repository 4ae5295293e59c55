package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/cli"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) sriovCommand() *cobra.Command {
	return verbs("sriov", "create, configure, assign and release virtual functions",
		a.sriovCheckCommand(), a.sriovListCommand(), // in the order of a function's life
		a.sriovCreateCommand(),
		a.sriovDestroyCommand(),
		a.sriovSetCommand(),
		a.sriovAssignCommand(),
		a.sriovReleaseCommand(),
		a.sriovResetCommand(),
		a.sriovRecoverCommand(),
		a.sriovGuestCommand(),
		a.sriovMigratePlanCommand(),
	)
}

func (a *app) sriovListCommand() *cobra.Command {
	var which sriov.Which
	var snapshot string
	cmd := verb("list [PF]", "list virtual functions with their guests and settings", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
			which.PF = firstArg(given)
			h, l, err := vf.List(cmd.Context(), a.env(), snapshot, which)
			if err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "sriov-list", Host: h.Name, Result: l, Warnings: ops.UnseenWarnings(h),
				Text: func(t *report.Text) { report.SRIOVList(t, l) },
			})
		})
	cmd.Flags().BoolVar(&which.Free, "free", false, "show only free VFs")
	cmd.Flags().StringVar(&which.Guest, "guest", "", "show only VFs of this guest")
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	return cmd
}

func (a *app) sriovCheckCommand() *cobra.Command {
	var snapshot string
	var failOn failOn
	cmd := verb("check [PF]", "check that firmware, kernel and NIC are ready for SR-IOV", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
			fails, err := failOn.severity()
			if err != nil {
				return err
			}
			h, c, err := vf.Check(cmd.Context(), a.env(), snapshot, firstArg(given))
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-check", Host: h.Name, Result: c, Warnings: ops.AccessWarnings(h),
				Text: func(t *report.Text) { report.SRIOVCheck(t, c, a.verbose) },
			})
			return cmp.Or(err, exitIf(fails != nil && len(c.AtLeast(*fails)) > 0, outcome.CodeDrifted))
		})
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	failOn.add(cmd, "check")
	return cmd
}

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
	cmd := verb("create PF -n N", "create virtual functions", cobra.ExactArgs(1),
		func(cmd *cobra.Command, given []string) error {
			ask.PF, ask.Persist, ask.Force = given[0], sriov.Persist(persist), flags.force
			if !cmd.Flags().Changed("number") {
				return usage(fmt.Errorf("how many virtual functions: expected -n N"),
					"'mpps sriov destroy' takes all of them away")
			}
			if err := checkConfirm(flags.Confirm); err != nil {
				return err
			}
			d, err := vf.Create(cmd.Context(), a.env(), ask, flags.Options)
			return a.answerApply(d, err, flags.detailed)
		})
	flags.add(cmd)
	cli.IntVar(cmd.Flags(), &ask.Count, "number,n", 0, 0, 1<<16, "number of virtual functions")
	cmd.Flags().BoolVar(&ask.NoHostDriver, "no-host-driver", false, "do not bind host drivers to the VFs")
	cmd.Flags().BoolVar(&ask.Blacklist, "blacklist", false, "blacklist the VF driver on the host (modprobe.d)")
	cmd.Flags().BoolVar(&ask.LeaveDown, "leave-down", false, "do not bring the PF up")
	cli.ChoiceVar(cmd.Flags(), &persist, "persist", string(sriov.ByUnit), "what creates the VFs at boot: unit, link "+
		"or none", string(sriov.ByUnit), string(sriov.ByLink), string(sriov.ByNoOne))
	return cmd
}

func (a *app) sriovDestroyCommand() *cobra.Command {
	var flags changeFlags
	cmd := verb("destroy PF", "remove all virtual functions of a NIC", cobra.ExactArgs(1),
		func(cmd *cobra.Command, given []string) error {
			if err := checkConfirm(flags.Confirm); err != nil {
				return err
			}
			d, err := vf.Destroy(cmd.Context(), a.env(), given[0], flags.force, flags.Options)
			return a.answerApply(d, err, flags.detailed)
		})
	flags.add(cmd)
	return cmd
}

func (a *app) sriovSetCommand() *cobra.Command {
	var dryRun, detailed bool
	cmd := verb("set VF ATTRIBUTE VALUE...", "set a virtual function's MAC, VLAN, rate and trust",
		cobra.MinimumNArgs(3), func(cmd *cobra.Command, given []string) error {
			d, err := vf.Set(cmd.Context(), a.env(), given, change.Options{DryRun: dryRun})
			return a.answerApply(d, err, detailed)
		})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}

func (a *app) sriovResetCommand() *cobra.Command {
	var dryRun, detailed bool
	var ask vf.ResetOptions
	cmd := verb("reset {VF | --guest NAME | --all-free PF}",
		"reset a virtual function, so nothing of its last guest remains", cobra.MaximumNArgs(3),
		func(cmd *cobra.Command, given []string) error {
			named := 0
			for _, is := range []bool{len(given) > 0, ask.Guest != "", ask.Free != ""} {
				if is {
					named++
				}
			}
			if named != 1 {
				return usage(errors.New("expected a virtual function, --guest NAME or --all-free PF"), "")
			}
			ask.Words = given
			d, err := vf.Reset(cmd.Context(), a.env(), ask, change.Options{DryRun: dryRun})
			return a.answerApply(d, err, detailed)
		})
	cmd.Flags().StringVar(&ask.Guest, "guest", "", "reset all VFs of this guest")
	cmd.Flags().StringVar(&ask.Free, "all-free", "", "reset all free VFs of this PF")
	cmd.Flags().BoolVar(&ask.AttributesOnly, "attributes-only", false, "reset only attributes, no FLR")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	return cmd
}

func (a *app) sriovRecoverCommand() *cobra.Command {
	var dryRun bool
	cmd := verb("recover VF", "diagnose a virtual function and repair it", cobra.RangeArgs(1, 3),
		func(cmd *cobra.Command, given []string) error {
			name, r, err := vf.Recover(cmd.Context(), a.env(), given, dryRun)
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-recover", Host: name, Result: r,
				Text: func(t *report.Text) { report.SRIOVRecover(t, *r, dryRun) },
			})
			return cmp.Or(err, exitIf(r.Verdict != sriov.Well && r.After != sriov.Well, outcome.CodeDrifted))
		})
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "diagnose only; change nothing")
	return cmd
}
