package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/lasting"
	"mpps/internal/outcome"
	"mpps/internal/plan"
	"mpps/internal/setting"
	"mpps/internal/sriov"
)

func (a *app) sriovResetCommand() *cobra.Command {
	var dryRun, detailed, attributes bool
	var guest, free string
	cmd := &cobra.Command{
		Use:   "reset {VF | --guest NAME | --all-free PF}",
		Short: "a virtual function as new: nothing of who had it before is left",
		Long: `Gives a virtual function the attributes that a new one has (no address, no VLAN,
no limit, not trusted, checked for spoofing where the driver does that), takes
what mpps keeps of it out of the list of values that are put back, and resets
the function itself (FLR): queues and filters of who had it before are gone.
The last is no value and is not undone by a rollback; --attributes-only leaves
it out. Functions that a running guest, a process or the host has are refused.

mpps-restore.service does the first by itself when a guest has left a function.

  mpps sriov reset ens1f0/3
  mpps sriov reset --guest fw1
  mpps sriov reset --all-free ens1f0 --dry-run

Exit codes: 0 all is as new · 1 refused, or failed and put back, or attributes
are as new and a function itself could not be reset · 2 changes were made, or
with --dry-run would be (--detailed-exit-code) · 11 another mpps is at work.`,
		Args: args(cobra.MaximumNArgs(3)),
		RunE: func(cmd *cobra.Command, given []string) error {
			named := 0
			for _, is := range []bool{len(given) > 0, guest != "", free != ""} {
				if is {
					named++
				}
			}
			if named != 1 {
				return usage(errors.New("expected a virtual function, --guest NAME or --all-free PF"), "")
			}
			var functions []*facts.VF
			wish := func(h *facts.Host, read func(...setting.Address)) (_ []plan.Change, err error) {
				switch {
				case guest != "":
					functions, err = sriov.OfGuest(h, guest)
				case free != "":
					functions, err = sriov.FreeOf(h, free)
				default:
					functions, err = onlyFunction(h, given)
				}
				if err != nil {
					return nil, err
				}
				kept, err := keptNow(h, func(lasting.Value) bool { return true })
				if err != nil {
					return nil, err
				}
				for _, f := range functions {
					read(sriov.Attributes(f)...)
				}
				return sriov.PlanReset(h, functions, func(at setting.Address) bool { return kept[at] })
			}
			var after func(context.Context, *host.Machine) ([]outcome.Warning, error)
			if !attributes {
				after = func(ctx context.Context, m *host.Machine) ([]outcome.Warning, error) {
					return a.resetThem(ctx, m, functions, dryRun)
				}
			}
			return a.carryOutAnd(cmd.Context(), goal.Goal{Consent: []goal.Risk{goal.Security}}, wish, apply.Options{DryRun: dryRun}, detailed, after)
		},
	}
	cmd.Flags().StringVar(&guest, "guest", "", "all virtual functions of this guest")
	cmd.Flags().StringVar(&free, "all-free", "", "all virtual functions of this NIC that nobody has")
	cmd.Flags().BoolVar(&attributes, "attributes-only", false, "leave the functions themselves alone: no FLR")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "read everything, write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	return cmd
}

// onlyFunction is the one function that words name, with nothing behind it.
func onlyFunction(h *facts.Host, words []string) ([]*facts.VF, error) {
	f, rest, err := sriov.Find(h, words)
	if err == nil && len(rest) > 0 {
		err = usage(fmt.Errorf("found %q behind the virtual function", rest[0]), "")
	}
	return []*facts.VF{f}, err
}

// resetThem resets functions themselves and says what became of it. The error tells that not all of them were.
func (a *app) resetThem(ctx context.Context, m *host.Machine, functions []*facts.VF, dryRun bool) (all []outcome.Warning, err error) {
	for _, f := range functions {
		name := fmt.Sprintf("%s/%d", f.PF, f.Index)
		if f.PCI == "" || dryRun {
			continue
		}
		done := a.resetFunction(ctx, m, f.PCI)
		if done.Why != "" {
			all = append(all, outcome.Warning{Code: "function-not-reset", Text: fmt.Sprintf("%s (%s) itself was not reset: %s", name, f.PCI, done.Why)})
			err = outcome.Exit(outcome.CodeFailed)
			continue
		}
		all = append(all, outcome.Warning{Code: "function-reset", Text: fmt.Sprintf("%s (%s) itself was reset (%s), which no rollback undoes", name, f.PCI, done.Method)})
	}
	return all, err
}

// resetFunction resets a function itself while no other mpps gives it away.
func (a *app) resetFunction(ctx context.Context, m *host.Machine, pci string) host.FunctionReset {
	done := host.FunctionReset{PCI: pci}
	e, err := a.engine(nil)
	if err == nil {
		err = errors.Join(e.Alone("sriov reset", func() { done = m.ResetFunction(ctx, pci) }), e.close())
	}
	if err != nil && done.Why == "" {
		done.Why = err.Error()
	}
	return done
}
