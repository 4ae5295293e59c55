package queuepath

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"mpps/internal/model/facts"
	"mpps/internal/must"
)

// seenOn is what was watched of a host: packets by tap and queue, and by which queue of eth0 they left.
func seenOn(h *facts.Host, sent func(tap, queue int) uint64, exit func(tap, queue int) int) *Observation {
	o := &Observation{Seconds: 1, Watched: 1,
		Devices: []Device{{Name: "eth0", Kind: "nic", TxQueues: h.NICs[0].TxQueues, RxQueues: h.NICs[0].TxQueues,
			Node: -1}}}
	cpu := 0
	for i, t := range h.Taps {
		o.Devices = append(o.Devices, Device{Name: t.Name, Kind: "tap", Guest: t.Guest, TxQueues: t.TxQueues,
			RxQueues: t.RxQueues, Node: -1})
		for q := range t.RxQueues {
			from, to := Queue{t.Name, Rx, q}, Queue{"eth0", Tx, exit(i, q)}
			if n := sent(i, q); n > 0 {
				o.Rows = append(o.Rows, Row{Origin: from, From: from, To: from, FromCPU: -1, CPU: cpu, Frames: n,
					Packets: n}, Row{Origin: from, From: from, To: to, FromCPU: cpu, CPU: cpu, Frames: n, Packets: n})
			}
			cpu++
		}
	}
	return o
}

// TestSteerBusyAndIdle: one guest with as many busy queues as the NIC has, and eight that send next to nothing by one
// queue each.
func TestSteerBusyAndIdle(t *testing.T) {
	for _, by := range []Means{"", ByProgram, ByXPS} {
		h := steerHost(1, 8, 8)
		for i := range 8 {
			more := steerHost(i+2, 1, 8)
			h.Guests, h.Taps = append(h.Guests, more.Guests[i+1]), append(h.Taps, more.Taps[i+1])
			h.Guests[i+1].Threads[0].Affinity[0] = 8 + i
			h.Bridges[0].Ports = append(h.Bridges[0].Ports, more.Taps[i+1].Name)
		}
		for c := range 20 {
			h.Topology.Online = append(h.Topology.Online[:c], c)
		}
		o := seenOn(h, func(tap, _ int) uint64 { return map[bool]uint64{true: 20_000, false: 30}[tap == 0] },
			func(_, queue int) int { return queue })
		s := mustSteer(t, h, o, SteerOptions{By: by})
		if g := s.Groups[0]; g.Means != AsItIs && (g.Lanes[0].Count != 8 || by != "" && g.Means != by) {
			t.Errorf("by %q: %s: %v", by, g.Means, g.Lanes)
		}
	}
}

// TestSteerNeverWorse: whatever was seen, the fullest queue has no more than before once it is steered, but for a lane
// of its own.
func TestSteerNeverWorse(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	steered, left := 0, 0
	for range 400 {
		h := steerHost(1+r.IntN(5), 1+r.IntN(8), 2+r.IntN(10))
		if r.IntN(2) == 0 {
			float(h, 0)
		}
		amounts, exits := map[[2]int]uint64{}, map[[2]int]int{}
		for i := range h.Taps {
			for q := range h.Taps[i].RxQueues {
				amounts[[2]int{i, q}] = []uint64{0, 20, 5000, 50_000}[r.IntN(4)]
				exits[[2]int{i, q}] = (len(exits) + r.IntN(2)) % h.NICs[0].TxQueues
			}
		}
		o := seenOn(h, func(tap, queue int) uint64 { return amounts[[2]int{tap, queue}] },
			func(tap, queue int) int { return exits[[2]int{tap, queue}] })
		g := mustSteer(t, h, o, SteerOptions{}).Groups[0]
		if g.Means == AsItIs {
			left++
			continue
		}
		steered++
		before, after, widest := map[int]uint64{}, map[int]uint64{}, uint64(0)
		var most, found uint64
		for at, n := range amounts {
			before[exits[at]] += n
			after[QueueOf(g.Lanes[at[0]], at[1])] += n
			widest = max(widest, n)
		}
		for _, n := range before {
			most = max(most, n)
		}
		for _, n := range after {
			found = max(found, n)
		}
		if float64(found) > 1.05*float64(max(most, widest)) && most >= leastPackets {
			t.Fatalf("%d packets on the fullest queue, before %d: %v\n%v", found, most, g.Lanes, amounts)
		}
	}
	must.Hold(t, steered >= 50 && left >= 5,
		"%d hosts were steered and %d left as they are: too few to prove anything", steered, left)
}

// TestSteerWeightsWorse: weights that would crowd a queue are refused, with what was seen.
func TestSteerWeightsWorse(t *testing.T) {
	h := steerHost(2, 8, 8)
	float(h, 0)
	o := seenOn(h, func(tap, _ int) uint64 { return uint64(10_000 * (1 - tap)) },
		func(_, queue int) int { return queue })
	options := SteerOptions{Weights: map[string]float64{"vm1": 3}}
	_, err := Steer(h, o, options)
	refusal, is := errors.AsType[*Refusal](err)
	must.Hold(t, is && strings.Contains(err.Error(), "makes it worse") && strings.Contains(refusal.Instead, "--weight"),
		"%v", err)
	if s := mustSteer(t, h, nil, options); s.Groups[0].Lanes[1].Count != 6 {
		t.Errorf("nothing was watched: %v", fmt.Sprint(s.Groups[0].Lanes))
	}
}
