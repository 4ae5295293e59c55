package main

import (
	"context"
	"path"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/journal"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/setting"
	"mpps/internal/sriov"
)

// rolledBack is the answer of rollback.
type rolledBack struct {
	DryRun       bool             `json:"dry_run,omitempty"`
	Transactions []apply.Restored `json:"transactions"`
}

func (a *app) rollbackCommand() *cobra.Command {
	var o apply.RollbackOptions
	var detailed, orphans bool
	var unconfirmed string
	cmd := &cobra.Command{
		Use:   "rollback [TX]",
		Short: "put back what an apply changed, the last one or any",
		Long: `Puts every value back that the last apply (or the named one) wrote, in reverse,
and proves it by reading. Also completes what was interrupted, by whatever.
Values that somebody else changed since are left alone and reported (--force
puts them back too). A transaction on which later ones built is refused;
--with-later puts those back first. One that gave a virtual function to a guest
which runs with it now is refused too, unless with --force.

  mpps rollback
  mpps rollback 20261120T210912 --dry-run
  mpps rollback 20261120T210912 --with-later

Exit codes: 0 everything is back, or there was nothing to put back · 1 failed ·
2 values were put back, or with --dry-run would be (--detailed-exit-code) · 4
some were left alone, because somebody else changed them · 11 another mpps is
at work.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			switch {
			case unconfirmed != "":
				return a.guarded(cmd.Context(), unconfirmed)
			case orphans:
				return a.adopt(cmd.Context())
			}
			o.TX = first(given)
			return a.rollback(cmd.Context(), o, detailed)
		},
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "put back also what somebody else changed since")
	cmd.Flags().BoolVar(&o.WithLater, "with-later", false, "first put back the later transactions that built on it")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what would be put back, write nothing")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit with 2 where values were put back or would be")
	cmd.Flags().StringVar(&unconfirmed, "unconfirmed", "", "wait until this transaction is confirmed, else put it back")
	cmd.Flags().BoolVar(&orphans, "orphans", false, "put back the transaction that standard input names last, when it ends")
	for _, hidden := range []string{"unconfirmed", "orphans"} {
		if err := cmd.Flags().MarkHidden(hidden); err != nil {
			panic(err) // the flags are defined on the lines above
		}
	}
	return cmd
}

func (a *app) rollback(ctx context.Context, o apply.RollbackOptions, detailed bool) error {
	if err := a.env().NeedsRoot("rollback"); err != nil && !o.DryRun {
		return err
	}
	e, err := a.engine(nil)
	if err != nil {
		return err
	}
	defer e.close()
	e.watchGuests(ctx, a.root)
	e.Journal.Appended = func(_ string, r journal.Record) {
		if r.Address != nil {
			a.out.Progress("putting back %d: %s", r.N, r.Address)
		}
	}
	e.InHand = a.inHand
	restored, err := e.Rollback(ctx, o)
	if err != nil && len(restored) == 0 {
		return err
	}
	for _, r := range restored {
		if r.Guarded && r.State == journal.Applied {
			a.unguard(ctx, r.Of)
		}
	}
	if restored == nil {
		restored = []apply.Restored{}
	}
	result := rolledBack{o.DryRun, restored}
	printed := a.out.Answer(report.Answer{
		Verb: "rollback", Host: e.name, Result: result,
		Text: func(t *report.Text) { report.RolledBack(t, restored, o.DryRun, a.verbose) },
	})
	if err != nil {
		return err
	}
	if printed != nil {
		return printed
	}
	drifted, changed := 0, 0
	for _, r := range restored {
		drifted += r.Drifted()
		changed += r.Written()
	}
	switch {
	case drifted > 0:
		return outcome.Exit(outcome.CodeDrifted)
	case detailed && changed > 0:
		return outcome.Exit(outcome.CodeChanges)
	}
	return nil
}

// inHand refuses to put back what gave a guest a function with which it runs: its address and VLAN would be taken off it in the
// middle of its work. What was plugged into a running guest is unplugged first.
func (a *app) inHand(ctx context.Context, changes []journal.Change) error {
	var gave []facts.Reservation
	for _, c := range changes {
		switch {
		case c.Address.Kind == setting.DomainDevice:
			return nil
		case c.Address.Kind != setting.File || path.Dir(c.Address.Path) != setting.Reservations || c.After.State != setting.Known || !c.Wrote():
			continue
		}
		all, err := facts.ParseReservations(c.Address, c.After.Value)
		if err != nil {
			continue // it is no reservation of this version
		}
		gave = append(gave, all...)
	}
	if len(gave) == 0 {
		return nil
	}
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	return sriov.InHand(m.Functions(ctx), gave)
}
