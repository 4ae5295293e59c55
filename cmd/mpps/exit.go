package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/journal"
)

// The exit codes. They are part of the command line's contract.
const (
	exitOK            = 0
	exitFailed        = 1
	exitChanges       = 2 // changes pending or made, with --detailed-exit-code
	exitNotConfigured = 3
	exitDrifted       = 4 // drifted, or findings at or above --fail-on
	exitNotDevice     = 5 // limited by generator or receiver: no result of the device under test
	exitLocked        = 11
	exitUsage         = 64
)

// fault is an error with what the user can do about it and the exit code that it ends in. An err of nil ends the
// program with the code and says nothing: the answer is already on standard output.
type fault struct {
	err  error
	hint string
	code int
}

func (f *fault) Error() string {
	if f.err == nil {
		return "exit " + strconv.Itoa(f.code)
	}
	return f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// usage is an error in the command line.
func usage(err error, hint string) error { return &fault{err: err, hint: hint, code: exitUsage} }

// failed is an error with a hint.
func failed(err error, hint string) error { return &fault{err: err, hint: hint, code: exitFailed} }

// exit ends the program with a code other than 0 that is an answer, not an error.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &fault{code: code}
}

// fail prints an error as its one line and its hint, and returns the exit code.
func (a *app) fail(err error) int {
	code, hint := a.told(err)
	if !answered(err) {
		a.out.Failure(err, hint)
	}
	return code
}

// answered tells whether an error only carries an exit code.
func answered(err error) bool {
	var f *fault
	return errors.As(err, &f) && f.err == nil
}

// told are an error's exit code and hint. Errors of other packages tell theirs by having the methods Hint and ExitCode.
func (a *app) told(err error) (code int, hint string) {
	code = exitFailed
	var f *fault
	if errors.As(err, &f) {
		code, hint = f.code, f.hint
		if f.err == nil {
			return code, ""
		}
	}
	var coded interface{ ExitCode() int }
	if f == nil && errors.As(err, &coded) {
		code = coded.ExitCode()
	}
	var hinted interface{ Hint() string }
	if hint == "" && errors.As(err, &hinted) {
		hint = hinted.Hint()
	}
	switch {
	case hint != "":
	case code == exitUsage && a.path != "":
		hint = "see '" + a.path + " --help'"
	case errors.Is(err, journal.ErrNoTransaction):
		hint = "'mpps history' lists the transactions"
	}
	return code, hint
}

// args checks the number of positional arguments: exit code 64, not 1, where it is wrong.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		err := check(cmd, given)
		if err != nil && !cmd.HasSubCommands() {
			takes := strings.TrimSuffix(cmd.UseLine(), " [flags]")
			err = fmt.Errorf("expected '%s', found %s", takes, counted(len(given), "argument"))
		}
		if err != nil {
			return usage(err, "see '"+cmd.CommandPath()+" --help'")
		}
		return nil
	}
}

func quote(s string) string { return strconv.Quote(s) }
