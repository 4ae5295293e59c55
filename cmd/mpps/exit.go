package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// usage is an error in the command line.
var usage = outcome.Usage

// fail prints an error as its one line and its hint, and returns the exit code.
func (a *app) fail(err error) int {
	code, hint := a.ends(err)
	if !outcome.Silent(err) {
		a.out.Failure(err, hint)
	}
	return code
}

// ends returns the exit code and the hint of an error.
func (a *app) ends(err error) (code int, hint string) {
	code, hint = outcome.Of(err)
	if hint == "" && code == outcome.CodeUsage && a.path != "" && !outcome.Silent(err) {
		hint = "see '" + a.path + " --help'"
	}
	return code, hint
}

// args checks the number of positional arguments: exit code 64, not 1, where it is wrong.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		err := check(cmd, given)
		if err != nil && !cmd.HasSubCommands() {
			takes := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			err = fmt.Errorf("expected '%s', found %s", takes, ops.Count(len(given), "argument"))
		}
		if err != nil {
			return usage(err, "see '"+cmd.CommandPath()+" --help'")
		}
		return nil
	}
}

func quote(s string) string { return strconv.Quote(s) }
