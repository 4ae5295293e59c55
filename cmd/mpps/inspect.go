package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/report"
)

func (a *app) inspectCommand() *cobra.Command {
	var snapshot string
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "what this host is: the packet path, topology, guests, VFs",
		Long: `Takes stock of the host and draws the path of a packet from each NIC over
bridge, tap and vhost to each guest. Works without root and says what it could
not see.

  mpps inspect
  mpps inspect --json | jq .result.topology.counts
  mpps inspect --snapshot customer.json`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := a.gatherOver(cmd.Context(), snapshot, 0, "")
			if err != nil {
				return err
			}
			defer m.close()
			return a.out.Answer(report.Answer{
				Verb: "inspect", Host: m.facts.Name, Result: m.facts, Warnings: unseen(m.facts),
				Text: func(t *report.Text) { report.Inspect(t, m.facts) },
			})
		},
	}
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "a snapshot file instead of this machine")
	return cmd
}

// unseen turns what could not be seen into warnings for programs; the text view draws it by itself.
func unseen(h *facts.Host) []report.Warning {
	var warnings []report.Warning
	for _, u := range h.Unseen {
		warnings = append(warnings, report.Warning{Code: "unseen", Text: u.What + ": " + u.Why})
	}
	return warnings
}
