package gallery

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain collects garbage a quarter as often: thousands of audits took an eighth of their time for it. Up to 2 GiB,
// above which it is collected as needed: without that limit this process took 7 GB.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(2 << 30)
	os.Exit(m.Run())
}
