package measure

import (
	"strings"
	"testing"
)

func TestTalkLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		rate     float64
		sample   Sample
		want     Limit
		warnings string
	}{
		{"a closed loop", 0, Sample{Sent: 100, Received: 100, Transactions: 100}, ByUnknown, ""},
		{"a rate that was kept", 100, Sample{Due: 100, Sent: 100, Received: 100, Transactions: 100}, ByNothing, ""},
		{"a rate that the sender could not keep", 100, Sample{Due: 100, Sent: 50, Received: 50, Transactions: 50},
			ByGenerator, "rate-not-reached"},
		{"a rate that the path did not take", 100, Sample{Due: 100, Sent: 50, Received: 50, Transactions: 50,
			Blocked: 40}, ByUnknown, "rate-not-reached"},
		{"answers that did not come", 100, Sample{Due: 100, Sent: 100, Received: 90, Transactions: 90, Lost: 10,
			Late: 3}, ByUnknown, "lost-answers"},
	} {
		run := Run{Kind: RR, Load: Load{Rate: c.rate, Repeat: 1}, Samples: []Sample{c.sample}}
		run.Judge()
		var codes []string
		for _, w := range run.Warnings {
			if w.Code != "few-samples" {
				codes = append(codes, w.Code)
			}
		}
		if run.LimitedBy != c.want || strings.Join(codes, " ") != c.warnings || len(run.Evidence) == 0 {
			t.Errorf("%s: limited by %s (%q), warnings %q; expected %s and %q", c.name, run.LimitedBy, run.Evidence,
				codes, c.want, c.warnings)
		}
	}
}

func TestSentLate(t *testing.T) {
	at := func(ns uint64) *Latency {
		return NewLatency("round-trip", []Bucket{{FromNs: ns, ToNs: ns, Count: 100}})
	}
	for ns, want := range map[uint64]bool{100_000: true, 45_000: false, 15_000: false} {
		run := Run{Kind: RR, Load: Load{Rate: 1},
			Samples: []Sample{{Due: 100, Sent: 100, Transactions: 100, Latency: at(ns), LatencyRaw: at(30_000)}}}
		run.Judge()
		found := false
		for _, w := range run.Warnings {
			found = found || w.Code == "sent-late"
		}
		if found != want || run.LatencyRaw.At(50) != 30_000 {
			t.Errorf("%d ns from the schedule and 30000 from the sending: warned %v, expected %v", ns, found, want)
		}
	}
}
