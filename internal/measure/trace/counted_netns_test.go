//go:build netns

package trace

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"mpps/internal/advise/queuepath"
)

// TestWithoutBTF: where packets cannot be watched, queues' counters still tell what each carried, and that this is all.
func TestWithoutBTF(t *testing.T) {
	const frames = 3_000
	s := newScene(t, 0)
	tap, four := s.tap("tap0", 1), s.tap("tap4", 4)
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan struct{}, 1), make(chan error, 1)
	var o *queuepath.Observation
	go func() {
		var err error
		o, err = Watch(ctx, Config{Netns: s.host, For: time.Hour, btf: os.ErrNotExist, Progress: func(time.Duration) {
			select {
			case ready <- struct{}{}:
			default:
			}
		}})
		done <- err
	}()
	<-ready
	for i := range frames {
		s.send(tap[0], frame(1, 0))
		s.send(four[i%4], frame(2, 1))
	}
	s.settle()
	stop()
	s.must(<-done)
	carried := func(q queuepath.Queue) (n uint64) {
		return frameSum(o, func(r *queuepath.Row) bool { return r.First() && r.To == q })
	}
	if n := carried(queuepath.Queue{Device: "tap0", Direction: queuepath.Rx}); n != frames {
		t.Errorf("the tap's only queue carried %d, expected %d", n, frames)
	}
	if n := carried(queuepath.Queue{Device: "tap4", Direction: queuepath.Rx, Queue: -1}); n != frames {
		t.Errorf("the four queues of the other carried %d, expected %d", n, frames)
	}
	var what, why []string
	for _, u := range o.Unseen {
		what, why = append(what, u.What), append(why, u.Why)
	}
	if len(what) != 2 || !strings.Contains(what[0], "ways") || !strings.Contains(why[0], "BTF") ||
		!strings.Contains(what[1], "tap4 rx") {
		t.Errorf("not seen: %q because %q", what, why)
	}
}
