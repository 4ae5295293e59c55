package main

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"mpps/internal/plan"
	"mpps/internal/report"
)

// TestWhileMoving: a value that moved is looked at anew, one that never stands still is an error in the end, and others are at once.
func TestWhileMoving(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, test := range []struct {
		name  string
		stale int // looks that find a value changed
		then  error
		looks int
		fails bool
	}{
		{"stands still", 0, nil, 1, false},
		{"moved once", 1, nil, 2, false},
		{"moved and broken", 1, broken, 2, true},
		{"moves on", looks, nil, looks, true},
		{"broken", 0, broken, 1, true},
	} {
		a, n := &app{out: report.NewPrinter(&bytes.Buffer{}, &bytes.Buffer{}, report.Options{})}, 0
		err := a.whileMoving(func() error {
			if n++; n <= test.stale {
				return fmt.Errorf("apply: %w", &plan.Stale{Changed: []plan.Difference{{What: "irq-affinity:eth0/48", Then: "1", Now: "3"}}})
			}
			return test.then
		})
		if n != test.looks || (err != nil) != test.fails {
			t.Errorf("%s: %d looks, %v; expected %d", test.name, n, err, test.looks)
		}
	}
}
