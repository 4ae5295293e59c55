//go:build netns

package trace

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
)

// TestPacketExact sends a million frames from the four queues of a guest through a bridge, and through a VXLAN device,
// to the four queues of a NIC. What is claimed of every pair of queues must equal what was written to the one and what
// a program on the other counted: the tag of a frame is the queue that it was written to.
func TestPacketExact(t *testing.T) {
	for name, tunnelQueues := range map[string]int{"bridge": 0, "vxlan of one queue": 1, "vxlan of four queues": 4} {
		t.Run(name, func(t *testing.T) {
			const frames = 1_000_000
			s := newScene(t, tunnelQueues)
			tap := s.tap("tap0", 4)
			written := [4]uint64{}
			random := rand.New(rand.NewPCG(1, 2))
			o := s.watching(Config{EveryPacket: true}, func() {
				restore := pin(t)
				defer restore()
				for i := range frames {
					if i%10_000 == 0 {
						pinTo(t, i/10_000)
					}
					queue := min(random.IntN(8), 3) // unequal shares
					s.send(tap[queue], frame(random.IntN(40), byte(queue)))
					written[queue]++
				}
				s.settle()
			})
			if o.Lost != (queuepath.Lost{}) {
				t.Errorf("lost %+v, expected nothing", o.Lost)
			}
			uplink := "nic0"
			if tunnelQueues > 0 {
				uplink = "vx0"
			}
			for from := range 4 {
				origin := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: from}
				if n := frameSum(o, func(r *queuepath.Row) bool {
					return r.First() &&
						r.To == origin
				}); n != written[from] {
					t.Errorf("%v: %d frames claimed, %d were written to it", origin, n, written[from])
				}
				if n := frameSum(o, func(r *queuepath.Row) bool {
					return r.Origin == origin && r.From == origin &&
						r.To.Device == uplink
				}); n != written[from] {
					t.Errorf("%v to %s: %d frames claimed, expected %d", origin, uplink, n, written[from])
				}
				for to := range wireQueues {
					at := queuepath.Queue{Device: "nic0", Direction: queuepath.Tx, Queue: to}
					claimed := frameSum(o, func(r *queuepath.Row) bool { return r.Origin == origin && r.To == at })
					if counted := s.counters.at(t, to, from); claimed != counted {
						t.Errorf("%v to %v: %d frames claimed, %d counted on the wire", origin, at, claimed, counted)
					}
				}
			}
			all := frameSum(o, func(r *queuepath.Row) bool {
				return r.Origin.Device == "tap0" &&
					r.To.Device == "nic0"
			})
			if all != frames {
				t.Errorf("%d frames claimed at the NIC, expected %d", all, frames)
			}
		})
	}
}

// frameSum adds up the frames of the rows that are meant.
func frameSum(o *queuepath.Observation, meant func(*queuepath.Row) bool) (n uint64) {
	for i := range o.Rows {
		if meant(&o.Rows[i]) {
			n += o.Rows[i].Frames
		}
	}
	return n
}

// pin keeps the calling goroutine on its thread, and gives back what undoes it.
func pin(t testing.TB) func() {
	t.Helper()
	var before unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(0, &before))
	runtime.LockOSThread()
	return func() {
		must.Try(t, unix.SchedSetaffinity(0, &before))
		runtime.UnlockOSThread()
	}
}

// allowed are the CPUs that the process may use.
func allowed(t testing.TB) []int {
	t.Helper()
	var set unix.CPUSet
	must.Do(t, unix.SchedGetaffinity(unix.Getpid(), &set))
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// pinTo moves the pinned thread to the nth of the CPUs that the process may use.
func pinTo(t testing.TB, n int) {
	t.Helper()
	cpus := allowed(t)
	var one unix.CPUSet
	one.Set(cpus[n%len(cpus)])
	must.Do(t, unix.SchedSetaffinity(0, &one))
}
