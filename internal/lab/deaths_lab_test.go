//go:build lab

package lab_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"mpps/internal/lab"
	"mpps/internal/must"
)

// BenchmarkDeaths counts emulated hosts that die after their own boot while their memory is worked on: with
// khugepaged and NUMA balancing once an hour, as the lab sets them, and ten times a second.
func BenchmarkDeaths(b *testing.B) {
	for _, kind := range []struct{ name, script string }{
		{"once an hour", "true"},
		{"ten times a second", `cd /sys/kernel/mm/transparent_hugepage; echo always >enabled
echo 100 >khugepaged/scan_sleep_millisecs; echo 100 >khugepaged/alloc_sleep_millisecs
for f in scan_delay_ms scan_period_min_ms scan_period_max_ms; do echo 100 >/sys/kernel/debug/sched/numa_balancing/$f; done`},
	} {
		b.Run(kind.name, func(b *testing.B) {
			died := 0
			for b.Loop() {
				if why := bootAndWork(b, kind.script); why != "" {
					died++
					b.Log(why)
				}
			}
			b.ReportMetric(float64(died), "died")
			b.Logf("%d of %d died", died, b.N)
		})
	}
}

// bootAndWork boots a host, lets a process for each of its CPUs write to 150 MB for 4 s and returns why the host died;
// empty if it did not.
func bootAndWork(b *testing.B, script string) string {
	name := fmt.Sprintf("deaths-%d", os.Getpid())
	l, err := lab.Start(b.Context(), lab.Config{Name: name, Persist: true}) // a persistent one is booted each time
	if err != nil {
		return err.Error()
	}
	defer func() {
		must.Try(b, l.Stop(context.WithoutCancel(b.Context())))
		must.Try(b, lab.RemoveData(name))
	}()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	_, err = l.Must(ctx, script+`
for i in 1 2 3 4; do
	timeout 4 perl -e '$x = "a" x (150 << 20); while (1) { substr($x, int(rand(length $x)), 1) = "b" }' &
done
wait`)
	if died := l.Death(b.Context()); died != "" {
		return l.Reason() + ": " + died
	}
	if err != nil {
		return err.Error()
	}
	return ""
}
