package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/model/facts"
	"mpps/internal/ops/change"
	"mpps/internal/ops/vf"
	"mpps/internal/report"
)

func (a *app) sriovAssignCommand() *cobra.Command {
	var w sriov.Request
	var o retryFlags
	var state string
	attributes := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "assign GUEST",
		Short: "assign a virtual function to a guest",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
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
					report.AssignResult(t, &gift.Gift, gift.Transaction, o.DryRun,
						a.verbose)
				},
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.PF, "pf", "", "the card (default: one with a free function, on the guest's node)")
	flags.StringVar(&w.VF, "vf", "", "the function: its number, PF/N, or PCI address (default: a free one)")
	flags.StringVar(&w.Form, "as", facts.ByInterface, "interface, hostdev or network")
	flags.StringVar(&w.Network, "network", "", "the pool, made if it is not there (default: that of the card)")
	flags.StringVar(&w.MAC, "mac", "", "address of the guest's NIC (default: made up, the same again for this guest)")
	for name, what := range map[string]string{
		"vlan": "VLAN, 0 is none", "qos": "priority in the VLAN's tag, 0 to 7", "rate": "what it may send, in Mb/s; " +
			"0 is no limit",
		"min-rate": "what it is guaranteed, in Mb/s", "spoofchk": "drop what it sends from other addresses: on or off",
		"trust": "may change its address: on or off",
	} {
		attributes[name] = flags.String(name, "", what)
	}
	attributes["state"] = &state
	flags.StringVar(&state, "state", "", "the link that the guest sees: auto, enable or disable")
	flags.BoolVar(&w.Live, "live", false, "plug it into the running guest too")
	flags.BoolVar(&w.Bridge, "inside-bridge", false, "the guest is to bridge others' packets through it")
	flags.BoolVar(&w.Force, "force", false, "go on where the reason against it can be wrong (free memory, a driver)")
	o.add(cmd)
	return cmd
}

// retryFlags are the flags of verbs that retry if another mpps came in between.
type retryFlags struct {
	change.Options
	detailed bool
	wait     time.Duration
}

func (o *retryFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "read everything, write nothing")
	cmd.Flags().BoolVar(&o.detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	cmd.Flags().DurationVar(&o.wait, "wait", time.Minute, "how long to wait for another mpps that is at work")
}
