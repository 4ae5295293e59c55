package trace

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/queuepath"
)

// observeCounters observes an interval through the devices' own counters, if packets themselves cannot be watched: how
// much each queue carried, if the driver counts per queue, and nothing more. why is the reason.
func observeCounters(ctx context.Context, c Config, v *inventory, why error) (*queuepath.Observation, error) {
	began := time.Now()
	before, err := v.counters()
	if err != nil {
		return nil, err
	}
	for left := c.For; left > 0 && ctx.Err() == nil; left = c.For - time.Since(began) {
		sleep(ctx, min(left, 200*time.Millisecond))
		if c.Progress != nil {
			c.Progress(min(time.Since(began), c.For))
		}
	}
	passed := time.Since(began).Seconds()
	after, err := v.counters()
	if err != nil {
		return nil, err
	}
	o := &queuepath.Observation{
		Seconds: passed, Watched: passed, EveryPacket: true, Nodes: cpuNodes(v.host), Vhost: vhost(v.host, v.ns),
		Unseen: []queuepath.Unseen{{
			Blind: queuepath.BlindWays, Why: why.Error(),
			What: "packets' ways from queue to queue, their CPUs and flows, and waits for locks: only what each " +
				"queue carried is told, by its device's counters",
		}},
	}
	var together []string
	for _, q := range slices.SortedFunc(maps.Keys(after), compareQueues) {
		now, was := after[q], before[q]
		if now.packets <= was.packets { // nothing, or the device was reset
			continue
		}
		n := now.packets - was.packets
		o.Rows = append(o.Rows, queuepath.Row{
			Origin: q, From: q, To: q, FromCPU: -1, CPU: -1, Frames: n, Packets: n,
			Bytes: now.bytes - min(was.bytes, now.bytes),
		})
		if q.Queue < 0 {
			together = append(together, q.Device+" "+string(q.Direction))
		}
	}
	if len(together) > 0 {
		o.Unseen = append(o.Unseen, queuepath.Unseen{
			What: "the queues of " + strings.Join(together, ", "), Why: "their drivers count the packets of all " +
				"queues together",
		})
	}
	for _, index := range slices.Sorted(maps.Keys(v.devices)) {
		o.Devices = append(o.Devices, v.devices[index])
	}
	o.Requeues, err = v.requeued()
	return o, err
}

// counters reads the counters of all devices' queues.
func (v *inventory) counters() (map[queuepath.Queue]amount, error) {
	all := map[queuepath.Queue]amount{}
	err := v.ns.do(func() error {
		for _, d := range slices.SortedFunc(maps.Values(v.devices),
			func(a, b queuepath.Device) int { return cmp.Compare(a.Index, b.Index) }) {
			queues, err := readCounters(&d)
			if err != nil {
				return fmt.Errorf("counters of %s: %w", d.Name, err)
			}
			maps.Copy(all, queues)
		}
		return nil
	})
	return all, err
}

// Layout of a message about a qdisc (include/uapi/linux/rtnetlink.h, struct tcmsg; gen_stats.h, struct
// gnet_stats_queue).
const (
	sizeofTcmsg    = 20
	tcmsgIndex     = 4
	tcmsgParent    = 12
	tcaStats2      = 7
	tcaStatsQueue  = 3
	requeuesOffset = 12
	parentRoot     = 0xffffffff
)

// requeues returns how often the root qdisc of each device requeued a packet since it was set up, by index. A qdisc
// with others below it includes theirs (net/sched/sch_mq.c, mq_dump).
func requeues() (map[int]uint32, error) {
	messages, err := dump(unix.RTM_GETQDISC, make([]byte, sizeofTcmsg))
	if err != nil {
		return nil, fmt.Errorf("queue disciplines: %w", err)
	}
	counts := map[int]uint32{}
	for _, m := range messages {
		if len(m.Data) < sizeofTcmsg || binary.NativeEndian.Uint32(m.Data[tcmsgParent:]) != parentRoot {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[sizeofTcmsg:])
		if err != nil {
			return nil, fmt.Errorf("queue disciplines: %w", err)
		}
		index := int(binary.NativeEndian.Uint32(m.Data[tcmsgIndex:]))
		for ad.Next() {
			if ad.Type() != tcaStats2 {
				continue
			}
			ad.Nested(func(stats *netlink.AttributeDecoder) error {
				for stats.Next() {
					if b := stats.Bytes(); stats.Type() == tcaStatsQueue && len(b) >= requeuesOffset+4 {
						counts[index] = binary.NativeEndian.Uint32(b[requeuesOffset:])
					}
				}
				return nil
			})
		}
		if err := ad.Err(); err != nil {
			return nil, fmt.Errorf("queue disciplines: %w", err)
		}
	}
	return counts, nil
}

// The tracepoint contention_begin reports waits for locks when a CPU queues. On bare metal the first waiting CPU does
// not queue: it spins on the pending bit and gets the lock without reaching the tracepoint (kernel/locking/qspinlock.c,
// queued_spin_lock_slowpath). So of two CPUs that take turns at a lock nearly nothing is seen, and of more CPUs one is
// missing. In a guest with paravirtual spinlocks every waiting CPU queues; under other hypervisors none does (arch/x86,
// virt_spin_lock).

// paravirtual are the hypervisors under which Linux has paravirtual spinlocks.
var paravirtual = []string{"kvm", "xen", "hyperv"}

// unseenWaits returns the waits that the tracepoint does not report on this machine.
func (w *watcher) unseenWaits() queuepath.Unseen {
	virtual := ""
	if w.host != nil {
		virtual = w.host.Virtual
	} else if text, err := os.ReadFile("/proc/cpuinfo"); err == nil && guestFlag(string(text)) {
		virtual = "kvm"
	}
	return unseenWaits(virtual, runtime.GOARCH)
}

func unseenWaits(virtual, arch string) queuepath.Unseen {
	first := queuepath.Unseen{Blind: queuepath.BlindFirst, What: "the first of the CPUs that wait for a transmit " +
		"queue's lock"}
	switch {
	case virtual == "" || arch != "amd64":
		first.Why = "the kernel tells of those that queue behind it; of two CPUs that take turns that is nearly nothing"
	case !slices.Contains(paravirtual, virtual):
		first.Why = "as a guest of " + virtual +
			" CPUs do not queue for locks, and the kernel may tell of no wait at all"
	default:
		return queuepath.Unseen{}
	}
	return first
}

// guestFlag reports whether the processor identifies itself as virtual.
func guestFlag(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return slices.Contains(strings.Fields(flags), "hypervisor")
		}
	}
	return false
}
