package lab

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mpps/internal/must"
)

func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stats")
	t.Setenv("MPPS_LAB_STATS", file)
	const n = 50
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() { Record(StatRetry, "two\nlines", 1.5) })
	}
	wg.Wait()
	text := must.Get(os.ReadFile(file))(t)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	must.Need(t, len(lines) == n, "found %d lines, want %d", len(lines), n)
	for _, line := range lines {
		var s Stat
		if err := json.Unmarshal([]byte(line), &s); err != nil || s != (Stat{StatRetry, "two\nlines", 1.5}) {
			t.Errorf("found %s: %+v, %v", line, s, err)
		}
	}
	t.Setenv("MPPS_LAB_STATS", filepath.Join(t.TempDir(), "missing", "stats"))
	Record(StatBoot, "", 1) // and nothing happens
}
