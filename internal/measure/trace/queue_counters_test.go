package trace

import (
	"testing"

	"mpps/internal/advise/queuepath"
)

// TestByQueue has a line of each driver's form, and others of theirs that look alike and count something else.
func TestByQueue(t *testing.T) {
	rx := func(n int) queuepath.Queue { return queuepath.Queue{Device: "eth0", Direction: queuepath.Rx, Queue: n} }
	tx := func(n int) queuepath.Queue { return queuepath.Queue{Device: "eth0", Direction: queuepath.Tx, Queue: n} }
	for name, c := range map[string]struct {
		statistics map[string]uint64
		want       map[queuepath.Queue]amount
	}{
		"igb": {
			map[string]uint64{"rx_packets": 90, "tx_queue_0_packets": 7, "tx_queue_0_bytes": 700,
				"tx_queue_11_packets": 3, "tx_queue_0_restart": 5, "rx_queue_2_packets": 4, "rx_queue_2_drops": 9},
			map[queuepath.Queue]amount{tx(0): {7, 700}, tx(11): {packets: 3}, rx(2): {packets: 4}},
		},
		"mlx5": {
			map[string]uint64{"rx0_packets": 1, "rx0_bytes": 60, "tx3_packets": 2, "tx3_tso_packets": 8,
				"ch0_events": 9, "rx_xdp_drop": 1},
			map[queuepath.Queue]amount{rx(0): {1, 60}, tx(3): {packets: 2}},
		},
		"i40e": {map[string]uint64{"tx-1.packets": 5, "rx-0.rx_packets": 6, "port.tx_bytes": 7},
			map[queuepath.Queue]amount{tx(1): {packets: 5}, rx(0): {packets: 6}}},
		"gve": {map[string]uint64{"rx_packets[4]": 5, "tx_bytes[4]": 6, "rx_packets": 7},
			map[queuepath.Queue]amount{rx(4): {packets: 5}, tx(4): {bytes: 6}}},
		"bnxt": {map[string]uint64{"[2]: rx_ucast_packets": 5, "[2]: rx_mcast_packets": 2, "[2]: rx_discards": 9},
			map[queuepath.Queue]amount{rx(2): {packets: 7}}},
		"ena": {map[string]uint64{"queue_0_tx_cnt": 5, "queue_0_tx_bytes": 50, "queue_0_xdp_tx_cnt": 3,
			"queue_0_tx_queue_stop": 1}, map[queuepath.Queue]amount{tx(0): {5, 50}}},
		"veth": {map[string]uint64{"peer_ifindex": 3, "rx_queue_1_xdp_packets": 5, "rx_queue_1_xdp_drops": 4},
			map[queuepath.Queue]amount{rx(1): {packets: 5}}},
		"nonsense": {map[string]uint64{"rx99999999999_packets": 5, "rx_queue_65535_packets": 6},
			map[queuepath.Queue]amount{}},
	} {
		t.Run(name, func(t *testing.T) {
			found := byQueue("eth0", c.statistics)
			if len(found) != len(c.want) {
				t.Errorf("found %v, expected %v", found, c.want)
			}
			for q, want := range c.want {
				if found[q] != want {
					t.Errorf("%v: found %v, expected %v", q, found[q], want)
				}
			}
		})
	}
}
