package trace

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
