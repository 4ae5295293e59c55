package rig

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"slices"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// Options are how to send and count.
type Options struct {
	Generator traffic.Method // Auto, XDP, AFPacket or Pktgen
	Clone     int            // traffic.Config.Clone, of Pktgen
	Burst     int            // frames of Pktgen back to back, 0: one
	Sink      traffic.Method // Auto, XDP, XDPSkb or AFPacket; what is compared must be counted in the same way
	// that this machine's generators run on, one worker each; empty: one of the kernel's choice for each direction
	CPUs []int
}

// accept has a sink count what the generator sends.
func (o Options) accept(c *traffic.SinkConfig) {
	c.Pktgen = o.Generator == traffic.Pktgen
	c.Unnumbered = c.Pktgen && (o.Clone > 0 || o.Burst > 1)
}

// MaxFlows is the most flows that a load may have.
const MaxFlows = 65536

// The two halves of RFC 2544's benchmarking addresses (appendix C.2.2), one for each end.
var (
	firstSource = netip.AddrFrom4([4]byte{198, 18, 0, 1})
	firstTarget = netip.AddrFrom4([4]byte{198, 19, 0, 1})
)

// Between makes the path from one interface of this machine to another, in whichever network namespaces they are.
func Between(_ context.Context, m *Machine, from, to traffic.Endpoint, load measure.Load, o Options) (*Path, error) {
	if from == to {
		return nil, wrong("give two interfaces that a device under test connects", "both ends are %s", from)
	}
	source, err := device(from, load)
	if err != nil {
		return nil, err
	}
	target, err := device(to, load)
	if err != nil {
		return nil, err
	}
	m.count("", from.Netns, to.Netns)
	p := &Path{setup: setup{From: endpoint(source), To: endpoint(target), machines: machines{m}}}
	there, back, err := lanes(load, o)
	if err != nil {
		return nil, err
	}
	// The sinks first: a veth takes live frames only once its peer has a program.
	err = p.countHere(target, load, o, there)
	if err == nil && load.TwoWay {
		err = p.countHere(source, load, o, back)
	}
	if err == nil {
		err = p.sendHere(source, target.MAC, load, o, there)
	}
	if err == nil && load.TwoWay {
		err = p.sendHere(target, source.MAC, load, o, back)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// lane is one direction of the traffic.
type lane struct {
	back   bool   // against the direction that was asked for, of two-way traffic
	stream uint16 // of the first worker
	cpus   []int  // that the generator runs on
}

// backStream is the first stream of packets that come back: they are told from those that go there wherever both pass.
const backStream = 512

// lanes are the directions of a load. Two that share this machine share its CPUs too: half of those given each, or,
// where none are given, one each.
func lanes(load measure.Load, o Options) (there, back lane, err error) {
	there, back = lane{cpus: o.CPUs}, lane{back: true, stream: backStream}
	if !load.TwoWay {
		return there, back, nil
	}
	cpus := o.CPUs
	if len(cpus) == 0 {
		allowed, err := traffic.AllowedCPUs()
		if err != nil {
			return there, back, err
		}
		cpus = allowed[:min(2, len(allowed))]
	}
	half := max(1, len(cpus)/2)
	there.cpus, back.cpus = cpus[:half], cpus[len(cpus)-half:]
	return there, back, nil
}

// countHere makes the receiving end of a direction on this machine.
func (p *Path) countHere(target traffic.Device, load measure.Load, o Options, l lane) error {
	config := traffic.SinkConfig{In: target.Endpoint, Method: o.Sink, Stream: l.stream, Streams: max(1, len(l.cpus)),
		Latency: load.Latency}
	o.accept(&config)
	sink, err := traffic.NewSink(config)
	if err != nil {
		return explain(err)
	}
	p.receivers = append(p.receivers, &receiver{config: config, sink: sink, local: true, limit: receiverAlone,
		warn: p.warnAs("sink")})
	return nil
}

// sendHere makes the sending end of a direction on this machine, towards a MAC address; what it cannot do comes out
// here, before anything is measured.
func (p *Path) sendHere(source traffic.Device, to net.HardwareAddr, load measure.Load, o Options, l lane) error {
	frame := l.frame(load)
	frame.DstMAC = to
	s := &sender{
		config: traffic.Config{Out: source.Endpoint, Frame: frame, Stream: l.stream, CPUs: l.cpus, Method: o.Generator,
			Clone: o.Clone, Burst: o.Burst},
		make: traffic.NewGenerator, limit: generatorAlone, warn: p.warnAs("generator"),
	}
	p.senders = append(p.senders, s)
	p.warnLineRate(source, load)
	if err := s.prepare(load); err != nil {
		return err
	}
	s.config.Method = s.made.Method()
	return nil
}

// device looks an end up and checks that the load fits it.
func device(e traffic.Endpoint, load measure.Load) (traffic.Device, error) {
	d, err := e.Device()
	switch {
	case errors.Is(err, traffic.ErrNoDevice):
		return d, wrong("'ip link' lists the interfaces there are, 'ip netns' the namespaces", "%w", err)
	case errors.Is(err, fs.ErrNotExist):
		return d, wrong("'ip netns' lists the namespaces there are", "%w", err)
	case errors.Is(err, fs.ErrPermission):
		return d, fault("bench pps needs root", "%w", err)
	case err != nil:
		return d, fault("", "%w", err)
	case !d.Up:
		return d, wrong("ip link set "+e.Iface+" up", "interface %s is down", e)
	}
	return d, fits(load, e.String(), d.MTU)
}

// IMIX is the name of CSIT's mix of frame sizes in a load.
const IMIX = "imix"

// MixBytes is the mean frame size of a mix, in bytes with FCS, rounded; 0 for one that is not known.
func MixBytes(mix string) int {
	if mix != IMIX {
		return 0
	}
	return int(math.Round(traffic.Frame{Sizes: traffic.IMIX()}.MeanSize()))
}

// largest is the largest frame of a load, in bytes with FCS.
func largest(load measure.Load) int {
	if load.Mix == IMIX {
		return slices.Max(traffic.IMIX())
	}
	return load.FrameBytes
}

// fits checks the frames of a load against an interface.
func fits(load measure.Load, where string, mtu int) error {
	return frameFits(largest(load), where, mtu)
}

// frameFits checks a frame size against an interface: headers of 14 bytes and the FCS of 4 are not in the MTU.
func frameFits(frame int, where string, mtu int) error {
	switch {
	case frame < traffic.MinFrame || frame > traffic.MaxFrame:
		return wrong("sizes count the FCS, as in RFC 2544", "frames of %d bytes: expected %d to %d", frame,
			traffic.MinFrame, traffic.MaxFrame)
	case mtu > 0 && frame-18 > mtu:
		return wrong("use a smaller --frame or a larger MTU", "frames of %d bytes need an MTU of %d: %s has %d", frame,
			frame-18, where, mtu)
	}
	return nil
}

// CheckLoad checks what does not depend on the ends.
func CheckLoad(load measure.Load) error {
	switch {
	case load.Flows < 1 || load.Flows > MaxFlows:
		return wrong("", "%d flows: expected 1 to %d", load.Flows, MaxFlows)
	case load.Rate < 0 || load.Rate > 1e9:
		return wrong("0 is as fast as possible; 14.88M is the line rate of 10 Gbit/s",
			"%g packets a second: expected 0 to 1G", load.Rate)
	case load.Duration <= 0:
		return wrong("", "a duration of %v: expected more than nothing", load.Duration)
	case load.Repeat < 1 || load.Repeat > 10000:
		return wrong("", "%d trials: expected 1 to 10000", load.Repeat)
	}
	if load.Mix != "" && load.Mix != IMIX {
		return wrong("", "frame sizes %q: expected %s", load.Mix, IMIX)
	}
	return fits(load, "", 0)
}

// explain adds a hint to what generators and sinks complain about.
func explain(err error) error {
	var unsupported *traffic.UnsupportedError
	switch {
	case errors.Is(err, traffic.ErrFrame), errors.Is(err, traffic.ErrConfig):
		return &Error{Err: err, Usage: true}
	case errors.Is(err, fs.ErrPermission):
		return fault("bench pps needs root", "%w", err)
	case errors.Is(err, traffic.ErrNoPktgen):
		return fault("modprobe pktgen", "%w", err)
	case errors.As(err, &unsupported):
		return fault("--generator auto takes what is possible", "%w", err)
	}
	return err
}

func endpoint(d traffic.Device) measure.Endpoint {
	return measure.Endpoint{Where: place(d.Netns), Interface: d.Iface, MAC: d.MAC.String(), Driver: d.Kind}
}
