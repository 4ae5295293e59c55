package main

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/words"
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
	hint := cli.SeeHelp(cmd.CommandPath())
	if none != nil {
		hint = flagHint(cmd, none.GetSpecifiedName(), hint)
	}
	err = cli.FlagError(err)
	_, its := outcome.Of(err)
	return usage(err, cmp.Or(its, hint))
}

// otherNames are flags that some commands have under another name.
var otherNames = map[string]string{"for": "duration", "duration": "for", "time": "duration", "file": "output",
	"force": "insist"}

// flagHint returns the hint for a flag that a command does not have: the one spelled nearly so, or called so elsewhere.
func flagHint(cmd *cobra.Command, name, otherwise string) string {
	if name == "yes" { // a command that asks has it
		return "this command does not ask: leave --yes out" + words.If(cmd.Flags().Lookup("dry-run") != nil,
			"; --dry-run shows what it would do")
	}
	best := otherNames[name]
	if best == "" || cmd.Flags().Lookup(best) == nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		best = words.Nearest(name, names)
	}
	if best == "" {
		return otherwise
	}
	return "did you mean --" + best + "?"
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

// The monitors whose exit codes mpps can use.
const (
	nagios = "nagios" // monitoring-plugins.org, development guidelines: 0 OK, 1 warning, 2 critical, 3 unknown
	npd    = "npd"    // node-problem-detector, custom plugins: 0 OK, 1 not OK, 2 unknown
)

// addExitCodes adds the flag for the exit codes of another monitor.
func (a *app) addExitCodes(cmd *cobra.Command) {
	cli.ChoiceVar(cmd.Flags(), &a.exitCodes, "exit-codes", "", "exit codes, and one line of text, as a plugin of: "+
		"nagios, npd (docs/monitoring.md)", nagios, npd)
}

// status is the answer of a plugin.
type status int

const (
	statusOK status = iota
	statusWarning
	statusCritical
	statusUnknown
)

// verdictOf returns what an exit code says. Only a code that is an answer says anything of the host.
func verdictOf(code int, answer bool) status {
	switch {
	case code == outcome.CodeOK:
		return statusOK
	case !answer:
		return statusUnknown
	case code == outcome.CodeChanges, code == outcome.CodeDrifted:
		return statusWarning
	case code == outcome.CodeFailed:
		return statusCritical
	}
	return statusUnknown
}

// exitCode returns the exit code that the flag --exit-codes asks for.
func (a *app) exitCode(code int, answer bool) int {
	s := verdictOf(code, answer)
	switch {
	case a.exitCodes == nagios:
		return int(s)
	case a.exitCodes == npd && s == statusUnknown:
		return 2
	case a.exitCodes == npd && s != statusOK:
		return 1
	case a.exitCodes == npd:
		return 0
	}
	return code
}

// answerAs prints an answer: as the one line of a plugin, without warnings, where --exit-codes asks for it, else as it
// is. JSON is the same either way.
func (a *app) answerAs(answer report.Answer, code int, summary string) error {
	if a.exitCodes != "" && !a.json {
		word := [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}[verdictOf(code, true)]
		answer.Warnings, answer.Text = nil, func(t *report.Text) { t.Line("%s: %s", word, summary) }
	}
	return cmp.Or(a.out.Answer(answer), outcome.Exit(code))
}
