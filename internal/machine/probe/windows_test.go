package probe

import (
	"testing"
	"time"

	"mpps/internal/must"
)

// TestThinnedOnce: the time that thinned programs were attached counts once; otherwise their counts would be scaled up
// too little.
func TestThinnedOnce(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0)
	at := func(passed time.Duration) time.Time { return begun.Add(passed) }
	thins := 0
	w := &window{runs: func(r probeRan) uint64 { return r.Drops }, share: 0.01,
		thin: func(of uint32) error { thins++; return nil }, since: begun}
	ran := uint64(0)
	for passed := 10 * time.Millisecond; passed <= 100*time.Millisecond; passed += 10 * time.Millisecond {
		ran += 2000 // 0.3 ms of each 10, and thinned 0.1 ms
		w.count([]probeRan{{Drops: ran}}, at(passed))
		if !w.thinned {
			w.adjust(at(passed))
		}
	}
	must.Need(t, thins == 1 && w.thinned, "thinned out %d times, expected once", thins)
	must.Equal(t, w.attachedFor, 100*time.Millisecond, "attached for")
	must.Equal(t, w.scale(400*time.Millisecond), 4, "counts are scaled by")
}
