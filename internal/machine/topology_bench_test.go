package machine

import (
	"testing"

	"mpps/internal/must"
)

// BenchmarkInventory reads all facts of this machine: mpps inspect must take less than 100 ms.
func BenchmarkInventory(b *testing.B) {
	m := must.Get(Open("/"))(b)
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		m.Inventory(b.Context())
	}
}
