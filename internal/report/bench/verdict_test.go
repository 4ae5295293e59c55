package bench

import (
	"strings"
	"testing"

	"mpps/internal/measure"
)

// TestEnding: a gain has its interval only where it is proven, and what is left after the rollback is never called
// undone.
func TestEnding(t *testing.T) {
	gain := measure.Comparison{Before: measure.Estimate{Value: 10e3, Lo: 9e3, Hi: 11e3, N: 6},
		After: measure.Estimate{Value: 30e3, Lo: 29e3, Hi: 31e3, N: 6},
		Ratio: measure.Estimate{Value: 3, Lo: 2.7, Hi: 3.4, Level: 0.97, N: 12}, Significant: true}
	unproven := gain
	unproven.Significant = false
	compared := func(c measure.Comparison) *Compared { return &Compared{Kind: measure.PPS, Throughput: c} }
	for _, test := range []struct {
		doc  Document
		want string
	}{
		{Document{Compared: compared(gain), Rollback: &RollbackRow{Identical: true, Compared: 286}},
			"3× more packets: 10 k → 30 k packets per second.\nProven: between 2.7× and 3.4× with 97 % confidence.\n" +
				"All undone: 0 of 286 settings differ from before."},
		{Document{Compared: compared(unproven), Rollback: &RollbackRow{Identical: true, Compared: 286}},
			"No significant difference in packets per second.\nAll undone: 0 of 286 settings differ from before."},
		{Document{Compared: compared(unproven), Rollback: &RollbackRow{Compared: 286, Differences: []string{"x"}}},
			"No significant difference in packets per second.\nNot all undone: 1 of 286 settings differs from before."},
	} {
		if got := strings.ReplaceAll(Ending(&test.doc), "\u00a0", " "); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}
