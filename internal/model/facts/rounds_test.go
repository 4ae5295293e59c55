package facts

import "testing"

func TestRoundsTooShort(t *testing.T) {
	for _, c := range []struct {
		what       string
		row        Softnet
		budget     float64
		lost       float64
		too, known bool
	}{
		{"one in 3 million packets", Softnet{Processed: 3e6, Squeezed: 1, Rounds: 50_000}, 300, 1e5, false, true},
		{"every round, nothing lost", Softnet{Processed: 3e6, Squeezed: 9900, Rounds: 10_000}, 300, 0, false, true},
		{"every round, and loss", Softnet{Processed: 3e6, Squeezed: 9900, Rounds: 10_000}, 300, 1e5, true, true},
		{"every third round", Softnet{Processed: 3e6, Squeezed: 3000, Rounds: 10_000}, 300, 1e5, false, true},
		{"noise lost", Softnet{Processed: 3e6, Squeezed: 9900, Rounds: 10_000}, 300, 9, false, true},
		{"by the budget", Softnet{Processed: 3e6, Squeezed: 9900}, 300, 1e5, true, true},
		{"by the budget, few", Softnet{Processed: 3e6, Squeezed: 99}, 300, 1e5, false, true},
		{"neither rounds nor budget", Softnet{Processed: 3e6, Squeezed: 9900}, 0, 1e5, false, false},
		{"no round", Softnet{}, 0, 1e5, false, true},
	} {
		if too, known := c.row.RoundsTooShort(c.budget, c.lost); too != c.too || known != c.known {
			t.Errorf("%s: %v, known %v", c.what, too, known)
		}
	}
}
