package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/knob"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/sriov"
)

func (a *app) sriovCheckCommand() *cobra.Command {
	var snapshot, failOn string
	cmd := &cobra.Command{
		Use:   "check [PF]",
		Short: "are firmware, kernel and card ready, is anything half done",
		Long: `Goes through everything that virtual functions need, of the host and of each
card: IOMMU in the firmware's tables, in the running kernel and at the next
boot, interrupt remapping, groups and ACS, whether the card offers functions
and where it is switched on, address space for them, driver and firmware with
known traps (-v), link, what makes functions at boot; and what is odd about
those there are: two guests of one function, a guest without its address,
functions bound for nobody, gifts of mpps that are half done. Each point is ok,
not, or could not be told, with what to do. Works without root and says what it
could not see.

  mpps sriov check
  mpps sriov check ens1f0 -v
  mpps sriov check --snapshot customer.json --json
  mpps sriov check --fail-on high    exit code 4 where a point is high or worse`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if failOn != "" && !slices.Contains(knob.Severities(), failOn) {
				return usage(fmt.Errorf("--fail-on %q: expected one of %s", failOn, strings.Join(knob.Severities(), ", ")), "")
			}
			name := ""
			if len(argv) > 0 {
				name = argv[0]
			}
			h, j, err := a.examined(cmd.Context(), snapshot)
			if err != nil {
				return err
			}
			c, err := sriov.Examine(h, name, j)
			if err != nil {
				return outcome.Failed(err, outcome.HintOf(err, ""))
			}
			err = a.out.Answer(report.Answer{
				Verb: "sriov-check", Host: h.Name, Result: c, Warnings: ops.NotRoot(h),
				Text: func(t *report.Text) { report.SRIOVCheck(t, c, a.verbose) },
			})
			if err != nil || failOn == "" {
				return err
			}
			var worst knob.Severity
			if err := worst.UnmarshalText([]byte(failOn)); err != nil {
				return err
			}
			if len(c.AtLeast(worst)) > 0 {
				return outcome.Exit(outcome.CodeDrifted)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	cmd.Flags().StringVar(&failOn, "fail-on", "", "exit with 4 where a point has this severity or worse: "+strings.Join(knob.Severities(), ", "))
	return cmd
}

// examined is what a check looks at: the facts, with what the catalogue's part of it reads, and what the journal says.
func (a *app) examined(ctx context.Context, snapshot string) (*facts.Host, sriov.Journal, error) {
	if snapshot != "" {
		h, err := ops.ReadSnapshot(snapshot)
		return h, sriov.Journal{Unread: "a snapshot has no journal"}, err
	}
	m, err := a.env().Open()
	if err != nil {
		return nil, sriov.Journal{}, err
	}
	defer m.Close()
	m.LookInside(host.NoGuest)
	h := m.Inventory(ctx)
	host.Read(ctx, m.Mechanisms(), h, knob.Addresses(h, sriov.Catalogued()))
	return h, a.unsettledFunctions(h), nil
}

// unsettledFunctions are the transactions of this host's journal about virtual functions that must be rolled back.
func (a *app) unsettledFunctions(h *facts.Host) sriov.Journal {
	d, err := journal.Open(a.root)
	if err != nil {
		return sriov.Journal{Unread: err.Error()}
	}
	defer d.Close()
	ledger, err := d.Ledger()
	if err != nil {
		return sriov.Journal{Unread: err.Error()}
	}
	var j sriov.Journal
	for _, t := range ledger.Unsettled() {
		u := sriov.Unsettled{TX: t.Header.TX, State: string(ledger.State(t))}
		for _, c := range t.Changes() {
			if c.Wrote() && sriov.Concerns(c.Address) {
				u.About = append(u.About, c.Address.String())
			}
		}
		if len(u.About) > 0 {
			j.Unsettled = append(j.Unsettled, u)
		}
	}
	return j
}
