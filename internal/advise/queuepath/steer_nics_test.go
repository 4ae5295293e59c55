package queuepath

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// routed is a host whose guests send by a tunnel that no configuration binds to a NIC, and what was seen of it: each
// guest sends 100,000 packets by eth0, and as many as stray says by another device.
func routed(other Device, stray uint64) (*facts.Host, *Observation) {
	h := steerHost(2, 2, 8)
	through(h, 1, true)
	h.Tunnels[0].Lower = ""
	float(h, 0)
	o := seenOn(h, func(int, int) uint64 { return 50_000 }, func(_, queue int) int { return queue })
	o.Devices = append(o.Devices, other)
	for i := range h.Taps {
		from := Queue{h.Taps[i].Name, Rx, 0}
		o.Rows = append(o.Rows, Row{Origin: from, From: from, To: Queue{other.Name, Tx, 0}, Frames: stray,
			Packets: stray})
	}
	return h, o
}

// TestSteerStray: a broadcast that came out of a container's veth or of a NIC that guests do not use decides nothing.
func TestSteerStray(t *testing.T) {
	veth := Device{Name: "veth9", Kind: "veth", TxQueues: 1, RxQueues: 1, Node: -1}
	managed := Device{Name: "eno1", Kind: "nic", TxQueues: 4, RxQueues: 4, Node: -1}
	for _, c := range []struct {
		other  Device
		stray  uint64
		nic    string
		nics   []string
		queues int
	}{
		{veth, 1, "", []string{"eth0"}, 8},
		{veth, 1, "eth0", []string{"eth0"}, 8},
		{veth, 50_000, "", []string{"eth0"}, 8}, // a container that guests talk to
		{managed, 1, "", []string{"eth0"}, 8},
		{managed, 1500, "", []string{"eth0"}, 8},
		{managed, 50_000, "", []string{"eno1", "eth0"}, 4},
		{managed, 10_000, "eth0", []string{"eth0"}, 8}, // nearly all leave by the one that was named
		{managed, 50_000, "eth0", []string{"eno1", "eth0"}, 4},
	} {
		h, o := routed(c.other, c.stray)
		s := mustSteer(t, h, o, SteerOptions{NIC: c.nic})
		must.Hold(t, len(s.Groups) == 1 && slices.Equal(s.Groups[0].NICs, c.nics) && s.Groups[0].Queues == c.queues &&
			s.Groups[0].Means == ByProgram, "%d packets by %s, --nic %q: %+v", c.stray, c.other.Name, c.nic, s.Groups)
		for _, change := range s.Changes {
			if strings.Contains(change.Address.Path, c.other.Name) && !slices.Contains(c.nics, c.other.Name) {
				t.Errorf("%d packets by %s: %s is changed", c.stray, c.other.Name, change.Address)
			}
		}
	}
	// A tap with lanes at both keeps one number for both.
	h, o := routed(managed, 10_000)
	h.Readings[setting.Of(setting.QueueLanes, "eno1")] = setting.Value("52:54:00:00:00:00=0+2 52:54:00:00:00:01=2+2")
	if s := mustSteer(t, h, o, SteerOptions{NIC: "eth0", Standing: []string{"eno1"}}); !slices.Equal(s.Groups[0].NICs,
		[]string{"eno1", "eth0"}) {
		t.Errorf("with lanes at eno1: %+v", s.Groups)
	}
}

// TestSteerQuiet: a guest that sent next to nothing gets a lane where that left, if others send there.
func TestSteerQuiet(t *testing.T) {
	h, o := routed(Device{Name: "eno1", Kind: "nic", TxQueues: 4, RxQueues: 4, Node: -1}, 1)
	for i := range o.Rows {
		if r := &o.Rows[i]; r.Origin.Device == "vnet1" && r.To.Device != "eno1" {
			r.Frames, r.Packets = 5, 5
		}
	}
	if s := mustSteer(t, h, o, SteerOptions{}); len(s.Groups) != 1 || len(s.Groups[0].Lanes) != 2 {
		t.Errorf("%+v", s.Groups)
	}
}

// TestSteerOthers: a NIC that cannot be steered is told, and does not hold up the others.
func TestSteerOthers(t *testing.T) {
	for what, spoil := range map[string]func(*facts.NIC){
		"eth2: left as it is: eth2 has 1 transmit queue": func(n *facts.NIC) { n.TxQueues = 1 },
		"2 traffic classes": func(n *facts.NIC) { n.Classes = 2 },
	} {
		h := steerHost(2, 2, 8)
		float(h, 0)
		second := h.NICs[0]
		second.Name, second.Master = "eth2", "br2"
		spoil(&second)
		h.NICs = append(h.NICs, second)
		h.Bridges = append(h.Bridges, facts.Bridge{Name: "br2", Up: true, Ports: []string{"eth2", "qemu7"}})
		h.Taps = append(h.Taps, facts.Tap{Name: "qemu7", Type: "tap", Master: "br2", RxQueues: 2, Up: true})
		s := mustSteer(t, h, nil, SteerOptions{})
		must.Hold(t, len(s.Groups) == 1 && s.Groups[0].NICs[0] == "eth0" && s.Groups[0].Means == ByProgram &&
			len(s.Changes) != 0, "%s: %+v", what, s.Groups)
		if !slices.ContainsFunc(s.Advice, func(a Advice) bool {
			return strings.Contains(a.Text, what) && a.Command != ""
		}) {
			t.Errorf("expected %q, found %+v", what, s.Advice)
		}
		refusedWith(t, h, SteerOptions{NIC: "eth2"}, "eth2")
		h.NICs[0].TxQueues = 1
		refusedWith(t, h, SteerOptions{}, "eth0 has 1 transmit queue", "eth2")
	}
}

// TestSteerManyQueues: the CPU names one of all queues of a NIC; a packet carries the number of one of the first 256.
func TestSteerManyQueues(t *testing.T) {
	h := steerHost(48, 8, 512)
	s := mustSteer(t, h, nil, SteerOptions{By: ByXPS})
	used := map[int]bool{}
	for cpu := range 48 * 8 {
		used[queueOfCPU(t, s.Changes, "eth0", cpu)] = true
	}
	if len(used) != 48*8 || s.Groups[0].Queues != 512 || !strings.Contains(s.Changes[0].Because, "no two on one") {
		t.Errorf("XPS: 384 lanes on %d queues of %d: %s", len(used), s.Groups[0].Queues, s.Changes[0].Because)
	}
	s = mustSteer(t, h, nil, SteerOptions{By: ByProgram})
	for _, l := range s.Groups[0].Lanes {
		must.Hold(t, l.Base+l.Count <= setting.MaxLanes, "program: %v", l)
	}
	if because := s.Changes[len(s.Changes)-1].Because; !strings.Contains(because, "256 queues of 256") {
		t.Errorf("program: %s", because)
	}
}

// TestSteerQuick: rows are counted once, not once for each tap: to find the NICs of 400 taps takes about as long as to
// draw the lanes.
func TestSteerQuick(t *testing.T) {
	h := steerHost(400, 8, 16)
	h.Bridges[0].Ports = nil // nothing tells where they leave
	h.NICs[0].Master = ""
	o := seenOn(h, func(int, int) uint64 { return 1000 }, func(tap, queue int) int { return (tap + queue) % 16 })
	for i := range 200 {
		o.Devices = append([]Device{{Name: fmt.Sprintf("vlan%d", i), Kind: "vlan", TxQueues: 1, Node: -1}},
			o.Devices...)
	}
	for range 2 { // from further CPUs, as floating threads send
		for i, n := 0, len(o.Rows); i < n; i++ {
			r := o.Rows[i]
			r.CPU += 5000
			o.Rows = append(o.Rows, r)
		}
	}
	quickest := func(f func()) time.Duration {
		best := time.Hour
		for range 3 {
			began := time.Now()
			f()
			best = min(best, time.Since(began))
		}
		return best
	}
	lanes := quickest(func() { Lanes(o) })
	found := quickest(func() {
		if s := newSteerer(h, o, SteerOptions{}); len(s.behind["vnet399"]) != 1 {
			t.Fatalf("%v", s.behind["vnet399"])
		}
	})
	t.Logf("%d rows: %v, lanes %v", len(o.Rows), found, lanes)
	must.Hold(t, found <= 10*lanes, "%v to find the NICs of 400 taps, %v to draw their lanes", found, lanes)
}
