package queuepath

import (
	"fmt"
	"testing"
)

// TestContainers: veths of one queue that get answers from all queues of a NIC have no fault; nor has a host of veths
// that answer as much as they are sent, through a tunnel or not, while the same lanes on the way out are judged.
func TestContainers(t *testing.T) {
	for _, tunnel := range []bool{false, true} {
		for _, nicKind := range []string{"nic", "veth"} {
			o := &Observation{Seconds: 5, Watched: 0.5, Nodes: make([]int, 8),
				Devices: []Device{{Name: "eth0", Kind: nicKind, TxQueues: 8, RxQueues: 8, Node: -1, Lockless: true}}}
			if tunnel {
				o.Devices = append(o.Devices, Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 8, RxQueues: 8, Node: -1,
					Lockless: true})
			}
			for g := range 8 {
				name := fmt.Sprintf("veth%d", g)
				o.Devices = append(o.Devices, Device{Name: name, Kind: "veth", TxQueues: 1, RxQueues: 1, Node: -1,
					Lockless: true})
				way := func(cpu int, stops ...Queue) {
					for i, to := range stops {
						r := Row{Origin: stops[0], From: stops[max(i-1, 0)], To: to, FromCPU: cpu, CPU: cpu,
							Frames: 1000, Packets: 1000}
						if i == 0 {
							r.FromCPU = -1
						}
						o.Rows = append(o.Rows, r)
					}
				}
				for q := range 8 {
					if tunnel {
						way(q, Queue{"eth0", Rx, q}, Queue{"vxlan0", Rx, -1}, Queue{name, Tx, 0})
					} else {
						way(q, Queue{"eth0", Rx, q}, Queue{name, Tx, 0})
					}
				}
				if tunnel {
					way(g, Queue{name, Rx, 0}, Queue{"vxlan0", Tx, g}, Queue{"eth0", Tx, g})
				} else {
					way(g, Queue{name, Rx, 0}, Queue{"eth0", Tx, g})
				}
			}
			if faults := Faults(o); len(faults) > 0 {
				t.Errorf("tunnel %v, NIC of kind %s:\n%s", tunnel, nicKind, describe(faults))
			}
			for i := range o.Rows {
				if r := &o.Rows[i]; r.To.Device == "eth0" && r.To.Direction == Tx {
					r.To.Queue = 0
				}
			}
			if faults := Faults(o); len(faults) != 1 || faults[0].Name() != "collision eth0 tx 0" {
				t.Errorf("tunnel %v, NIC of kind %s, all on one queue:\n%s", tunnel, nicKind, describe(faults))
			}
		}
	}
}
