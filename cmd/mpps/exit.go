package main

import (
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/outcome"
)

var (
	usage = outcome.Usage // an error in the command line
	args  = cli.Args      // of a verb
)

// exitIf returns an error that ends the program with a code, if bad.
func exitIf(bad bool, code int) error {
	if !bad {
		return nil
	}
	return outcome.Exit(code)
}

// errorOf returns the exit code and the hint of an error.
func (a *app) errorOf(err error) (code int, hint string) { return cli.ErrorOf(a.path, err) }

// badFlag returns the usage error for a verb's flags. Verbs that once had --lab are in mpps-lab.
func badFlag(cmd *cobra.Command, err error) error {
	var none *pflag.NotExistError
	if errors.As(err, &none) && none.GetSpecifiedName() == "lab" {
		return usage(err, "'mpps-lab "+cmd.Name()+"' does it on an emulated host")
	}
	return usage(cli.FlagError(err), cli.SeeHelp(cmd.CommandPath()))
}

// movedCommand returns a hidden verb that refers to mpps-lab.
func movedCommand(name string) *cobra.Command {
	now := "mpps-lab"
	if name != "lab" {
		now += " " + name
	}
	return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return usage(errors.New("mpps has no command "+quote(name)), "it is '"+now+"' now, a program beside mpps")
		}}
}

func quote(s string) string { return strconv.Quote(s) }
