package outcome

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"mpps/internal/must"
)

type locked struct{}

func (locked) Error() string    { return "locked" }
func (locked) Hint() string     { return "wait" }
func (locked) OutcomeCode() int { return CodeLocked }

// childError has the method of *exec.ExitError.
type childError struct{}

func (childError) Error() string { return "exit status 2" }
func (childError) ExitCode() int { return 2 }

// TestOf: a Fault goes before what the errors of other packages say, also if either is wrapped.
func TestOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err    error
		code   int
		hint   string
		silent bool
	}{
		{errors.New("broken"), CodeFailed, "", false},
		{Usage(errors.New("bad flag"), "see --help"), CodeUsage, "see --help", false},
		{fmt.Errorf("apply: %w", Failed(errors.New("broken"), "mend it")), CodeFailed, "mend it", false},
		{Exit(CodeDrifted), CodeDrifted, "", true},
		{fmt.Errorf("apply: %w", locked{}), CodeLocked, "wait", false},
		{fmt.Errorf("virsh: %w", childError{}), CodeFailed, "", false},
		{Failed(locked{}, ""), CodeFailed, "wait", false},
		{Failed(locked{}, "do not wait"), CodeFailed, "do not wait", false},
		{errors.Join(errors.New("broken"), Exit(CodeDrifted)), CodeDrifted, "", true},
	} {
		code, hint := Of(test.err)
		if code != test.code || hint != test.hint || Silent(test.err) != test.silent {
			t.Errorf("%v: code %d, hint %q, silent %v; expected %+v", test.err, code, hint, Silent(test.err), test)
		}
	}
	must.Hold(t, Exit(CodeOK) == nil, "all well is an error")
}

// TestSocketCause: what is left of an error of package net names neither its operation nor an address.
func TestSocketCause(t *testing.T) {
	t.Parallel()
	_, refused := net.Dial("unix", t.TempDir()+"/none")
	_, port := net.Listen("tcp", "127.0.0.1:99999")
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("agent: %w", refused), "no such file or directory"},
		{port, "invalid port"},
		{errors.New("other"), "other"},
	} {
		must.Hold(t, SocketCause(c.err).Error() == c.want, "%v becomes %v", c.err, SocketCause(c.err))
	}
}
