//go:build netns

package trace

import (
	"context"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
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
			must.Hold(t, o.Lost == (queuepath.Lost{}), "lost %+v, expected nothing", o.Lost)
			uplink := "nic0"
			if tunnelQueues > 0 {
				uplink = "vx0"
			}
			for from := range 4 {
				origin := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: from}
				if n := frameSum(o, func(r *queuepath.Row) bool {
					return r.First() && r.To == origin
				}); n != written[from] {
					t.Errorf("%v: %d frames claimed, %d were written to it", origin, n, written[from])
				}
				must.Equal(t, frameSum(o, func(r *queuepath.Row) bool {
					return r.Origin == origin && r.From == origin && r.To.Device == uplink
				}), written[from], "%v to %s: frames claimed", origin, uplink)
				for to := range wireQueues {
					at := queuepath.Queue{Device: "nic0", Direction: queuepath.Tx, Queue: to}
					claimed := frameSum(o, func(r *queuepath.Row) bool { return r.Origin == origin && r.To == at })
					if counted := s.counters.at(t, to, from); claimed != counted {
						t.Errorf("%v to %v: %d frames claimed, %d counted on the wire", origin, at, claimed, counted)
					}
				}
			}
			all := frameSum(o, func(r *queuepath.Row) bool {
				return r.Origin.Device == "tap0" && r.To.Device == "nic0"
			})
			must.Equal(t, all, frames, "frames claimed at the NIC")
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
	must.Equal(t, carried(queuepath.Queue{Device: "tap0", Direction: queuepath.Rx}), frames,
		"the tap's only queue carried")
	must.Equal(t, carried(queuepath.Queue{Device: "tap4", Direction: queuepath.Rx, Queue: -1}), frames,
		"the four queues of the other carried")
	var what, why []string
	for _, u := range o.Unseen {
		what, why = append(what, u.What), append(why, u.Why)
	}
	must.Hold(t, len(what) == 2 && strings.Contains(what[0], "ways") && strings.Contains(why[0], "BTF") &&
		strings.Contains(what[1], "tap4 rx"), "not seen: %q because %q", what, why)
}

// capture counts what arrives on each receive queue of the wire's end, by tag: an XDP program in the driver, which is
// handed the number of the ring that a frame came through.
type capture struct {
	matrix, sum *ebpf.Map
	all         *ebpf.Map // with what the test has not marked
}

const (
	tags = 16
	mark = 0x5a // behind the tag
)

func newCapture(t testing.TB, ns string, index, tagAt int) *capture {
	t.Helper()
	c := &capture{}
	for at, entries := range map[**ebpf.Map]uint32{&c.matrix: wireQueues * tags, &c.sum: 1, &c.all: 1} {
		spec := &ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: entries}
		m := must.Get(ebpf.NewMap(spec))(t)
		t.Cleanup(func() { m.Close() })
		*at = m
	}
	count := func(m *ebpf.Map, end string) asm.Instructions {
		return asm.Instructions{
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, end),
			asm.Mov.Imm(asm.R1, 1),
			asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		}
	}
	// struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index
	code := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
	}
	code = append(code, count(c.all, "drop")...)
	code = append(code, asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.LoadMem(asm.R7, asm.R1, 16, asm.Word),
		asm.LSh.Imm(asm.R7, 4),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, int32(tagAt+2)),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, int16(tagAt+1), asm.Byte),
		asm.JNE.Imm(asm.R5, mark, "drop"), // the bridge's own
		asm.LoadMem(asm.R5, asm.R2, int16(tagAt), asm.Byte),
		asm.And.Imm(asm.R5, tags-1),
		asm.Add.Reg(asm.R7, asm.R5),
		asm.StoreMem(asm.RFP, -4, asm.R7, asm.Word),
	}...)
	code = append(code, count(c.matrix, "drop")...)
	code = append(code, asm.StoreImm(asm.RFP, -4, 0, asm.Word))
	code = append(code, count(c.sum, "drop")...)
	code = append(code, asm.Mov.Imm(asm.R0, 1).WithSymbol("drop"), asm.Return()) // XDP_DROP
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, Instructions: code, License: "GPL"})
	must.Need(t, err == nil, "counter on the wire: %v", err)
	defer p.Close()
	n := must.Get(openNamespace(ns))(t)
	err = n.do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	must.Need(t, err == nil, "counter on the wire: %v", err)
	return c
}

func read(t testing.TB, m *ebpf.Map, key uint32) (sum uint64) {
	t.Helper()
	var cpus []uint64
	must.Do(t, m.Lookup(key, &cpus))
	for _, n := range cpus {
		sum += n
	}
	return sum
}

func (c *capture) total(t testing.TB) uint64 { return read(t, c.sum, 0) }

func (c *capture) at(t testing.TB, queue, tag int) uint64 {
	return read(t, c.matrix, uint32(queue*tags+tag))
}
