// Package outcome describes how a command ends: exit code, error with a hint, and the warnings of its answer.
package outcome

import (
	"errors"
	"net"
	"os"
	"strconv"
)

// Exit codes. They are part of the command line's contract.
const (
	CodeOK            = 0
	CodeFailed        = 1
	CodeChanges       = 2 // changes pending or made, with --detailed-exit-code
	CodeNotConfigured = 3
	CodeDrifted       = 4 // drifted, or findings at or above --fail-on
	CodeNotDevice     = 5 // limited by generator or receiver: no result of the device under test
	CodeLocked        = 11
	CodeUsage         = 64
)

// Warning is a caveat that belongs to an answer or a result.
type Warning struct {
	Code string `json:"code"` // stable, kebab-case
	Text string `json:"text"`
	Hint string `json:"hint,omitempty"` // what to do about it; empty if nothing
}

// Fault is an error with a hint for the user and an exit code. A Fault without Err ends the program with the code and
// prints nothing: the answer is already on standard output.
type Fault struct {
	Err  error
	Hint string
	Code int
}

func (f *Fault) Error() string {
	if f.Err == nil {
		return "exit " + strconv.Itoa(f.Code)
	}
	return f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// Usage returns an error in the command line.
func Usage(err error, hint string) error { return &Fault{err, hint, CodeUsage} }

// Failed returns an error with a hint.
func Failed(err error, hint string) error { return &Fault{err, hint, CodeFailed} }

// Exit returns an error that ends the program with a code that is an answer, and prints nothing. It is nil for CodeOK.
func Exit(code int) error {
	if code == CodeOK {
		return nil
	}
	return &Fault{Code: code}
}

// Silent reports whether an error only carries an exit code.
func Silent(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Err == nil
}

// Of returns an error's exit code and hint. Errors of other packages bring them by methods Hint and OutcomeCode. The
// name is ours alone: *exec.ExitError has ExitCode, and a child's exit code must not become that of mpps.
func Of(err error) (code int, hint string) {
	code = CodeFailed
	var f *Fault
	if errors.As(err, &f) {
		code, hint = f.Code, f.Hint
		if f.Err == nil {
			return code, ""
		}
	}
	var coded interface{ OutcomeCode() int }
	if f == nil && errors.As(err, &coded) {
		code = coded.OutcomeCode()
	}
	if hint == "" {
		hint = HintOf(err, "")
	}
	return code, hint
}

// HintOf returns the hint that an error of another package brings by a method Hint, or else otherwise.
func HintOf(err error, otherwise string) string {
	var hinted interface{ Hint() string }
	if errors.As(err, &hinted) && hinted.Hint() != "" {
		return hinted.Hint()
	}
	return otherwise
}

// SocketCause returns what went wrong with a socket, without the operation and the addresses that package net puts
// before it: the caller has named the address.
func SocketCause(err error) error {
	var name *net.DNSError
	var address *net.AddrError
	var call *os.SyscallError
	var op *net.OpError
	switch {
	case errors.As(err, &name):
		return errors.New(name.Err)
	case errors.As(err, &address):
		return errors.New(address.Err)
	case errors.As(err, &call):
		return call.Err
	case errors.As(err, &op):
		return op.Err
	}
	return err
}
