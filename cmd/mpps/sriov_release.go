package main

import (
	"errors"

	"github.com/spf13/cobra"

	"mpps/internal/advise/sriov"
	"mpps/internal/ops/vf"
	"mpps/internal/report"
)

func (a *app) sriovReleaseCommand() *cobra.Command {
	var w sriov.Return
	var o retryFlags
	cmd := &cobra.Command{
		Use:   "release [GUEST]",
		Short: "release a virtual function from a guest",
		Long: `Takes a virtual function out of a guest's definition, sets back what stood on it
(address, VLAN, rate, trust …), and makes it free for others. Which one is said
by --vf or --mac where the guest has several; with --vf alone it is taken from
whoever has it, also where the guest is not defined any more.

A guest that runs keeps it until it is shut down; only then is the function
set back and free. --live takes it out of the running guest at once: its system
must let go of it (PCI hot plug), or nothing is changed.

  mpps sriov release vm1
  mpps sriov release vm1 --mac 52:54:00:12:34:56 --live
  mpps sriov release --vf ens1f0/3

Exit codes: 0 it is taken back · 1 refused, or failed and put back · 2 changes
were made, or with --dry-run would be (--detailed-exit-code) · 11 another mpps
was at work for longer than --wait.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
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
		},
	}
	cmd.Flags().StringVar(&w.VF, "vf", "", "the function: its number, PF/N, or PCI address")
	cmd.Flags().StringVar(&w.MAC, "mac", "", "the address of the guest's NIC")
	cmd.Flags().BoolVar(&w.Live, "live", false, "take it out of the running guest too")
	o.add(cmd)
	return cmd
}
