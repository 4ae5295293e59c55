package machine

import "testing"

// BenchmarkInventory reads all facts of this machine: mpps inspect must take less than 100 ms.
func BenchmarkInventory(b *testing.B) {
	m, err := Open("/")
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		m.Inventory(b.Context())
	}
}
