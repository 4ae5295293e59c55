package traffic

import (
	"errors"
	"math"
	"testing"
)

// TestHoldMemory: all peers together have a bound, what is refused takes nothing, and what is given back twice counts
// once.
func TestHoldMemory(t *testing.T) {
	one, err := HoldMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []uint64{1 << 50, math.MaxUint64} {
		if _, err := HoldMemory(bytes); !errors.Is(err, ErrMemory) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
	if held := peersHold.Load(); held != 1<<20 {
		t.Errorf("%d bytes are held", held)
	}
	one()
	one()
	if held := peersHold.Load(); held != 0 {
		t.Errorf("%d bytes are held at the end", held)
	}
	if n := (SinkConfig{Streams: 512}).Memory(); n < ringBlock*ringBlocks+512*8192 {
		t.Errorf("512 streams take %d bytes", n)
	}
}
