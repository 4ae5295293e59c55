package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "write a goal in another program's format",
		Long: `Writes what a goal needs in the form of another program that a site already
runs, and says what of it that program cannot hold.

  mpps export tuned --latency 20us --cpus 2-3 --guest rt1 -o /etc/tuned/profiles`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, given []string) error {
			if len(given) == 0 {
				return cmd.Help()
			}
			return usage(errors.New("unknown command "+quote("export "+given[0])), "see 'mpps export --help'")
		},
	}
	cmd.AddCommand(a.exportTunedCommand())
	return cmd
}
