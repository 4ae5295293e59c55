package main

import (
	"github.com/spf13/cobra"

	"mpps/internal/ops"
	"mpps/internal/report"
	"mpps/internal/report/sheet"
)

func (a *app) inspectCommand() *cobra.Command {
	var snapshot, output string
	cmd := verb("inspect", "show this host: packet path, topology, guests, VFs", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			m, err := a.env().Gather(cmd.Context(), ops.Look{Snapshot: snapshot})
			if err != nil {
				return err
			}
			defer m.Close()
			view := sheet.Sheet{Host: m.Facts, Warnings: ops.UnseenWarnings(m.Facts), Data: m.Facts}
			if err := a.writeSheet(output, view); err != nil {
				return err
			}
			return a.out.Answer(report.Answer{
				Verb: "inspect", Host: m.Facts.Name, Result: m.Facts, Warnings: ops.UnseenWarnings(m.Facts),
				Text: func(t *report.Text) { report.Inspect(t, m.Facts, a.verbose) },
			})
		})
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	addSheet(cmd, &output)
	return cmd
}
