//go:build netns

package trace

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
	"mpps/internal/must"
)

// TestNotJoined: a device that comes while packets are watched has frames whose socket buffers were those of another
// device's a moment ago, which ended on this host. None of them is taken for one of those, be it plain or through a
// tunnel, in windows or not.
func TestNotJoined(t *testing.T) {
	for name, c := range map[string]struct {
		tunnelQueues int
		every        bool
	}{"bridge": {0, true}, "vxlan": {1, true}, "vxlan in windows": {1, false}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, c.tunnelQueues)
			far := s.tap("far0", 1)
			l, err := s.on.LinkByName("far0")
			s.must(err)
			s.must(s.on.LinkSetNoMaster(l)) // nobody here has its frames' addresses: they end
			var sent uint64
			o := s.watching(Config{EveryPacket: c.every}, func() {
				restore := pin(t)
				defer restore()
				pinTo(t, 0)
				both := func(tap []int, d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); {
						must.Get(unix.Write(far[0], frame(2, 2)))(t)
						if tap != nil {
							s.send(tap[0], frame(1, 1))
							sent++
						}
					}
				}
				both(nil, 50*time.Millisecond)
				lasts := time.Second
				if !c.every { // a busy machine leaves few windows
					lasts *= 5
				}
				both(s.tap("tap1", 1), lasts)
				s.settle()
			})
			if n := frameSum(o, func(r *queuepath.Row) bool { return r.First() && r.To.Device == "far0" }); n == 0 {
				t.Error("nothing of far0 was seen")
			}
			must.Equal(t, frameSum(o, func(r *queuepath.Row) bool {
				return r.Origin.Device == "far0" && r.To.Device != "far0"
			}), 0, "frames of another device are told as those of far0, of which all end here")
			joined := frameSum(o, func(r *queuepath.Row) bool {
				return r.Origin.Device == "tap1" && r.To.Device == "nic0"
			})
			must.Hold(t, joined != 0 && joined <= sent, "%d frames of tap1 at nic0, %d were sent", joined, sent)
			if o.Lost.Joins == 0 && o.Lost.Rows > 0 {
				t.Errorf("lost %+v: frames of the unknown device have no way, which is to be told", o.Lost)
			}
		})
	}
}

// TestGivenBack: what an ifb polices on its way from a guest is counted once, by the guest's queue.
func TestGivenBack(t *testing.T) {
	const frames = 2000
	s := newScene(t, 0)
	tap := s.tap("tap0", 2)
	s.inHost(func() error {
		for _, command := range []string{
			"ip link add ifb0 type ifb", "ip link set ifb0 up", "tc qdisc add dev tap0 ingress",
			"tc filter add dev tap0 parent ffff: protocol all u32 match u32 0 0 action mirred egress redirect dev ifb0",
		} {
			argv := strings.Fields(command)
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", command, err, out)
			}
		}
		return nil
	})
	o := s.watching(Config{EveryPacket: true}, func() {
		for i := range frames {
			s.send(tap[i%2], frame(i%2, byte(i%2)))
			if i%32 == 31 { // the ifb's queue is short
				s.settle()
			}
		}
		s.settle()
	})
	for q := range 2 {
		origin := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: q}
		must.Equal(t, frameSum(o, func(r *queuepath.Row) bool { return r.Origin == origin && r.To.Device == "nic0" }),
			frames/2, "%v to nic0: frames", origin)
	}
	if n := frameSum(o, func(r *queuepath.Row) bool { return r.First() }); n != frames {
		t.Errorf("%d frames came in, %d were sent", n, frames)
	}
}

// TestRenamed: a device that only renames what another handed to the stack (here a macvlan, as bonds and VLANs do) does
// not cut ways.
func TestRenamed(t *testing.T) {
	const frames = 2000
	s := newScene(t, 0)
	tap := s.tap("tap0", 2)
	l, err := s.on.LinkByName("tap0")
	s.must(err)
	s.must(s.on.LinkSetNoMaster(l))
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "mv0", l.Attrs().Index
	s.must(s.on.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_PASSTHRU}))
	bridge, err := s.on.LinkByName("br0")
	s.must(err)
	s.must(s.on.LinkSetMaster(s.up(s.on, "mv0"), bridge))
	s.forwards("mv0")
	o := s.watching(Config{EveryPacket: true}, func() {
		for i := range frames {
			s.send(tap[i%2], frame(i%2, byte(i%2)))
		}
		s.settle()
	})
	must.Hold(t, o.Lost == (queuepath.Lost{}), "lost %+v, expected nothing", o.Lost)
	for q := range 2 {
		origin := queuepath.Queue{Device: "tap0", Direction: queuepath.Rx, Queue: q}
		must.Equal(t, frameSum(o, func(r *queuepath.Row) bool {
			return r.Origin == origin && r.From == origin && r.To.Device == "nic0"
		}), frames/2, "%v to nic0: frames", origin)
	}
}
