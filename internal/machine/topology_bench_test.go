package machine

import "testing"

// BenchmarkInventory takes stock of the machine that it runs on: mpps inspect is to take less than 100 ms.
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
