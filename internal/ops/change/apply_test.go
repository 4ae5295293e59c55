package change

import (
	"errors"
	"fmt"
	"testing"

	"mpps/internal/advise/plan"
	"mpps/internal/ops"
)

// TestWhileMoving: a value that moved is looked at again, one that never stands still is an error in the end, and
// others are at once.
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
		{"moves on", maxAttempts, nil, maxAttempts, true},
		{"broken", 0, broken, 1, true},
	} {
		n := 0
		_, err := retryStale(&ops.Env{Out: ops.Deaf{}}, func() (*Outcome, error) {
			if n++; n <= test.stale {
				return nil, fmt.Errorf("apply: %w",
					&plan.Stale{Changed: []plan.Difference{{What: "irq-affinity:eth0/48", Then: "1", Now: "3"}}})
			}
			return nil, test.then
		})
		if n != test.looks || (err != nil) != test.fails {
			t.Errorf("%s: %d looks, %v; expected %d", test.name, n, err, test.looks)
		}
	}
}
