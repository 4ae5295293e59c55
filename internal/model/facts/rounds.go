package facts

import "cmp"

// What counts as loss, for whoever judges by it.
const (
	MinLostPackets = 10    // fewer lost packets prove nothing
	MinLossShare   = 0.005 // share of the packets at the place where they are lost; less is noise
)

// LossMatters reports whether so many lost packets, of those that passed the same place or were lost there, are more
// than noise.
func LossMatters(lost, passed float64) bool {
	return lost >= MinLostPackets && lost >= MinLossShare*(lost+passed)
}

// EnoughPerRound is the number of packets in a round of NET_RX from which its fixed cost no longer matters: half of
// netdev_budget's default (net/core/hotdata.c). Rounds with fewer can be what holds a path back.
const EnoughPerRound = 150

// CutShort returns the share of a CPU's rounds of NET_RX that ended with packets left, because the budget or the time
// was used up (net/core/dev.c, net_rx_action: time_squeeze). Without the number of rounds it is the share of packets
// that such rounds can have had, at budget packets each; known is false if budget is 0 then.
func (s Softnet) CutShort(budget float64) (share float64, known bool) {
	switch {
	case s.Squeezed == 0:
		return 0, true
	case s.Rounds > 0:
		return min(float64(s.Squeezed)/float64(s.Rounds), 1), true
	case budget <= 0:
		return 0, false
	}
	return min(float64(s.Squeezed)*budget/max(float64(s.Processed), 1), 1), true
}

// mostRounds is the share of rounds that must be cut short before longer ones can help: the others ended because no
// packet was left.
const mostRounds = 0.5

// RoundsTooShort reports whether longer rounds of NET_RX could help a CPU: most rounds are cut short, and packets are
// lost before they get there. One without the other is normal: time_squeeze grows on every busy host, and the next
// round works off what is left. known is false as in CutShort.
func (s Softnet) RoundsTooShort(budget, lost float64) (too, known bool) {
	share, known := s.CutShort(budget)
	return known && share >= mostRounds && LossMatters(lost, float64(s.Processed)), known
}

// PerRound returns how many packets a round had on average; 0 if unknown. Without the number of rounds, those that were
// cut short count as all.
func (s Softnet) PerRound() float64 {
	rounds := s.Rounds
	rounds = cmp.Or(rounds, s.Squeezed)
	if rounds == 0 {
		return 0
	}
	return float64(s.Processed) / float64(rounds)
}

// RingFullCounters are the counters of received packets for which the NIC had no free descriptor. A driver has several
// and they count the same packets, so only the largest counts: rx_missed_errors and rx_fifo_errors of every device
// (Documentation/networking/statistics.rst), igb rx_no_buffer_count, ixgbe rx_no_dma_resources, mlx5 rx_out_of_buffer,
// i40e port.rx_dropped, ice rx_dropped.nic, sfc port_rx_nodesc_drops, be2net rx_drops_no_pbuf, enic rx_no_bufs.
var RingFullCounters = []string{
	"rx_missed_errors", "rx_fifo_errors", "rx_no_buffer_count", "rx_no_dma_resources", "rx_out_of_buffer",
	"port.rx_dropped", "rx_dropped.nic", "port_rx_nodesc_drops", "rx_drops_no_pbuf", "rx_no_bufs",
}
