package queuepath

import (
	"testing"

	"mpps/internal/must"
)

// TestOfOneGuest: of two guests' packets, and of what comes back from the NIC, one guest's are left, with what else
// there is to know of the host.
func TestOfOneGuest(t *testing.T) {
	rx := func(device string) Queue { return Queue{Device: device, Direction: Rx} }
	tx := func(device string) Queue { return Queue{Device: device, Direction: Tx} }
	first := func(q Queue) Row { return Row{Origin: q, From: q, To: q, FromCPU: -1, Frames: 100, Packets: 100} }
	on := func(from, to Queue) Row { return Row{Origin: from, From: from, To: to, Frames: 100, Packets: 100} }
	o := &Observation{
		Seconds: 1, Watched: 1, Devices: []Device{
			{Name: "tap1", Kind: "tap", Guest: "vm1", TxQueues: 1, RxQueues: 1},
			{Name: "tap2", Kind: "tap", Guest: "vm2", TxQueues: 1, RxQueues: 1},
			{Name: "eth0", Kind: "nic", TxQueues: 4, RxQueues: 4},
		}, Rows: []Row{
			first(rx("tap1")), on(rx("tap1"), tx("eth0")), first(rx("tap2")), on(rx("tap2"), tx("eth0")),
			first(rx("eth0")), on(rx("eth0"), tx("tap1")), on(rx("eth0"), tx("tap2")),
		}, Vhost: []Vhost{{Guest: "vm1", Device: "tap1"}, {Guest: "vm2", Device: "tap2"}},
	}
	whole := Judge(o)
	p := whole.Of("vm1")
	must.Hold(t, len(p.Rows) == 3 && len(p.Vhost) == 1 && p.Vhost[0].Guest == "vm1" && len(p.Devices) == 3 &&
		len(p.Faults) == len(whole.Faults), "rows %v, workers %v, %d devices", p.Rows, p.Vhost, len(p.Devices))
	must.Hold(t, len(p.Lanes) == 2 && len(whole.Lanes) > 2,
		"lanes %v of %v, expected one out and one in", p.Lanes, whole.Lanes)
	for _, l := range p.Lanes {
		for _, s := range l.Stops {
			must.Hold(t, s.Device != "tap2", "lane %v belongs to the other guest", l)
		}
	}
	must.Equal(t, len(o.Rows), 7, "the observation lost rows: left")
}
