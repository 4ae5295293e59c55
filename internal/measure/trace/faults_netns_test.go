//go:build netns

package trace

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/setting"
)

// xps sets which CPUs send by which queue of the NIC.
func (s *scene) xps(sets ...setting.CPUSet) {
	s.t.Helper()
	s.inHost(func() error {
		// mounted for reading; this thread's own
		if err := unix.Mount("", "/sys", "", unix.MS_REMOUNT, ""); err != nil {
			return err
		}
		for queue := range wireQueues {
			mask := "0"
			if queue < len(sets) {
				mask = sets[queue].Mask()
			}
			if err := os.WriteFile(fmt.Sprintf("/sys/class/net/nic0/queues/tx-%d/xps_cpus", queue), []byte(mask),
				0); err != nil {
				return err
			}
		}
		return nil
	})
}

// TestPlantedFaults: what is wrong with a path of real packets is found and named first, with its cause; of a healthy
// path nothing is said. Guests are taps that the test writes to, the NIC is a veth of four queues.
func TestPlantedFaults(t *testing.T) {
	cpus := allowed(t)
	if len(cpus) < 2 {
		t.Skip("needs two CPUs: who sends by which queue is told by CPU")
	}
	const rounds, flows = 12_000, 16
	// Queues of a guest are divided among two CPUs, as their vhost threads are.
	guests := func(s *scene, count, queues int) [][]int {
		var files [][]int
		for g := range count {
			files = append(files, s.tap(fmt.Sprintf("tap%d", g), queues))
		}
		return files
	}
	spread := func(s *scene) { s.xps(setting.CPUs(cpus[0]), setting.CPUs(cpus[1])) }
	// traffic sends from all queues of all guests, each from its CPU.
	traffic := func(s *scene, files [][]int) {
		restore := pin(t)
		defer restore()
		for i := range rounds {
			if i%200 == 0 {
				pinTo(t, i/200)
			}
			for g, tap := range files {
				for queue, fd := range tap {
					if (g+queue)%2 == i/200%2 {
						s.send(fd, frame(queue*flows+i%flows, byte(g)))
					}
				}
			}
		}
		s.settle()
	}
	for _, c := range []struct {
		name   string
		tunnel int
		run    func(s *scene) *queuepath.Observation
		first  string // "" for a healthy path
		cause  string
		after  string // what follows from the first
	}{
		{"single-queue tunnel", 1, func(s *scene) *queuepath.Observation {
			files := guests(s, 2, 4)
			return s.watching(Config{EveryPacket: true}, func() { traffic(s, files) })
		}, "funnel vx0", "does not keep", "collision nic0"},
		{"all XPS on one queue", 0, func(s *scene) *queuepath.Observation {
			files := guests(s, 2, 2)
			s.xps(nil, nil, setting.CPUs(cpus...))
			return s.watching(Config{EveryPacket: true}, func() { traffic(s, files) })
		}, "collision nic0 tx 2", "/sys/class/net/nic0/queues/tx-2/xps_cpus", ""},
		{"all XPS on one queue below a tunnel", 1, func(s *scene) *queuepath.Observation {
			files := guests(s, 2, 2)
			s.xps(nil, setting.CPUs(cpus...))
			return s.watching(Config{EveryPacket: true}, func() { traffic(s, files) })
		}, "collision nic0 tx 1", "/sys/class/net/nic0/queues/tx-1/xps_cpus", ""},
		{"two guests on one queue", 0, func(s *scene) *queuepath.Observation {
			files := guests(s, 2, 1)
			return s.watching(Config{EveryPacket: true}, func() { traffic(s, files) })
		}, "collision nic0 tx 0", "number at the tap", ""},
		{"a flow that the guest sends by two queues", 0, func(s *scene) *queuepath.Observation {
			tap := s.tap("tap0", 4)
			return s.watching(Config{EveryPacket: true}, func() {
				for i := range rounds {
					s.send(tap[1+i%2], frame(1, 0))
				}
				s.settle()
			})
		}, "flapping tap0 rx", "the guest sends a flow by several", "flapping nic0 tx"},
		{"XPS rewritten in flight", 0, func(s *scene) *queuepath.Observation {
			tap := s.tap("tap0", 1)
			s.xps(setting.CPUs(cpus...))
			return s.watching(Config{EveryPacket: true}, func() {
				for i := range rounds {
					if i%100 == 0 {
						sets := make([]setting.CPUSet, 2)
						sets[i/100%2] = setting.CPUs(cpus...)
						s.xps(sets...)
					}
					s.send(tap[0], frame(1, 0))
				}
				s.settle()
			})
		}, "flapping nic0 tx", "was changed while flows went on", ""},
		{"a sender that changes CPUs", 0, func(s *scene) *queuepath.Observation {
			tap := s.tap("tap0", 1)
			spread(s)
			return s.watching(Config{EveryPacket: true}, func() {
				restore := pin(t)
				defer restore()
				for i := range rounds {
					if i%50 == 0 {
						pinTo(t, i/50)
					}
					s.send(tap[0], frame(1, 0))
				}
				s.settle()
			})
		}, "flapping nic0 tx", "XPS chooses the queue of nic0 by CPU", ""},
		{"healthy: a queue for each of the guest's", 0, func(s *scene) *queuepath.Observation {
			files := guests(s, 1, 4)
			return s.watching(Config{EveryPacket: true}, func() { traffic(s, files) })
		}, "", "", ""},
		{"healthy: XPS by CPU below a tunnel of one queue", 1, func(s *scene) *queuepath.Observation {
			files := guests(s, 2, 2)
			spread(s)
			return s.watching(Config{EveryPacket: true}, func() { traffic(s, files) })
		}, "", "", ""},
		{"healthy, in windows", 0, func(s *scene) *queuepath.Observation {
			files := guests(s, 1, 4)
			return s.watching(Config{}, func() { traffic(s, files) })
		}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScene(t, c.tunnel)
			faults := queuepath.Faults(c.run(s))
			var told []string
			for _, f := range faults {
				told = append(told, fmt.Sprintf("%s, %.0f %%: %s; %s (follows %q)", f.Name(), 100*f.Share, f.Evidence,
					f.Cause, f.Follows))
			}
			all := strings.Join(told, "\n")
			switch {
			case c.first == "" && len(faults) > 0:
				t.Errorf("a healthy path:\n%s", all)
			case c.first == "":
			case len(faults) == 0 || faults[0].Name() != c.first || !strings.Contains(faults[0].Cause, c.cause):
				t.Errorf("%s, %q is not first:\n%s", c.first, c.cause, all)
			default:
				for _, f := range faults[1:] {
					if f.Follows != c.first {
						t.Errorf("%s is no consequence:\n%s", f.Name(), all)
					}
				}
				if c.after != "" && !strings.Contains(all, c.after) {
					t.Errorf("%s is not named:\n%s", c.after, all)
				}
			}
			t.Log("\n" + all)
		})
	}
}
