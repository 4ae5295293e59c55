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
		Args:  args(cobra.MaximumNArgs(1)),
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
	cmd.Flags().StringVar(&w.VF, "vf", "", "VF: number, PF/N or PCI address")
	cmd.Flags().StringVar(&w.MAC, "mac", "", "MAC address of the guest's NIC")
	cmd.Flags().BoolVar(&w.Live, "live", false, "also unplug it from the running guest")
	o.add(cmd)
	return cmd
}
