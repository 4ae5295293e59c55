// Package cli is common to our commands: the flags of every verb, checks of the command line, and how an error is
// printed and turned into an exit code.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/words"
)

// Root sets up a root command: Fail prints errors, help fits 80 columns, and an unknown verb is an error. alone runs
// it without a verb.
func Root(root *cobra.Command, alone func(*cobra.Command) error) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return alone(cmd)
		}
		return unknown(cmd, args[0])
	}
	root.SetHelpCommand(help(root))
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "FlagUsages |", "FlagUsagesWrapped 80 |"))
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return outcome.Usage(err, SeeHelp(cmd.CommandPath()))
	})
}

// Completion has the command 'completion' of a root that has its verbs refuse a shell that does not exist.
func Completion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = Args(cobra.NoArgs), func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// Flags adds the flags that every verb has.
func Flags(flags *pflag.FlagSet, json, quiet, noColor, verbose *bool) {
	flags.BoolVar(json, "json", false, "print JSON (schemas in docs/schemas)")
	flags.BoolVarP(quiet, "quiet", "q", false, "do not print progress")
	flags.BoolVar(noColor, "no-color", false, "print without colour (also NO_COLOR=1)")
	flags.BoolVarP(verbose, "verbose", "v", false, "print more detail")
}

// help is the command 'help', which refuses a command that does not exist.
func help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "show the help of a command",
		RunE: func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err == nil && len(rest) == 0 {
				return of.Help()
			}
			if err == nil && of.HasSubCommands() {
				return unknown(of, rest[0])
			}
			return unknown(root, strings.Join(args, " "))
		},
	}
}

// unknown returns the error for a name that is no command of another command.
func unknown(of *cobra.Command, name string) error {
	text, hint := "unknown command "+strconv.Quote(name), SeeHelp(of.CommandPath())
	if of.HasParent() {
		text += " for " + strconv.Quote(of.CommandPath())
	}
	var names []string
	for _, c := range of.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if near := words.Nearest(name, names); near != "" {
		hint = "did you mean '" + near + "'?"
	}
	return outcome.Usage(errors.New(text), hint)
}

// SeeHelp returns the hint that names the help of a command, such as "mpps bench pps".
func SeeHelp(path string) string { return "see '" + path + " --help'" }

// CheckValues refuses a flag with an empty value, such as from an unset shell variable: treating it as not given would
// mean something else (this machine, the default goal, every guest). It also makes the checks of CheckLater.
func CheckValues(cmd *cobra.Command) error {
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil {
			err = checkValue(f)
		}
	})
	return err
}

func checkValue(f *pflag.Flag) error {
	values := []string{f.Value.String()}
	if many, is := f.Value.(pflag.SliceValue); is {
		values = many.GetSlice()
	}
	if len(values) == 0 || slices.Contains(values, "") {
		return outcome.Usage(fmt.Errorf("--%s: expected a value, found nothing", f.Name),
			"leave --"+f.Name+" out where you do not mean it")
	}
	c, is := f.Value.(interface{ checkLater([]string) error })
	if !is {
		return nil
	}
	if err := c.checkLater(values); err != nil {
		return outcome.Usage(fmt.Errorf("--%s%w", f.Name, err), "")
	}
	return nil
}

// Args makes a wrong number of positional arguments a usage error: exit code 64, not 1.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		err := check(cmd, given)
		if err != nil && cmd.HasSubCommands() && len(given) > 0 {
			return unknown(cmd, given[0])
		}
		if err != nil {
			takes := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			err = fmt.Errorf("expected '%s', found %s", takes, ops.Count(len(given), "argument"))
			return outcome.Usage(err, SeeHelp(cmd.CommandPath()))
		}
		return nil
	}
}

// ErrorOf returns the exit code and the hint for an error of a command, such as "mpps bench pps"; an empty path means
// that no command was reached.
func ErrorOf(path string, err error) (code int, hint string) {
	code, hint = outcome.Of(err)
	if hint == "" && code == outcome.CodeUsage && path != "" && !outcome.Silent(err) {
		hint = SeeHelp(path)
	}
	return code, hint
}

// Fail prints an error as its one line and its hint, and returns the exit code.
func Fail(out *report.Printer, path string, err error) int {
	code, hint := ErrorOf(path, err)
	if !outcome.Silent(err) {
		out.Failure(err, hint)
	}
	return code
}
