//go:build netns

package trace

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
)

// contenders are as many CPUs as it takes to see one of them wait: on a machine of its own three, since the first is
// not told of.
func contenders(t *testing.T) int {
	t.Helper()
	n := 2
	if u := (&watcher{inventory: &inventory{}}).unseenWaits(); u.What != "" {
		n = 3
	}
	if cpus := allowed(t); len(cpus) < n {
		t.Skipf("%d CPUs: the test needs %d, of which the kernel tells one that waits", len(cpus), n)
	}
	return n
}

// TestContention: CPUs send through one queue discipline with a lock. Waits for the lock of the NIC's queue discipline
// are seen, and without one, on a device that takes no lock, none are.
func TestContention(t *testing.T) {
	senders := contenders(t)
	s := newScene(t, 0)
	tap := s.tap("tap0", 3)
	both := func() {
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				restore := pin(t)
				defer restore()
				pinTo(t, i)
				f := frame(i, byte(i))
				for end := time.Now().Add(time.Second); time.Now().Before(end); {
					for range 100 {
						_, _ = unix.Write(tap[i], f) // dropped frames count too: they had the lock
					}
				}
			})
		}
		all.Wait()
	}
	waits := func(o *queuepath.Observation) (n uint64) {
		for _, c := range o.Contention {
			if c.Device == "nic0" {
				must.Hold(t, c.WaitNS != 0, "%+v: waits that took no time", c)
				n += c.Waits
			}
		}
		return n
	}
	o := s.watching(Config{EveryPacket: true}, both)
	if slices.ContainsFunc(o.Unseen, func(u queuepath.Unseen) bool { return u.Blind == queuepath.BlindLocks }) {
		t.Skip("this kernel has no tracepoints of waits for locks (Linux 5.19)")
	}
	must.Equal(t, waits(o), 0, "waits for locks of a device that has none")
	// One lock for all queues of the device (struct Qdisc, q.lock).
	s.must(s.on.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: s.nic.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo",
	}))
	var n uint64
	for began := time.Now(); n < 20 && time.Since(began) < time.Minute; { // as below
		o = s.watching(Config{EveryPacket: true}, both)
		n += waits(o)
	}
	must.Hold(t, n >= 20, "%d waits for the lock of a queue discipline that CPUs take turns at, expected many: %+v", n,
		o.Contention)
	for _, c := range o.Contention {
		if c.Device == "nic0" && c.Lock == "qdisc" && c.Queue != -1 {
			t.Errorf("%+v: expected the root's lock, which is no queue's", c)
		}
	}
	for _, part := range []float64{1e-9, 1} { // programs that see waits attached in windows only, and always
		var seen uint64
		// A window is short, and a machine with other work has the two seldom run at once.
		for began := time.Now(); seen == 0 && time.Since(began) < time.Minute; {
			o := s.watching(Config{waitShare: part}, both)
			if seen = waits(o); o.Watched >= o.Seconds {
				t.Errorf("watched %.3f of %.2f s, expected windows", o.Watched, o.Seconds)
			}
		}
		must.Hold(t, seen != 0, "in windows, with %g of a CPU to stay attached: no waits, expected some", part)
	}
	if d := o.Device("nic0"); d == nil || d.Qdisc != "pfifo" {
		t.Errorf("queue discipline of the NIC: %+v, expected pfifo", d)
	}
}

// TestSparing: programs run for each lock that anybody in the kernel waits for. Where that comes to more than its part
// of the time, they are attached in windows only; a wait that was not over at the end of a window is none of the next.
func TestSparing(t *testing.T) {
	s := newScene(t, 0)
	attached := func() int {
		_, links, _ := openBPF(t, os.Getpid())
		return len(links)
	}
	before := attached()
	n, err := openNamespace(s.host)
	s.must(err)
	p, err := load(n, Config{})
	s.must(err)
	defer p.close()
	if p.noWaits != nil {
		t.Skip("this kernel has no tracepoints of waits for locks (Linux 5.19)")
	}
	w := &watcher{program: p}
	s.must(w.limitWaits(4*time.Millisecond, time.Second))
	if n := attached() - before; n != 2 || p.sparing {
		t.Errorf("%d programs attached with little to do, expected 2", n)
	}
	s.must(w.limitWaits(6*time.Millisecond, time.Second))
	waits := make([]watchWait, ebpf.MustPossibleCPU())
	for range 2 {
		if n := attached() - before; n != 0 {
			t.Errorf("%d programs attached between windows, expected none", n)
		}
		s.must(p.attach())
		must.Equal(t, attached()-before, 4, "programs attached in a window")
		s.must(p.coll.Maps[watchMapWaits].Lookup(uint32(0), &waits))
		for cpu, w := range waits {
			must.Hold(t, w.Lock != 1, "CPU %d still waits for what it waited for in the window before", cpu)
			waits[cpu] = watchWait{Lock: 1, Since: 1}
		}
		s.must(p.coll.Maps[watchMapWaits].Update(uint32(0), waits, ebpf.UpdateAny))
		_, err := p.detach()
		s.must(err)
		must.Hold(t, p.patching > 0, "attaching and detaching took no time")
	}
}

// TestBusy: a NIC whose ring is full gives packets back to its queue discipline, which sends them once more. Each is
// counted once, and the requeues are told. The wire's end is emptied by its own thread that shares its CPU with
// the sender.
func TestBusy(t *testing.T) {
	for name, tunnelQueues := range map[string]int{"bridge": 0, "vxlan": 2} {
		t.Run(name, func(t *testing.T) { testBusy(t, newScene(t, tunnelQueues)) })
	}
}

func testBusy(t *testing.T, s *scene) {
	tap := s.tap("tap0", 2)
	s.must(s.on.QdiscAdd(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: s.nic.Attrs().Index, Handle: netlink.MakeHandle(1, 0),
			Parent: netlink.HANDLE_ROOT}, QdiscType: "pfifo",
	}))
	n, err := openNamespace(strings.TrimSuffix(s.host, "h") + "w")
	s.must(err)
	s.must(n.do(func() error {
		if err := unix.Mount("", "/sys", "", unix.MS_REMOUNT, ""); err != nil { // that of the thread alone, writable
			return err
		}
		return os.WriteFile("/sys/class/net/wire0/threaded", []byte("1"), 0)
	}))
	o := s.watching(Config{EveryPacket: true}, func() {
		restore := pin(t)
		defer restore()
		for i, end := 0, time.Now().Add(2*time.Second); time.Now().Before(end); i++ {
			if i%5000 == 0 {
				pinTo(t, i/5000)
			}
			_, _ = unix.Write(tap[i/300%2], frame(i%3, byte(i/300%2)))
		}
		for last, now := uint64(0), s.counters.total(t); now != last; last, now = now, s.counters.total(t) {
			time.Sleep(time.Second) // the thread may wait for its CPU
		}
	})
	must.Hold(t, o.Lost == (queuepath.Lost{}), "lost %+v, expected nothing", o.Lost)
	for to := range wireQueues {
		for tag := range 2 {
			origin, at := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: tag},
				queuepath.Queue{Device: "nic0", Direction: queuepath.Tx, Queue: to}
			claimed := frameSum(o, func(r *queuepath.Row) bool { return r.Origin == origin && r.To == at })
			if counted := s.counters.at(t, to, tag); claimed != counted {
				t.Errorf("%v to %v: %d frames claimed, %d counted on the wire", origin, at, claimed, counted)
			}
		}
	}
	if len(o.Requeues) == 0 {
		t.Skip("nothing came back: before Linux 6.16 a veth drops what its ring has no room for (drivers/net/veth.c, " +
			"veth_xmit)")
	}
	if r := o.Requeues[0]; len(o.Requeues) != 1 || r.Device != "nic0" || r.Count == 0 {
		t.Errorf("requeues %+v, expected those of nic0", o.Requeues)
	}
}

// TestTransmitLock: a device that takes its queue's lock is told from those that take none, and what CPUs wait for it
// is seen as a wait for that queue.
func TestTransmitLock(t *testing.T) {
	senders := contenders(t)
	s := newScene(t, 0)
	tap := s.tap("tap0", 1)
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.NumTxQueues = "ifb9", 1
	if err := s.on.LinkAdd(&netlink.Ifb{LinkAttrs: attrs}); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("this kernel has no ifb, the software device that takes the lock")
	} else {
		s.must(err)
	}
	l := s.up(s.on, "ifb9")
	// Without a discipline, so that its lock is all there is.
	s.must(s.on.QdiscReplace(&netlink.GenericQdisc{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index,
		Parent: netlink.HANDLE_ROOT}, QdiscType: "noqueue"}))
	socket := make([]int, senders)
	s.inHost(func() (err error) {
		for i := range socket {
			if socket[i], err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
		}
		return nil
	})
	for _, fd := range socket {
		defer unix.Close(fd)
	}
	o := s.watching(Config{EveryPacket: true}, func() {
		s.send(tap[0], frame(1, 1))
		var all sync.WaitGroup
		for i := range senders {
			all.Go(func() {
				restore := pin(t)
				defer restore()
				pinTo(t, i)
				to := &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index, Halen: 6}
				for f, end := frame(i, 1), time.Now().Add(2*time.Second); time.Now().Before(end); {
					for range 100 {
						_ = unix.Sendto(socket[i], f, 0, to) // it drops what was not redirected to it
					}
				}
			})
		}
		all.Wait()
		s.settle()
	})
	for name, want := range map[string]bool{"ifb9": false, "nic0": true, "tap0": true} {
		if d := o.Device(name); d == nil || d.Lockless != want {
			t.Errorf("%s: %+v, expected lockless %v", name, d, want)
		}
	}
	var found []queuepath.Contention
	for _, c := range o.Contention {
		if c.Device == "ifb9" {
			found = append(found, c)
		}
	}
	must.Hold(t, len(found) == 1 && found[0].Lock == "xmit" && found[0].Queue == 0 && found[0].Waits >= 5,
		"waits %+v, expected those for the lock of queue 0", found)
}
