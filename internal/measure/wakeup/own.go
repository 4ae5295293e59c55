package wakeup

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"mpps/internal/measure"
)

// OwnSchema is the version of the own loop's output.
const OwnSchema = "mpps.latency-loop/1"

// Own is the output of the own loop: mpps on the measured machine.
type Own struct {
	Schema  string      `json:"schema"`
	Version string      `json:"mpps"`
	Threads []OwnThread `json:"threads"`
}

// OwnThread is one thread of the own loop.
type OwnThread struct {
	CPU     int              `json:"cpu"`
	Count   uint64           `json:"count"`
	MinNs   uint64           `json:"min_ns"`
	MaxNs   uint64           `json:"max_ns"`
	MeanNs  float64          `json:"mean_ns"`
	Buckets []measure.Bucket `json:"buckets"`
	// TriggerNs is the shortest wake-up that was kept with its time; all longer ones were kept too.
	TriggerNs uint64    `json:"trigger_ns"`
	Long      []OwnLong `json:"long"`
	Problem   string    `json:"problem,omitempty"` // what the thread lacked: SCHED_FIFO, its CPU, locked memory
}

// OwnLong is a long wake-up: its length, and CLOCK_MONOTONIC when the thread ran.
type OwnLong struct {
	Ns   uint64 `json:"ns"`
	When int64  `json:"monotonic_ns"`
}

// ParseOwn parses the output of the own loop.
func ParseOwn(text string) (*Output, error) {
	var report Own
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&report); err != nil {
		return nil, unexpected("own", "expected JSON, found %.60q", strings.TrimSpace(text))
	}
	if n := len(report.Threads); report.Schema != OwnSchema || n == 0 || n > maxThreads {
		return nil, unexpected("own", "found schema %.60q with %d threads, expected %q with at most %d", report.Schema,
			n, OwnSchema, maxThreads)
	}
	out := &Output{Version: report.Version, Exact: true}
	for _, t := range report.Threads {
		s := sampled{cpu: t.CPU, buckets: t.Buckets, min: t.MinNs, max: t.MaxNs, mean: t.MeanNs}
		out.Threads = append(out.Threads, Thread{CPU: t.CPU, Distribution: s.distribution(TimerWakeup)})
		out.Trigger = max(out.Trigger, t.TriggerNs)
		for _, l := range t.Long {
			out.Long = append(out.Long, Long{CPU: t.CPU, Ns: l.Ns, When: time.Duration(l.When)})
		}
		if t.Problem != "" {
			out.Problems = append(out.Problems, fmt.Sprintf("%.400s", t.Problem))
		}
	}
	return out, nil
}
