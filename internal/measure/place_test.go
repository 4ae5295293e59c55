package measure

import (
	"testing"

	"mpps/internal/must"
)

func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		kind, iface, name string
		want              Place
	}{
		{"device", "eth0", "rx_missed_errors", AtNIC}, {"device", "eth0", "driver.rx_queue_drops", AtNIC},
		{"", "", "softnet.dropped", AtSoftnet}, {"veth", "v0", "qdisc.drops", AtQdisc},
		{"tuntap", "tap0", "qdisc.drops", AtQdisc},
		{"tuntap", "tap0", "tx_dropped", AtTap}, {"tuntap", "tap0", "rx_dropped", Elsewhere},
		{"device", "eth0", "vring.rx_drops", AtVring}, {"device", "eth0", "rx_dropped", AtNIC},
		{"device", "lo", "rx_dropped", Elsewhere},
		{"", "", "udp.rcvbuf_errors", AtSocket}, {"", "", "udp6.mem_errors", AtSocket},
		{"veth", "v1", "sink.ring_full", AtSocket},
		{"bridge", "br0", "rx_dropped", Elsewhere}, {"", "eth0", "rx_dropped", ""},
		{"veth", "v0", "xdp.drop.aborted", Elsewhere},
	} {
		must.Equal(t, (Counter{Interface: c.iface, Kind: c.kind, Name: c.name}).Place(), c.want,
			"%s of %s %s", c.name, c.kind, c.iface)
	}
}

// A packet that several counters saw dropped is one packet.
func TestLossIsCountedOnce(t *testing.T) {
	at := func(where, iface, kind, name string) Counter {
		return Counter{Where: where, Interface: iface, Kind: kind, Name: name}
	}
	type lost map[Counter]uint64
	for name, c := range map[string]struct {
		moved, want lost
		unexplained uint64
	}{
		"a full vring is in rx_dropped of the guest's NIC": {
			moved: lost{at("agent x", "eth0", "device", "vring.rx_drops"): 30,
				at("agent x", "eth0", "device", "rx_dropped"): 40, at("host", "eth0", "device", "rx_dropped"): 5},
			want: lost{at("agent x", "eth0", "device", "vring.rx_drops"): 30,
				at("agent x", "eth0", "device", "rx_dropped"): 10, at("host", "eth0", "device", "rx_dropped"): 5},
			unexplained: 55,
		},
		"a full backlog is in rx_dropped of one end of a veth and in tx_dropped of the other": {
			moved: lost{at("host", "", "", "softnet.dropped"): 60, at("netns:b", "v1", "veth", "rx_dropped"): 60,
				at("netns:a", "v0", "veth", "tx_dropped"): 62, at("agent x", "eth0", "device", "rx_dropped"): 7},
			want: lost{at("host", "", "", "softnet.dropped"): 60, at("netns:a", "v0", "veth", "tx_dropped"): 2,
				at("agent x", "eth0", "device", "rx_dropped"): 7}, unexplained: 31,
		},
		"an agent's backlog is not this machine's": {
			moved:       lost{at("agent x", "", "", "softnet.dropped"): 20, at("host", "eth0", "device", "rx_dropped"): 20},
			want:        lost{at("agent x", "", "", "softnet.dropped"): 20, at("host", "eth0", "device", "rx_dropped"): 20},
			unexplained: 60,
		},
		"a queueing discipline and the ring behind it drop different packets": {
			moved: lost{at("host", "tap0", "tuntap", "qdisc.drops"): 50,
				at("host", "tap0", "tuntap", "tx_dropped"): 50},
			want: lost{at("host", "tap0", "tuntap", "qdisc.drops"): 50, at("host", "tap0", "tuntap", "tx_dropped"): 50},
		},
		"what an interface refuses to the one on top of it is counted below": {
			moved: lost{at("host", "eth0", "device", "qdisc.drops"): 90,
				at("host", "eth0.5", "vlan", "tx_refused_below"): 90},
			want: lost{at("host", "eth0", "device", "qdisc.drops"): 90}, unexplained: 10,
		},
		"errors of UDP that hold the others": {
			moved: lost{at("host", "", "", "udp.in_errors"): 12, at("host", "", "", "udp.rcvbuf_errors"): 9,
				at("host", "", "", "udp.csum_errors"): 3},
			want:        lost{at("host", "", "", "udp.rcvbuf_errors"): 9, at("host", "", "", "udp.csum_errors"): 3},
			unexplained: 88,
		},
	} {
		before, after := Counters{}, Counters{}
		for counter, n := range c.moved {
			before[counter], after[counter] = 1000, 1000+n
		}
		losses, unexplained := LocateLoss(Deltas(before, after), 100)
		must.Hold(t, unexplained == c.unexplained && len(losses) == len(c.want),
			"%s: %+v, %d unexplained, expected %d", name, losses, unexplained, c.unexplained)
		for _, l := range losses {
			must.Hold(t, c.want[l.Counter] == l.Packets && l.Place == l.Counter.Place(),
				"%s: %+v, expected %d", name, l, c.want[l.Counter])
		}
	}
}

// What reached the receiver and found no room is located at its socket.
func TestOverrunIsLocated(t *testing.T) {
	run := &Run{Kind: PPS, From: Endpoint{Where: "host", Interface: "a"},
		To:      Endpoint{Where: "netns:b", Interface: "b"},
		Samples: []Sample{{Sent: 100, Received: 60, Lost: 40, Overrun: 30, Seconds: 1}}}
	run.Judge()
	must.Hold(t, len(run.Losses) == 1 && run.Losses[0].Place == AtSocket && run.Losses[0].Interface == "b" &&
		run.Losses[0].Packets == 30 && run.UnexplainedLoss == 10,
		"losses %+v, %d unexplained", run.Losses, run.UnexplainedLoss)
}
