package domain

import (
	"fmt"
	"strings"
)

// SyntaxError reports text that is not a domain document.
type SyntaxError struct {
	Line    int // from 1
	Problem string
	Advice  string // may be empty
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("domain xml: line %d: %s", e.Line, e.Problem)
}

// Hint says what to do; empty if there is nothing to add.
func (e *SyntaxError) Hint() string { return e.Advice }

// PathError reports a path that cannot be read or set in this document.
type PathError struct {
	Path    string
	Problem string
	Advice  string
}

func (e *PathError) Error() string { return fmt.Sprintf("domain path %q: %s", e.Path, e.Problem) }

// Hint says what to do; empty if there is nothing to add.
func (e *PathError) Hint() string { return e.Advice }

// ValueError reports a value that its path may not have: on reading, that the document is invalid; on setting, that the
// new value is refused.
type ValueError struct {
	Path    string
	Found   string
	Allowed string
	Advice  string
	// Never means that no value is possible there at all, such as queues of an emulated NIC.
	Never bool
}

func (e *ValueError) Error() string {
	return fmt.Sprintf("%s: found %q, allowed: %s", e.Path, clip(e.Found), e.Allowed)
}

// Hint says what to do; empty if there is nothing to add.
func (e *ValueError) Hint() string { return e.Advice }

// clip shortens hostile values for messages.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func sizeProblem(n int) string {
	return fmt.Sprintf("%d bytes, at most %d allowed", n, MaxBytes)
}
