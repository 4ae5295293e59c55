package machine

import "testing"

// BenchmarkInventory reads all facts of this machine: mpps inspect must take less than 100 ms.
func BenchmarkInventory(b *testing.B) {
	m := live(b)
	b.ReportAllocs()
	for b.Loop() {
		m.Inventory(b.Context())
	}
}
