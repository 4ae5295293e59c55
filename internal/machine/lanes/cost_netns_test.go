//go:build netns

package lanes

import (
	"testing"

	"github.com/cilium/ebpf"

	"mpps/internal/must"
)

// BenchmarkPrograms measures the programs' cost per packet, each on its own: a tap with a window, and the NIC.
func BenchmarkPrograms(b *testing.B) {
	var objects lanesObjects
	must.Do(b, loadLanesObjects(&objects, nil))
	defer objects.Close()
	// lo, where test runs take place
	must.Do(b, objects.Windows.Put(uint32(1), lanesWindow{Base: 4, Count: 4}))
	frame := frameOf(0, 0, 0)
	for name, p := range map[string]*ebpf.Program{"tap": objects.MppsLaneTap, "nic": objects.MppsLaneNic} {
		b.Run(name, func(b *testing.B) {
			_, took, err := p.Benchmark(frame, max(1000, b.N), b.ResetTimer)
			must.Do(b, err)
			b.ReportMetric(float64(took.Nanoseconds()), "ns/packet")
		})
	}
}
