//go:build netns

package traffic

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/must"
)

// TestPlantedPktgen sends a hand-made sequence in pktgen's form with loss, a
// duplicate and reordering, and expects each sink to find exactly that, or with
// numbers that repeat to count every frame.
func TestPlantedPktgen(t *testing.T) {
	a, b := pair(t)
	for _, m := range []Method{XDP, AFPacket} {
		for _, unnumbered := range []bool{false, true} {
			s := mustSink(t, SinkConfig{In: b, Method: m, Stream: 3, Streams: 2, Pktgen: true, Unnumbered: unnumbered})
			d := must.Get(a.Device())(t)
			fd := rawSocket(t, d, 0)
			done := onWorkerThread("", 0, func(int) error {
				for worker := range 3 { // the third is of a stream that is not counted
					for _, seq := range []uint32{1, 2, 4, 3, 5, 5, 9} {
						if err := unix.Send(fd, pktgenFrame(t, worker, seq), 0); err != nil {
							return err
						}
					}
				}
				return nil
			})
			must.Do(t, <-done)
			c := settle(t, s)
			want := StreamCounts{Received: 7, Next: 9, Duplicated: 1, Reordered: 1}
			if unnumbered {
				want = StreamCounts{Received: 7, Next: 7}
			}
			for i, x := range c.Streams {
				if x.Stream != uint16(3+i) || x.Received != want.Received || x.Next != want.Next ||
					x.Duplicated != want.Duplicated || x.Reordered != want.Reordered {
					t.Errorf("%s, unnumbered %v: %+v, want %+v", m, unnumbered, x, want)
				}
			}
			if c.Received != 14 || c.Foreign != 7 {
				t.Errorf("%s: %+v", m, c)
			}
			must.Try(t, s.Close())
		}
	}
	// Who does not ask for them does not count them.
	s := mustSink(t, SinkConfig{In: b, Method: XDP, Stream: 0})
	d := must.Get(a.Device())(t)
	must.Do(t, unix.Send(rawSocket(t, d, 0), pktgenFrame(t, 0, 1), 0))
	if c := settle(t, s); c.Received != 0 || c.Foreign != 0 {
		t.Errorf("%+v", c)
	}
}

// TestNoPktgen: where the module is not loaded the reason says so.
func TestNoPktgen(t *testing.T) {
	a, _ := pair(t)
	g, err := NewGenerator(t.Context(), Config{Out: a, Method: Pktgen})
	if err == nil {
		t.Cleanup(func() { g.Close() })
		t.Skip("this kernel has pktgen loaded: test/bench in the lab sends with it")
	}
	var why *UnsupportedError
	if !errors.Is(err, ErrNoPktgen) || !errors.As(err, &why) || why.Answer != No {
		t.Errorf("%v", err)
	}
}
