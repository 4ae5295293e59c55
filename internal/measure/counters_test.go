package measure

import "testing"

func TestLossIsLocated(t *testing.T) {
	tap := Counter{Where: "host", Interface: "tap0", Kind: "tuntap", Name: "tx_dropped"}
	sent := Counter{Where: "host", Interface: "tap0", Name: "tx_packets"}
	nic := Counter{Where: "agent", Interface: "eth0", Kind: "device", Name: "rx_missed_errors"}
	reset := Counter{Where: "agent", Interface: "eth0", Name: "rx_dropped"}
	fresh := Counter{Where: "host", Interface: "tap1", Name: "rx_dropped"}
	deltas := Deltas(
		Counters{tap: 5, sent: 100, nic: 0, reset: 900},
		Counters{tap: 65, sent: 400, nic: 100, reset: 3, fresh: 77})
	if len(deltas) != 3 || deltas[0].Counter != nic || deltas[1].Counter != tap || deltas[1].Delta != 60 ||
		deltas[2].Counter != sent {
		t.Fatalf("deltas %+v", deltas)
	}
	losses, unexplained := LocateLoss(deltas, 170)
	if len(losses) != 2 || losses[0] != (Loss{nic, AtNIC, 100}) || losses[1] != (Loss{tap, AtTap, 60}) ||
		unexplained != 10 {
		t.Errorf("losses %+v, %d unexplained", losses, unexplained)
	}
	// Other traffic is dropped too: more may be seen than was lost.
	if _, unexplained = LocateLoss(deltas, 50); unexplained != 0 {
		t.Errorf("%d unexplained", unexplained)
	}
}
