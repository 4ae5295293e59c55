package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/lasting"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/setting"
	"mpps/internal/sriov"
)

func (a *app) sriovReleaseCommand() *cobra.Command {
	var w sriov.Return
	var o againOptions
	cmd := &cobra.Command{
		Use:   "release [GUEST]",
		Short: "take a virtual function back from a guest",
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
			if len(given) > 0 {
				w.Guest = given[0]
			}
			if w.Guest == "" && w.VF == "" {
				return usage(errors.New("expected a guest, or --vf"), "'mpps sriov list' shows who has which")
			}
			return a.release(cmd.Context(), w, o)
		},
	}
	cmd.Flags().StringVar(&w.VF, "vf", "", "the function: its number, PF/N, or PCI address")
	cmd.Flags().StringVar(&w.MAC, "mac", "", "the address of the guest's NIC")
	cmd.Flags().BoolVar(&w.Live, "live", false, "take it out of the running guest too")
	o.flags(cmd)
	return cmd
}

// released is the answer of release.
type released struct {
	sriov.Returned
	Transaction apply.Result `json:"transaction"`
}

func (a *app) release(ctx context.Context, w sriov.Return, o againOptions) error {
	var back *sriov.Returned
	watched := false
	p, result, err := a.again(ctx, o, func(h *facts.Host, read func(...setting.Address)) ([]plan.Change, error) {
		var err error
		if back, err = sriov.Take(h, w); err != nil {
			return nil, err
		}
		read(back.Addresses()...)
		watched = h.Readings.At(setting.Of(setting.Unit, lasting.UnitName)).State == setting.Known
		kept, err := keptNow(h, forAll)
		if err != nil {
			return nil, err
		}
		return back.Changes(h, func(at setting.Address) bool { return kept[at] })
	})
	var failure *apply.Failure
	if err != nil && !(errors.As(err, &failure) && a.json) {
		return err
	}
	back.Left = back.Later(watches(p, watched))
	answer := report.Answer{
		Verb: "sriov-release", Host: p.Host, Result: released{*back, result}, Warnings: afterwards(p, result),
		Text: func(t *report.Text) { report.Released(t, back, result, o.dryRun, a.verbose) },
	}
	if err := errors.Join(err, a.out.Answer(answer)); err != nil {
		return err
	}
	return wrote(result, o.dryRun, o.detailed)
}

// watches tells whether mpps-restore.service is there after a plan, given whether it was there before: it goes where it has
// nothing to put back any more.
func watches(p *plan.Plan, before bool) bool {
	at := slices.IndexFunc(p.Changes, func(c plan.Change) bool { return c.Address == setting.Of(setting.Unit, lasting.UnitName) })
	if at < 0 {
		return before
	}
	return p.Changes[at].To.State == setting.Known
}
