package queuepath

import (
	"strings"
	"testing"

	"mpps/internal/model/setting"
)

// crowdedNIC is an observation of taps of one queue and one flow each that take the queues of a NIC without XPS: so
// many on each queue, with so many packets. through is a tunnel on the way, nil for none.
func crowdedNIC(lanes []int, packets func(queue int) uint64, through *Device) *Observation {
	o := &Observation{Seconds: 5, Watched: 0.5, Nodes: make([]int, 4)}
	o.Devices = append(o.Devices, Device{Name: "eth0", Kind: "nic", TxQueues: len(lanes), Node: -1, Qdisc: "mq"})
	if through != nil {
		o.Devices = append(o.Devices, *through)
	}
	n := 0
	for q, many := range lanes {
		for range many {
			in, cpu := Queue{tapName(n), Rx, 0}, n%4
			n++
			o.Devices = append(o.Devices, Device{Name: in.Device, Kind: "tap", Guest: in.Device, TxQueues: 1, Node: -1,
				Lockless: true})
			hop := func(from, to Queue, fromCPU int) {
				o.Rows = append(o.Rows, Row{Origin: in, From: from, To: to, FromCPU: fromCPU, CPU: cpu,
					Frames: packets(q), Packets: packets(q)})
			}
			hop(in, in, -1)
			at := in
			if through != nil {
				at = Queue{through.Name, Tx, 0}
				hop(in, at, cpu)
			}
			hop(at, Queue{"eth0", Tx, q}, cpu)
		}
	}
	return o
}

// TestShared: where there are more lanes than queues, and none idles, sharing them is a fault only if it is uneven.
func TestShared(t *testing.T) {
	same := func(int) uint64 { return 5000 }
	tunnel := &Device{Name: "vxlan0", Kind: "vxlan", TxQueues: 1, Lockless: true, Node: -1, Qdisc: "noqueue",
		Lower: []string{"eth0"}}
	for name, c := range map[string]struct {
		lanes    []int
		packets  func(queue int) uint64
		through  *Device
		steered  bool
		want     []string // names of faults
		evidence string
	}{
		"nine lanes on one queue": {lanes: []int{9, 1, 1, 1, 1, 1, 1, 1},
			want: []string{"collision eth0 tx 0"}, evidence: "9 on one where 2 would do"},
		"by chance": {lanes: []int{1, 6, 2, 7}, want: []string{"collision eth0"},
			evidence: "7 on one where 4 would do"},
		"by chance, behind a tunnel": {lanes: []int{1, 6, 2, 7}, through: tunnel,
			want: []string{"funnel vxlan0", "collision eth0"}},
		"evenly":                  {lanes: []int{4, 4, 4, 4}},
		"evenly, behind a tunnel": {lanes: []int{4, 4, 4, 4}, through: tunnel},
		"one more than evenly":    {lanes: []int{3, 5, 4, 4}},
		"many that send little beside a few": {lanes: []int{1, 1, 1, 13},
			packets: func(q int) uint64 { return []uint64{13000, 13000, 13000, 1000}[q] }},
		"as told, by weight": {lanes: []int{1, 1, 1, 6}, steered: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.packets == nil {
				c.packets = same
			}
			o := crowdedNIC(c.lanes, c.packets, c.through)
			if c.steered {
				for q, n := 0, 0; q < len(c.lanes); q++ {
					for range c.lanes[q] {
						o.Devices[0].Lanes = append(o.Devices[0].Lanes,
							setting.Lane{Tap: tapName(n), Base: q, Count: 1})
						n++
					}
				}
			}
			faults := Faults(o)
			var names []string
			for _, f := range faults {
				names = append(names, f.Name())
			}
			if strings.Join(names, ", ") != strings.Join(c.want, ", ") || c.evidence != "" &&
				!strings.Contains(faults[0].Evidence, c.evidence) {
				t.Errorf("expected %q, %q, found\n%s", c.want, c.evidence, describe(faults))
			}
			if len(faults) == 2 && faults[1].Follows != faults[0].Name() {
				t.Errorf("%s follows %q", faults[1].Name(), faults[1].Follows)
			}
		})
	}
}
