package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

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
