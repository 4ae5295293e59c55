package queuepath

import (
	"reflect"
	"testing"

	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// TestLanesAddUp: on random hosts the lanes through each queue carry what rows say of it, and all of them what came in.
func TestLanesAddUp(t *testing.T) {
	for seed := range 200 {
		r := random(seed)
		s := healthy(r)
		s.noise = nil
		if seed%2 == 0 { // lanes that mix
			s.nic.XPS, s.carried = nil, false
		}
		o := s.observe()
		lanes := Lanes(o)
		want, got := map[Queue]uint64{}, map[Queue]uint64{}
		var share float64
		for _, r := range o.Rows {
			want[r.To] += r.Packets
		}
		for i, l := range lanes {
			for _, s := range l.Stops {
				got[s.Queue] += l.Packets
			}
			share += l.Share
			if !l.Left || l.Way != Out && l.Way != In || l.Guest == "" || len(l.Stops[0].CPUs) == 0 ||
				l.PPS != float64(l.Packets)/o.Watched {
				t.Fatalf("seed %d: %+v", seed, l)
			}
			if l.Way == Out && l.Stops[0].Thread == 0 {
				t.Fatalf("seed %d: no thread: %+v", seed, l)
			}
			if i > 0 && l.Packets > lanes[i-1].Packets {
				t.Fatalf("seed %d: lane %d is wider than the one before", seed, i)
			}
		}
		must.Need(t, reflect.DeepEqual(want, got), "seed %d: queues carry %v, lanes %v", seed, want, got)
		if share < 0.999 || share > 1.001 {
			t.Fatalf("seed %d: shares add up to %v", seed, share)
		}
		if again := Lanes(shuffled(o, r)); !reflect.DeepEqual(lanes, again) {
			t.Fatalf("seed %d: the order of rows matters", seed)
		}
	}
}

// TestLanes: what is dropped on the way, the host's own, what goes from guest to guest, a circle, and a window that
// began in the midst.
func TestLanes(t *testing.T) {
	tap0, tap1, vx, nic := Queue{"vnet0", Rx, 1}, Queue{"vnet1", Tx, 0}, Queue{"vxlan0", Tx, 0}, Queue{"eth0", Tx, 3}
	o := &Observation{Seconds: 1, Watched: 0.5, Devices: []Device{
		{Name: "vnet0", Kind: "tap", Guest: "vm0"}, {Name: "vnet1", Kind: "tap", Guest: "vm1"},
		{Name: "vxlan0", Kind: "vxlan"}, {Name: "eth0", Kind: "nic"}},
		Vhost: []Vhost{{Guest: "vm1", Device: "vnet1", Queue: 0, Thread: 77}},
		Rows: []Row{
			{Origin: tap0, From: tap0, To: tap0, FromCPU: -1, CPU: 4, Frames: 100, Packets: 1000, Bytes: 64000,
				Thread: 55},
			{Origin: tap0, From: tap0, To: vx, FromCPU: 4, CPU: 4, Frames: 80, Packets: 800, Bytes: 51200},
			{Origin: tap0, From: tap0, To: tap1, FromCPU: 4, CPU: 4, Frames: 15, Packets: 150, Bytes: 9600},
			{Origin: tap0, From: vx, To: nic, FromCPU: 4, CPU: 4, Frames: 70, Packets: 700, Bytes: 44800},
			// round in a circle
			{Origin: tap0, From: nic, To: vx, FromCPU: 4, CPU: 4, Frames: 1, Packets: 10, Bytes: 640},
			{Origin: nic, From: nic, To: nic, FromCPU: -1, CPU: 0, Frames: 20, Packets: 20, Bytes: 1280},
			// its first sight was before the window
			{Origin: tap1, From: tap1, To: nic, FromCPU: 1, CPU: 1, Frames: 5, Packets: 5, Bytes: 320},
		}}
	type short struct {
		way     Way
		guest   string
		packets uint64
		left    bool
		exit    Queue
	}
	want := []short{{Out, "vm0", 690, true, nic}, {Between, "vm0", 150, true, tap1}, {Out, "vm0", 110, false, vx},
		{Out, "vm0", 50, false, tap0},
		{Own, "", 20, true, nic}, {Own, "", 5, true, nic}}
	var got []short
	for _, l := range Lanes(o) {
		got = append(got, short{l.Way, l.Guest, l.Packets, l.Left, l.Exit()})
		if l.Way == Between && (l.Stops[0].Thread != 55 || l.Stops[1].Thread != 77) {
			t.Errorf("threads %+v", l.Stops)
		}
	}
	must.Hold(t, reflect.DeepEqual(got, want), "lanes\n%v, expected\n%v", got, want)
	if cpus := Lanes(o)[0].Stops[2].CPUs; !cpus.Equal(setting.CPUs(4)) {
		t.Errorf("CPUs %v", cpus)
	}
}

// TestLanesFrames: frames that hold many packets keep to their lane, and ones that are cut on the way do not make
// others disappear.
func TestLanesFrames(t *testing.T) {
	in, vx, a, b := Queue{"vnet0", Rx, 0}, Queue{"vxlan0", Tx, 0}, Queue{"eth0", Tx, 0}, Queue{"eth0", Tx, 1}
	o := &Observation{Devices: []Device{{Name: "vnet0", Kind: "tap"}, {Name: "eth0", Kind: "nic"}}, Rows: []Row{
		{Origin: in, From: in, To: in, FromCPU: -1, Frames: 10, Packets: 100, Bytes: 9000},
		{Origin: in, From: in, To: vx, Frames: 10, Packets: 100, Bytes: 14000},
		{Origin: in, From: vx, To: a, Frames: 1, Packets: 50, Bytes: 7000},
		{Origin: in, From: vx, To: b, Frames: 50, Packets: 50, Bytes: 7000},
	}}
	got := map[Queue][3]uint64{}
	for _, l := range Lanes(o) {
		got[l.Exit()] = [3]uint64{l.Frames, l.Packets, l.Bytes}
	}
	if want := map[Queue][3]uint64{a: {1, 50, 7000}, b: {9, 50, 7000}}; !reflect.DeepEqual(got, want) {
		t.Errorf("frames, packets, bytes %v, expected %v", got, want)
	}
}

// TestHops: one matrix for each pair of devices, in the order of the way.
func TestHops(t *testing.T) {
	s := healthy(random(4))
	crowd(s, 2)
	s.guests, s.flows, s.packets, s.noise, s.wayBack = 2, 1, 1000, nil, false
	s.tunnel = &Device{Name: "a-tunnel", Kind: "vxlan", TxQueues: 1, Lockless: true, Node: -1}
	hops := Hops(s.observe())
	want := []Hop{
		{From: Side{"vnet0", Rx}, To: Side{"a-tunnel", Tx}, FromQueues: []int{0, 1}, ToQueues: []int{0},
			Packets: [][]uint64{{1000}, {1000}}, Sum: 2000},
		{From: Side{"vnet1", Rx}, To: Side{"a-tunnel", Tx}, FromQueues: []int{0, 1}, ToQueues: []int{0},
			Packets: [][]uint64{{1000}, {1000}}, Sum: 2000},
		{From: Side{"a-tunnel", Tx}, To: Side{"eth0", Tx}, FromQueues: []int{0}, ToQueues: []int{0, 1, 2, 3},
			Packets: [][]uint64{{1000, 1000, 1000, 1000}}, Sum: 4000},
	}
	must.Hold(t, reflect.DeepEqual(hops, want), "\n%+v, expected\n%+v", hops, want)
}

// TestOfGuest: one guest's path has its lanes only, and the faults that its packets meet, judged by all packets.
func TestOfGuest(t *testing.T) {
	s := healthy(random(5))
	crowd(s, 4)
	s.nic.XPS, s.noise, s.wayBack = nil, nil, false
	s.flap = func(g, q, f int) bool { return g == 1 }
	p := Judge(s.observe()).Of("vm0")
	for _, l := range p.Lanes {
		must.Equal(t, l.Guest, "vm0", "a lane")
	}
	if len(p.Lanes) == 0 || len(p.Faults) != 1 || p.Faults[0].Name() != "collision eth0" || p.Faults[0].Follows != "" {
		t.Errorf("%d lanes\n%s", len(p.Lanes), describe(p.Faults))
	}
}

// TestSegments: what was cut into segments on the way is known by its device only, and shares no queue with itself.
func TestSegments(t *testing.T) {
	s := healthy(random(6))
	crowd(s, 4)
	s.noise, s.nic.XPS, s.guests = nil, nil, 1
	o := s.observe()
	for q := range 4 {
		in, out := Queue{"vnet0", Rx, -1}, Queue{"eth0", Tx, q}
		o.Rows = append(o.Rows, Row{Origin: in, From: in, To: out, FromCPU: -1, CPU: q, Frames: 9000, Packets: 9000})
	}
	if faults := Faults(o); len(faults) > 0 {
		t.Errorf("\n%s", describe(faults))
	}
}
