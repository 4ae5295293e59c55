package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/advise/sriov"
	"mpps/internal/cli"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

func (a *app) sriovAssignCommand() *cobra.Command {
	var w sriov.Request
	var o retryFlags
	var state string
	attributes := map[string]*string{}
	cmd := verb("assign GUEST", "assign a virtual function to a guest", cobra.ExactArgs(1),
		func(cmd *cobra.Command, given []string) error {
			w.Guest = given[0]
			if !slices.Contains([]string{facts.ByInterface, facts.ByHostdev, facts.ByNetwork}, w.Form) {
				return usage(fmt.Errorf("--as: expected interface, hostdev or network, found %q", w.Form), "")
			}
			if w.Network != "" && w.Form != facts.ByNetwork {
				return usage(errors.New("--network goes with --as network"), "")
			}
			var words []string
			for _, name := range []string{"vlan", "qos", "rate", "min-rate", "spoofchk", "trust", "state"} {
				if *attributes[name] != "" {
					words = append(words, name, *attributes[name])
				}
			}
			if len(words) > 0 {
				var err error
				if w.Sets, err = sriov.ParseSets(words); err != nil {
					return usage(err, "")
				}
			}
			gift, d, err := vf.Assign(cmd.Context(), a.env(), w, o.Options, o.wait)
			return a.answerChange(d, err, o.detailed, report.Answer{
				Verb: "sriov-assign", Result: gift,
				Text: func(t *report.Text) {
					report.AssignResult(t, &gift.Gift, gift.Transaction, o.DryRun, a.verbose)
				},
			})
		})
	flags := cmd.Flags()
	flags.StringVar(&w.PF, "pf", "", "physical function (default: one with a free VF on the guest's NUMA node)")
	flags.StringVar(&w.VF, "vf", "", "VF: number, PF/N or PCI address (default: a free one)")
	flags.StringVar(&w.Form, "as", facts.ByInterface, "kind of attachment: interface, hostdev or network")
	flags.StringVar(&w.Network, "network", "", "libvirt network (pool), created if missing (default: that of the PF)")
	flags.StringVar(&w.MAC, "mac", "", "MAC address of the guest's NIC (default: generated, stable per guest)")
	checkAttribute(flags, "mac")
	for name, what := range map[string]string{
		"vlan":     "VLAN ID; 0 is none",
		"qos":      "priority in the VLAN tag, 0 to 7",
		"rate":     "maximum transmit rate in Mbit/s; 0 is no limit",
		"min-rate": "guaranteed transmit rate in Mbit/s",
		"spoofchk": "drop frames sent from other MAC addresses: on or off",
		"trust":    "allow another MAC address and promiscuous mode: on or off",
	} {
		attributes[name] = flags.String(name, "", what)
		checkAttribute(flags, name)
	}
	attributes["state"] = &state
	flags.StringVar(&state, "state", "", "link state that the guest sees: auto, enable or disable")
	checkAttribute(flags, "state")
	flags.BoolVar(&w.Live, "live", false, "also plug it into the running guest")
	flags.BoolVar(&w.Bridge, "inside-bridge", false, "the guest bridges other machines' packets through it")
	flags.BoolVar(&w.Force, "force", false, "override refusals that can be wrong (free memory, driver)")
	o.add(cmd)
	return cmd
}

// checkAttribute has a flag for an attribute of a virtual function checked.
func checkAttribute(flags *pflag.FlagSet, name string) {
	cli.Check(flags, name, func(text string) error {
		_, err := sriov.ParseSets([]string{name, text})
		return cli.Colon(err)
	})
}

// retryFlags are the flags of verbs that retry if another mpps came in between.
type retryFlags struct {
	change.Options
	detailed bool
	wait     time.Duration
}

func (o *retryFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "show what would change; write nothing")
	cmd.Flags().BoolVar(&o.detailed, "detailed-exit-code", false, "exit code 2 if changes were or would be made")
	cli.DurationVar(cmd.Flags(), &o.wait, "wait", time.Minute, 0, time.Hour, "how long to wait for another "+
		"running mpps")
}

func (a *app) sriovReleaseCommand() *cobra.Command {
	var w sriov.Return
	var o retryFlags
	cmd := verb("release [GUEST]", "release a virtual function from a guest", cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, given []string) error {
			w.Guest = firstArg(given)
			if w.Guest == "" && w.VF == "" {
				return usage(errors.New("expected a guest, or --vf"), "'mpps sriov list' shows who has which")
			}
			back, d, err := vf.Release(cmd.Context(), a.env(), w, o.Options, o.wait)
			return a.answerChange(d, err, o.detailed, report.Answer{
				Verb: "sriov-release", Result: back,
				Text: func(t *report.Text) {
					report.ReleaseResult(t, &back.Returned, back.Transaction, o.DryRun, a.verbose)
				},
			})
		})
	cmd.Flags().StringVar(&w.VF, "vf", "", "VF: number, PF/N or PCI address")
	cmd.Flags().StringVar(&w.MAC, "mac", "", "MAC address of the guest's NIC")
	checkAttribute(cmd.Flags(), "mac")
	cmd.Flags().BoolVar(&w.Live, "live", false, "also unplug it from the running guest")
	o.add(cmd)
	return cmd
}

func (a *app) sriovGuestCommand() *cobra.Command {
	var snapshot string
	cmd := verb("guest GUEST", "show a VF inside its guest: driver, queues, interrupts", cobra.ExactArgs(1),
		func(cmd *cobra.Command, given []string) error {
			h, side, err := vf.Guest(cmd.Context(), a.env(), snapshot, given[0])
			if err != nil {
				return err
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-guest", Host: h.Name, Result: side, Warnings: ops.UnseenWarnings(h),
				Text: func(t *report.Text) { report.GuestSide(t, side) },
			})
			off := slices.ContainsFunc(side.Functions, func(f sriov.GuestFunction) bool { return f.State == "off" })
			return cmp.Or(err, exitIf(off, outcome.CodeDrifted))
		})
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	return cmd
}

func (a *app) sriovMigratePlanCommand() *cobra.Command {
	var snapshot string
	var ask sriov.MigrateRequest
	cmd := verb("migrate-plan GUEST --to HOST", "explain how to migrate a guest with virtual functions",
		cobra.ExactArgs(1), func(cmd *cobra.Command, given []string) error {
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
		})
	cmd.Flags().StringVar(&ask.To, "to", "", "name of the destination host")
	cli.Check(cmd.Flags(), "to", func(text string) error { return cli.Colon(sriov.CheckHost(text)) })
	cmd.Flags().StringVar(&snapshot, "to-snapshot", "", "snapshot file of the destination host")
	cmd.Flags().BoolVar(&ask.Failover, "failover", false, "plan a virtio NIC and the VF as a failover pair")
	return cmd
}
