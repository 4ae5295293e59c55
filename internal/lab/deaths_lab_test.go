//go:build lab

package lab_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"mpps/internal/lab"
)

// BenchmarkDeaths counts emulated hosts that die while their memory is worked on, with a guest that runs: with
// khugepaged and NUMA balancing coming by once in an hour, as the lab sets them, and ten times a second. Each host
// begins from the same saved state.
func BenchmarkDeaths(b *testing.B) {
	program, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(program)
	if err != nil {
		b.Fatal(err)
	}
	begin := &lab.Beginning{Key: fmt.Sprintf("deaths %x", sha256.Sum256(text)),
		Make: func(ctx context.Context, l *lab.Lab) error {
			if err := l.Bridge(ctx, "br9", "10.50.0.1/24"); err != nil {
				return err
			}
			_, err := l.StartGuest(ctx, lab.GuestSpec{Name: "g", Binary: program, VCPUs: 2, MemoryMiB: 256,
				NICs:  []lab.NIC{{Model: lab.Virtio, Bridge: "br9", Addr: "10.50.0.2/24"}},
				Probe: lab.UDPProbe(7, "hello")})
			return err
		}}
	for _, kind := range []struct{ name, script string }{
		{"once in an hour", "true"},
		{"ten times a second", `echo 100 >/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs
echo 100 >/sys/kernel/mm/transparent_hugepage/khugepaged/alloc_sleep_millisecs; echo always >/sys/kernel/mm/transparent_hugepage/enabled
for f in scan_delay_ms scan_period_min_ms scan_period_max_ms; do echo 100 >/sys/kernel/debug/sched/numa_balancing/$f; done`},
	} {
		b.Run(kind.name, func(b *testing.B) {
			died := 0
			for b.Loop() {
				if why := worked(b, begin, kind.script); why != "" {
					died++
					b.Log(why)
				}
			}
			b.ReportMetric(float64(died), "died")
			b.Logf("%d of %d died", died, b.N)
		})
	}
}

// worked begins a host, lets processes on all of its CPUs write to 600 MB for 20 s and returns why it died; empty: it
// did not.
func worked(b *testing.B, begin *lab.Beginning, script string) string {
	l, err := lab.Start(b.Context(), lab.Config{Name: "deaths", Begin: begin})
	if err != nil {
		return err.Error()
	}
	defer func() {
		if err := l.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	_, err = l.Must(ctx, script+`
for i in 1 2 3 4; do timeout 20 perl -e '$x = "a" x (150 << 20); while (1) { substr($x, int(rand(length $x)), 1) = "b" }' & done
ping -q -i 0.01 -w 20 10.50.0.2 >/dev/null || { echo "the guest does not answer"; exit 1; }
wait`)
	died := l.Died(b.Context())
	if died == "" && err != nil {
		died = err.Error()
	}
	if errors.Is(err, lab.ErrGone) {
		died = l.Reason() + ": " + died
	}
	return died
}
