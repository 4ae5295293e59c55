// Package simulated has devices under test that are arithmetic: their capacity is known, so the result of a search can
// be checked. They are repeatable: the same kind, capacity and seed give the same answers.
package simulated

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
)

// LineRate is the line rate of 64-byte frames on 10 Gbit/s Ethernet, packets per second (84 bytes each with preamble
// and gap).
const LineRate = 14.88e6

// Device is a simulated device under test. Its clock only runs while it is sent packets.
type Device struct {
	kind
	capacity float64 // packets per second
	random   *rand.Rand
	clock    float64 // seconds of traffic so far
	low      bool    // in the lower of two states
}

// kind holds the peculiarities of a device.
type kind struct {
	About    string
	jitter   float64    // standard deviation of a second's capacity, relative
	stall    float64    // share of seconds in which it carries 5 % less
	buffer   float64    // in seconds of its capacity
	floor    float64    // share of packets lost at any load
	collapse float64    // drop of the forwarded rate for each packet above the capacity
	wave     float64    // relative amplitude of a slow wave of its capacity, 100 s long
	trial    float64    // share of trials in which it carries 5 % less
	leave    [2]float64 // chance per second to leave the normal state, and the state that carries 5 % less
}

// kinds are the devices by name.
var kinds = map[string]kind{
	"clean":         {About: "the same in every second"},
	"jitter":        {About: "every second differs by 0.1 %", jitter: 0.001},
	"stalls":        {About: "one second in 30 carries 5 % less", jitter: 0.001, stall: 1.0 / 30},
	"buffer":        {About: "holds 50 ms of packets before it drops", buffer: 0.05},
	"buffer-jitter": {About: "holds 50 ms of packets, and every second differs by 0.1 %", buffer: 0.05, jitter: 0.001},
	"buffer-stalls": {About: "holds 50 ms of packets, and one second in 30 carries 5 % less", buffer: 0.05,
		jitter: 0.001, stall: 1.0 / 30},
	"noisy":         {About: "every second differs by 1 %", jitter: 0.01},
	"drift":         {About: "a slow wave of 0.2 % over 100 s", jitter: 0.0002, wave: 0.002},
	"bistable":      {About: "one trial in five carries 5 % less", trial: 0.2},
	"bistable-slow": {About: "states of 40 s, and of 5 s with 5 % less", leave: [2]float64{1.0 / 40, 1.0 / 5}},
	"floor":         {About: "loses 0.03 % at any load", jitter: 0.001, floor: 0.0003},
	"livelock":      {About: "forwards less the more it is sent above its capacity", jitter: 0.001, collapse: 0.3},
}

// Kinds returns the names of the devices, sorted.
func Kinds() []string { return slices.Sorted(maps.Keys(kinds)) }

// About describes a kind in one line.
func About(name string) string { return kinds[name].About }

// New makes a device of a kind with a capacity in packets per second.
func New(name string, capacity float64, seed uint64) (*Device, error) {
	k, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("simulated device %q: expected one of %v", name, Kinds())
	}
	return &Device{kind: k, capacity: capacity, random: rand.New(rand.NewPCG(seed, 0x6d707073))}, nil
}

// Trial sends a load in packets per second for some seconds and returns how many packets were sent and came through.
// The buffer is empty before a trial and drained after it.
func (d *Device) Trial(pps, seconds float64) (sent, received uint64) {
	lesser := d.trial > 0 && d.random.Float64() < d.trial
	var forwarded, held float64
	for left := seconds; left > 1e-9; {
		part := min(1, left)
		capacity := d.second()
		if lesser {
			capacity *= 0.95
		}
		capacity = max(capacity-d.collapse*max(0, pps-capacity), 0.4*capacity)
		out := min(capacity*part, held+pps*part)
		held = min(held+pps*part-out, d.buffer*d.capacity)
		forwarded += out
		left -= part
	}
	sent = uint64(math.Round(pps * seconds))
	received = min(sent, uint64(math.Round(forwarded+held)))
	if d.floor > 0 {
		lost := float64(received) * d.floor
		received -= min(received, uint64(max(0, math.Round(lost+math.Sqrt(lost)*d.random.NormFloat64()))))
	}
	return sent, received
}

// second returns the capacity of the next second.
func (d *Device) second() float64 {
	relative := 1 + d.jitter*d.random.NormFloat64() + d.wave*math.Sin(2*math.Pi*d.clock/100)
	if d.stall > 0 && d.random.Float64() < d.stall {
		relative *= 0.95
	}
	if leave := d.leave; leave != [2]float64{} {
		if d.random.Float64() < leave[map[bool]int{true: 1}[d.low]] {
			d.low = !d.low
		}
		if d.low {
			relative *= 0.95
		}
	}
	d.clock++
	return d.capacity * relative
}
