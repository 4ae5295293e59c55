package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/lasting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/sriov"
)

func (a *app) sriovRecoverCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "recover VF",
		Short: "what is the matter with a virtual function, and what mends it",
		Long: `Looks at a virtual function in the order in which things are mended, and mends
what can be: the physical function is brought up, a driver_override that was
left behind is cleared, a function that is stuck in vfio-pci or that its driver
did not take is reset and bound to its driver, an address that its guest was
promised is set. A guest or a process that has it is named and left alone. What
only a person can do is said, and last what is left to try: making all
functions of the card anew, as a command.

  mpps sriov recover ens1f0/3 --dry-run
  mpps sriov recover 0000:41:10.3

Exit codes: 0 nothing is the matter, or it was mended · 1 failed, and put back ·
4 something is left to be done · 11 another mpps is at work.`,
		Args: args(cobra.RangeArgs(1, 3)),
		RunE: func(cmd *cobra.Command, given []string) error {
			return a.recoverFunction(cmd.Context(), given, dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "look, and change nothing")
	return cmd
}

func (a *app) recoverFunction(ctx context.Context, given []string, dryRun bool) error {
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	h, r, err := lookAt(ctx, m, given)
	if err != nil {
		return err
	}
	work := r.Verdict != sriov.Taken && (r.Reset || len(r.Changes) > 0)
	if work && !dryRun {
		if err := a.mend(ctx, m, h, &r); err != nil {
			return err
		}
		_, again, err := lookAt(ctx, m, given)
		if err != nil {
			return err
		}
		r.After = again.Verdict
	}
	err = a.out.Answer(report.Answer{
		Verb: "sriov-recover", Host: h.Name, Result: r, Text: func(t *report.Text) { report.SRIOVRecover(t, r, dryRun) },
	})
	if err == nil && r.Verdict != sriov.Well && r.After != sriov.Well {
		return outcome.Exit(outcome.CodeDrifted)
	}
	return err
}

// lookAt takes stock and looks at one function.
func lookAt(ctx context.Context, m *host.Machine, given []string) (*facts.Host, sriov.Recovery, error) {
	m.LookInside(host.NoGuest)
	h := m.Inventory(ctx)
	functions, err := onlyFunction(h, given)
	if err != nil {
		return nil, sriov.Recovery{}, err
	}
	host.Read(ctx, m.Mechanisms(), h, append(sriov.RecoverAddresses(functions[0]), lasting.Addresses()...))
	r, err := sriov.Recover(h, functions[0])
	return h, r, err
}

// mend resets the function and makes the changes, as a transaction.
func (a *app) mend(ctx context.Context, m *host.Machine, h *facts.Host, r *sriov.Recovery) error {
	if err := a.env().NeedsRoot("sriov recover"); err != nil {
		return err
	}
	if r.Reset {
		done := a.resetFunction(ctx, m, r.PCI)
		if r.WasReset = done.Method; done.Why != "" {
			r.WasReset = "not done: " + done.Why
		}
	}
	if len(r.Changes) == 0 {
		return nil
	}
	p := plan.Of(h, goal.Goal{}, r.Changes)
	if err := lasting.Add(p, h); err != nil {
		return err
	}
	result, err := a.transact(ctx, p, &ops.Host{Facts: h, Mechanisms: m.Mechanisms()}, apply.Options{})
	r.Transaction = result.TX
	var failure *apply.Failure
	if errors.As(err, &failure) { // and not where another mpps is at work, or nothing was tried
		return outcome.Failed(err, r.LastResort)
	}
	return err
}
