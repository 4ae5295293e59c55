package nicctl

import (
	"testing"

	"mpps/internal/must"
)

// TestByQueue has drivers' counters of queues: packets, bytes and losses.
func TestByQueue(t *testing.T) {
	rx := func(n int) Queue { return Queue{"rx", n} }
	tx := func(n int) Queue { return Queue{"tx", n} }
	for name, c := range map[string]struct {
		statistics map[string]uint64
		want       map[Queue]QueueCounts
	}{
		"igb": {
			map[string]uint64{"tx_queue_0_packets": 7, "tx_queue_0_bytes": 700, "tx_queue_0_restart": 5,
				"rx_queue_2_packets": 4, "rx_queue_2_drops": 9, "rx_packets": 90},
			map[Queue]QueueCounts{tx(0): {Packets: 7, Bytes: 700, Stopped: 5}, rx(2): {Packets: 4, Drops: 9}},
		},
		"mlx5": {map[string]uint64{"rx0_packets": 1, "rx0_buff_alloc_err": 3, "tx3_stopped": 2, "tx3_dropped": 8,
			"ch0_events": 9}, map[Queue]QueueCounts{rx(0): {Packets: 1, Drops: 3}, tx(3): {Stopped: 2, Drops: 8}}},
		"virtio": {map[string]uint64{"rx0_drops": 5, "rx0_xdp_drops": 4}, map[Queue]QueueCounts{rx(0): {Drops: 5}}},
		"veth": {map[string]uint64{"rx_queue_1_xdp_packets": 5, "rx_queue_1_drops": 4, "rx_queue_1_xdp_drops": 2},
			map[Queue]QueueCounts{rx(1): {Packets: 5, Drops: 4}}},
		"bnxt": {map[string]uint64{"[2]: rx_ucast_packets": 5, "[2]: rx_mcast_packets": 2, "[2]: rx_discards": 9},
			map[Queue]QueueCounts{rx(2): {Packets: 7, Drops: 9}}},
		"ena": {map[string]uint64{"queue_0_tx_cnt": 5, "queue_0_tx_queue_stop": 1},
			map[Queue]QueueCounts{tx(0): {Packets: 5, Stopped: 1}}},
		"gve": {map[string]uint64{"tx_stop[4]": 6, "rx_packets[4]": 5}, map[Queue]QueueCounts{tx(4): {Stopped: 6},
			rx(4): {Packets: 5}}},
		"none": {map[string]uint64{"rx99999999999_packets": 5, "rx_queue_65535_packets": 6, "peer_ifindex": 3},
			map[Queue]QueueCounts{}},
	} {
		must.Same(t, ByQueue(c.statistics), c.want, "%s", name)
	}
}
