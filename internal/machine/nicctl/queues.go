package nicctl

import (
	"regexp"
	"strconv"
)

// Queue is one receive or transmit queue of a driver.
type Queue struct {
	Direction string // rx or tx
	Number    int
}

// QueueCounts are a driver's counters of one queue.
type QueueCounts struct {
	Packets, Bytes uint64
	// Drops are packets that found no room or no buffer; Stopped is how often a transmit queue was full.
	Drops, Stopped uint64
}

// trafficCounters matches drivers' counters of packets and bytes of each queue (ethtool -S). The groups are direction
// (way), queue and unit.
var trafficCounters = []*regexp.Regexp{
	// igb, igc, ixgbe, ixgbevf, ice, fm10k, hv_netvsc, virtio_net up to 6.9
	regexp.MustCompile(`^(?P<way>rx|tx)_queue_(?P<queue>\d+)_(?P<unit>packets|bytes)$`),
	// mlx4, mlx5, virtio_net from 6.10 on
	regexp.MustCompile(`^(?P<way>rx|tx)(?P<queue>\d+)_(?P<unit>packets|bytes)$`),
	// i40e, iavf, with the direction twice in older ones
	regexp.MustCompile(`^(?P<way>rx|tx)-(?P<queue>\d+)\.(?:[rt]x_)?(?P<unit>packets|bytes)$`),
	// gve
	regexp.MustCompile(`^(?P<way>rx|tx)_(?P<unit>packets|bytes)\[(?P<queue>\d+)\]$`),
	// bnx2x, bnxt: unicast, multicast and broadcast counted apart
	regexp.MustCompile(`^\[(?P<queue>\d+)\]: (?P<way>rx|tx)_[ubm]cast_(?P<unit>packets|bytes)$`),
	// ena
	regexp.MustCompile(`^queue_(?P<queue>\d+)_(?P<way>rx|tx)_(?P<unit>cnt|bytes)$`),
	// veth: received by NAPI, with XDP or GRO (drivers/net/veth.c, veth_rq_stats_desc)
	regexp.MustCompile(`^(?P<way>rx)_queue_(?P<queue>\d+)_xdp_(?P<unit>packets|bytes)$`),
}

// lossCounters matches drivers' counters of packets that a queue had no room for.
var lossCounters = []*regexp.Regexp{
	// igb (no descriptor), virtio_net up to 6.9, veth (sent by the peer, no room in the ring)
	regexp.MustCompile(`^(?P<way>rx)_queue_(?P<queue>\d+)_(?P<unit>drops)$`),
	// virtio_net from 6.10 on
	regexp.MustCompile(`^(?P<way>rx)(?P<queue>\d+)_(?P<unit>drops)$`),
	// mlx5: a completion found no buffer; a transmit queue was full
	regexp.MustCompile(`^(?P<way>tx)(?P<queue>\d+)_(?P<unit>stopped|dropped)$`),
	regexp.MustCompile(`^(?P<way>rx)(?P<queue>\d+)_(?P<unit>buff_alloc_err)$`),
	// igb, igc: restarted after it was full
	regexp.MustCompile(`^(?P<way>tx)_queue_(?P<queue>\d+)_(?P<unit>restart)$`),
	// bnx2x, bnxt
	regexp.MustCompile(`^\[(?P<queue>\d+)\]: (?P<way>rx|tx)_(?P<unit>discards)$`),
	// ena
	regexp.MustCompile(`^queue_(?P<queue>\d+)_(?P<way>tx)_(?P<unit>queue_stop)$`),
	// gve
	regexp.MustCompile(`^(?P<way>tx)_(?P<unit>stop)\[(?P<queue>\d+)\]$`),
}

// mostQueues is more than any driver has.
const mostQueues = 65535

// ByQueue returns the counters of each queue, given all counters of a driver (Statistics).
func ByQueue(statistics map[string]uint64) map[Queue]QueueCounts {
	queues := map[Queue]QueueCounts{}
	for name, n := range statistics {
		q, unit, ok := OfQueue(name)
		if !ok {
			continue
		}
		c := queues[q]
		switch unit {
		case "bytes":
			c.Bytes += n
		case "packets", "cnt":
			c.Packets += n
		case "stopped", "restart", "queue_stop", "stop":
			c.Stopped += n
		default:
			c.Drops += n
		}
		queues[q] = c
	}
	return queues
}

// OfQueue returns the queue and the unit of a driver's counter; ok is false if it does not count one queue.
func OfQueue(name string) (q Queue, unit string, ok bool) {
	for _, forms := range [][]*regexp.Regexp{trafficCounters, lossCounters} {
		for _, form := range forms {
			m := form.FindStringSubmatch(name)
			if m == nil {
				continue
			}
			number, err := strconv.Atoi(m[form.SubexpIndex("queue")])
			if err != nil || number >= mostQueues {
				return Queue{}, "", false
			}
			return Queue{m[form.SubexpIndex("way")], number}, m[form.SubexpIndex("unit")], true
		}
	}
	return Queue{}, "", false
}
