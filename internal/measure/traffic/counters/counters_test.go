package counters

import (
	"maps"
	"testing"

	"mpps/internal/must"
)

func TestDriversOwnCounters(t *testing.T) {
	for _, c := range []struct {
		driver string
		has    map[string]uint64
		want   Counters
	}{
		{"igb", map[string]uint64{"rx_queue_0_drops": 3, "rx_queue_11_drops": 4, "rx_queue_0_packets": 9,
			"rx_no_buffer_count": 7, "rx_missed_errors": 5},
			Counters{"driver.rx_queue_drops": 7}},
		{"ixgbe", map[string]uint64{"rx_no_dma_resources": 8, "rx_queue_0_packets": 9},
			Counters{"driver.rx_no_dma_resources": 8}},
		// Before 6.10, and from it on with totals beside the queues. An XDP program's drops are among the drops.
		{"virtio_net", map[string]uint64{"rx_queue_0_drops": 5, "rx_queue_1_drops": 6, "rx_queue_1_xdp_drops": 2},
			Counters{"vring.rx_drops": 9}},
		{"virtio_net", map[string]uint64{"rx_drops": 11, "rx0_drops": 5, "rx1_drops": 6, "rx1_xdp_drops": 2,
			"tx0_xdp_tx_drops": 50}, Counters{"vring.rx_drops": 9}},
		{"virtio_net", nil, nil},
		{"other", map[string]uint64{"rx_queue_0_drops": 3}, nil},
	} {
		if got := pickDrops(c.driver, c.has); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", c.driver, got, c.want)
		}
	}
}

func TestParseUDP(t *testing.T) {
	// Kernels before 3.x have fewer columns.
	for text, want := range map[string]Counters{
		"Tcp: A B\nTcp: 1 2\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors " +
			"IgnoredMulti MemErrors\nUdp: 1 2 30 4 20 6 7 8 3\nUdpLite: InErrors\nUdpLite: 99\n": {
			"no_ports": 2, "in_errors": 30, "rcvbuf_errors": 20, "sndbuf_errors": 6, "csum_errors": 7, "mem_errors": 3},
		"Udp: InDatagrams NoPorts InErrors\nUdp: 1 2 3\n":                        {"no_ports": 2, "in_errors": 3},
		"Ip6InReceives\t5\nUdp6RcvbufErrors\t4\nUdpLite6RcvbufErrors\t9\nUdp6\n": {"rcvbuf_errors": 4},
		"": {},
	} {
		if got := ParseUDP(text); !maps.Equal(got, want) {
			t.Errorf("%q: %v, expected %v", text, got, want)
		}
	}
}

func TestParseSoftnet(t *testing.T) {
	got, err := ParseSoftnet("0000000a 00000001 00000002 00000000\n00000010 00000002 00000000\n")
	if want := (Counters{"softnet.processed": 26, "softnet.dropped": 3, "softnet.squeezed": 2}); err != nil ||
		!maps.Equal(got, want) {
		t.Errorf("%v, %v, expected %v", got, err, want)
	}
	must.Fail(ParseSoftnet("nonsense 1 2\n"))(t, "no error for what is no number")
}
