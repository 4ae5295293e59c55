package queues

import (
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
	"mpps/internal/outcome"
)

func codes(warnings []outcome.Warning) string {
	var all []string
	for _, w := range warnings {
		all = append(all, w.Code)
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), " ")
}

// TestSteerCaveats: a plan that is made from nothing or from half of the packets says so, and so does the look at its
// result.
func TestSteerCaveats(t *testing.T) {
	from, to := queuepath.Queue{Device: "vnet0", Direction: queuepath.Rx},
		queuepath.Queue{Device: "eth0", Direction: queuepath.Tx}
	watched := func() *queuepath.Observation {
		return &queuepath.Observation{Rows: []queuepath.Row{
			{Origin: from, From: from, To: from, FromCPU: -1, Frames: 100},
			{Origin: from, From: from, To: to, Frames: 100},
		}}
	}
	counted := &queuepath.Observation{
		Rows: []queuepath.Row{{Origin: to, From: to, To: to, FromCPU: -1, CPU: -1, Frames: 100}},
		Unseen: []queuepath.Unseen{{Blind: queuepath.BlindWays, What: "packets' ways from queue to queue",
			Why: "no BTF"}},
	}
	silent := &queuepath.Observation{Unseen: counted.Unseen}
	blind := watched()
	blind.Unseen = []queuepath.Unseen{{Blind: queuepath.BlindLocks, Why: "this kernel has no tracepoints for them"},
		{Blind: queuepath.BlindFirst, Why: "it spins"}}
	full := watched()
	full.Lost.Rows = 7
	for what, c := range map[string]struct {
		o             *queuepath.Observation
		before, after string
	}{
		"all is seen":         {watched(), "", ""},
		"counters only":       {counted, "not-watched unseen", "not-watched"},
		"counters, no packet": {silent, "not-watched unseen", "not-watched"},
		"no locks":            {blind, "", ""},
		"no room":             {full, "rows-lost", "not-watched"},
		"no packet":           {&queuepath.Observation{}, "", ""},
	} {
		must.Equal(t, codes(steerCaveats(c.o)), c.before, "%s: planned from", what)
		must.Equal(t, codes(steeredCaveats(c.o, &queuepath.Steering{})), c.after, "%s: looked at afterwards", what)
	}
}
