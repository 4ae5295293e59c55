package main

import (
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "write a target in another program's format",
		Args:  cobra.ArbitraryArgs,
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
