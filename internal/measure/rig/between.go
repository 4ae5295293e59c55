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
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/outcome"
)

// Options are how to send and count.
type Options struct {
	Generator traffic.Method // Auto, XDP, AFPacket, Pktgen, or of agents that send Fastest
	Clone     int            // traffic.Config.Clone, of Pktgen
	Burst     int            // frames that Pktgen sends back to back; 0: one
	Sink      traffic.Method // Auto, XDP, XDPSkb or AFPacket; results compare only if counted in the same way
	// CPUs for this machine's generators, one worker each; empty: one for each direction, chosen by the kernel
	CPUs []int
}

// accept configures a sink to count what the generator sends.
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

// Between sets up the path between two interfaces of this machine, in any network namespaces.
func Between(ctx context.Context, m *Machine, from, to traffic.Endpoint, load measure.Load, o Options) (*Path, error) {
	if from == to {
		return nil, usage("give two interfaces that a device under test connects", "both ends are %s", from)
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
	forth, back, err := lanes(load, o)
	if err != nil {
		return nil, err
	}
	if err := p.connect(ctx, source, target, target.MAC, load, o, forth, back); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// connect adds the ends of both directions on this machine. to is the MAC address that source sends to.
func (p *Path) connect(ctx context.Context, source, target traffic.Device, to net.HardwareAddr, load measure.Load,
	o Options, forth, back lane) error {
	// The sinks first: a veth accepts live frames only once its peer has a program.
	err := p.countHere(target, load, o, forth)
	if err == nil && load.TwoWay {
		err = p.countHere(source, load, o, back)
	}
	if err == nil {
		err = p.sendHere(ctx, source, to, load, o, forth)
	}
	if err == nil && load.TwoWay {
		err = p.sendHere(ctx, target, source.MAC, load, o, back)
	}
	return err
}

// lane is one direction of the traffic.
type lane struct {
	back   bool   // the opposite direction of two-way traffic
	stream uint16 // of the first worker
	cpus   []int  // CPUs of the generator
	// share is the part of the load's rate that this lane's sender has, if there are several for a direction; 0: all.
	share float64
}

// backStream is the first stream of the opposite direction, which tells them apart wherever both pass.
const backStream = 512

// lanes returns the directions of a load. If both run on this machine they share its CPUs: half of those given each, or
// one each if none are given.
func lanes(load measure.Load, o Options) (forth, back lane, err error) {
	forth, back = lane{cpus: o.CPUs}, lane{back: true, stream: backStream}
	if !load.TwoWay {
		return forth, back, nil
	}
	cpus := o.CPUs
	if len(cpus) == 0 {
		allowed, err := traffic.AllowedCPUs()
		if err != nil {
			return forth, back, err
		}
		cpus = allowed[:min(2, len(allowed))]
	}
	half := max(1, len(cpus)/2)
	forth.cpus, back.cpus = cpus[:half], cpus[len(cpus)-half:]
	return forth, back, nil
}

// countHere adds the receiving end of a direction, on this machine.
func (p *Path) countHere(target traffic.Device, load measure.Load, o Options, l lane) error {
	config := traffic.SinkConfig{In: target.Endpoint, Method: o.Sink, Stream: l.stream, Streams: max(1, len(l.cpus)),
		Latency: load.Latency}
	o.accept(&config)
	sink, err := traffic.NewSink(config)
	if err != nil {
		return explain(err)
	}
	p.receivers = append(p.receivers, &receiver{config: config, sink: sink, local: true, limit: traffic.ReceiverAlone,
		warn: p.warnAs("sink")})
	return nil
}

// sendHere adds the sending end of a direction, on this machine, towards a MAC address. It prepares the generator, so
// that errors show up before anything is measured.
func (p *Path) sendHere(ctx context.Context, source traffic.Device, to net.HardwareAddr, load measure.Load, o Options,
	l lane) error {
	frame := l.frame(load)
	frame.DstMAC = to
	s := &sender{
		config: traffic.Config{Out: source.Endpoint, Frame: frame, Stream: l.stream, CPUs: l.cpus, Method: o.Generator,
			Clone: o.Clone, Burst: o.Burst},
		share: l.share, make: traffic.NewGenerator, limit: generatorAlone, warn: p.warnAs("generator"),
	}
	p.senders = append(p.senders, s)
	p.warnLineRate(source, load)
	if err := s.prepare(ctx, load); err != nil {
		return err
	}
	s.config.Method = s.gen.Method()
	return nil
}

// device looks up an end and checks that the load fits it.
func device(e traffic.Endpoint, load measure.Load) (traffic.Device, error) {
	d, err := e.Device()
	switch {
	case errors.Is(err, traffic.ErrNoDevice):
		return d, usage("'ip link' lists the interfaces there are, 'ip netns' the namespaces", "%w", err)
	case errors.Is(err, fs.ErrNotExist):
		return d, usage("'ip netns' lists the namespaces there are", "%w", err)
	case errors.Is(err, fs.ErrPermission):
		return d, fault("bench pps needs root", "%w", err)
	case err != nil:
		return d, fault("", "%w", err)
	case !d.Up:
		return d, usage("ip link set "+e.Iface+" up", "interface %s is down", e)
	}
	return d, fits(load, e.String(), d.MTU)
}

// IMIX is the name of CSIT's mix of frame sizes in a load.
const IMIX = "imix"

// MixBytes returns the mean frame size of a mix, in bytes with FCS, rounded; 0 for an unknown mix.
func MixBytes(mix string) int {
	if mix != IMIX {
		return 0
	}
	return int(math.Round(traffic.Frame{Sizes: traffic.IMIX()}.MeanSize()))
}

// largest returns the largest frame of a load, in bytes with FCS.
func largest(load measure.Load) int {
	if load.Mix == IMIX {
		return slices.Max(traffic.IMIX())
	}
	return load.FrameBytes
}

// fits checks the frames of a load against an interface. The MTU excludes the 14 bytes of headers and the 4 of FCS.
func fits(load measure.Load, where string, mtu int) error {
	frame := largest(load)
	switch {
	case frame < traffic.MinFrame || frame > traffic.MaxFrame:
		return usage("sizes count the FCS, as in RFC 2544", "frames of %d bytes: expected %d to %d", frame,
			traffic.MinFrame, traffic.MaxFrame)
	case mtu > 0 && frame-18 > mtu:
		return usage("use a smaller --frame or a larger MTU", "frames of %d bytes need an MTU of %d: %s has %d", frame,
			frame-18, where, mtu)
	}
	return nil
}

// CheckLoad checks what does not depend on the ends.
func CheckLoad(load measure.Load) error {
	switch {
	case load.Flows < 1 || load.Flows > MaxFlows:
		return usage("", "%d flows: expected 1 to %d", load.Flows, MaxFlows)
	case load.SourceMACs < 0 || load.SourceMACs > traffic.MaxSourceMACs:
		return usage("", "%d source MAC addresses: expected 1 to %d", load.SourceMACs, traffic.MaxSourceMACs)
	case load.Rate < 0 || load.Rate > 1e9:
		return usage("0 is as fast as possible; 14.88M is the line rate of 10 Gbit/s",
			"%g packets a second: expected 0 to 1G", load.Rate)
	case load.Duration <= 0:
		return usage("", "a duration of %v: expected more than nothing", load.Duration)
	case load.Repeat < 1 || load.Repeat > 10000:
		return usage("", "%d trials: expected 1 to 10000", load.Repeat)
	}
	if load.Mix != "" && load.Mix != IMIX {
		return usage("", "frame sizes %q: expected %s", load.Mix, IMIX)
	}
	return fits(load, "", 0)
}

// explain adds a hint to errors of generators and sinks.
func explain(err error) error {
	var unsupported *traffic.UnsupportedError
	switch {
	case errors.Is(err, traffic.ErrFrame), errors.Is(err, traffic.ErrConfig):
		return outcome.Usage(err, "")
	case errors.Is(err, fs.ErrPermission):
		return fault("bench pps needs root", "%w", err)
	case errors.Is(err, traffic.ErrNoPktgen):
		return fault("modprobe pktgen", "%w", err)
	case errors.Is(err, agent.ErrDenied):
		return fault("the agent's --iface, --to and --max-pps say what it allows", "%w", err)
	case errors.As(err, &unsupported):
		return fault("--generator auto takes what is possible", "%w", err)
	}
	return err
}

func endpoint(d traffic.Device) measure.Endpoint {
	return measure.Endpoint{Where: place(d.Netns), Interface: d.Iface, MAC: d.MAC.String(), Driver: d.Kind}
}

// Forward describes the path through a forwarding device: a guest or a router, with one side towards each end.
type Forward struct {
	From, To traffic.Endpoint // interfaces of this machine, or
	Via, Out string           // bridges of this machine, which get temporary veth pairs
	// Gateway is the address of a routing device on the sending side, GatewayMAC its MAC address if that needs no ARP.
	// Without both, the device is a bridge.
	Gateway    netip.Addr
	GatewayMAC net.HardwareAddr
	Reverse    bool // from To or Out to From or Via
}

// Through sets up the path through a forwarding device. A router must have an on-link route to firstTarget (in reverse,
// firstSource) on the receiving side; ARP requests for that address are answered here.
func Through(ctx context.Context, m *Machine, f Forward, load measure.Load, o Options) (_ *Path, err error) {
	if f.Reverse {
		f.From, f.To, f.Via, f.Out = f.To, f.From, f.Out, f.Via
	}
	if load.TwoWay && (f.Gateway.IsValid() || f.GatewayMAC != nil) {
		return nil, usage("measure one way, and the other with --reverse", "both ways at once through a device that "+
			"routes: there is one gateway for one of them")
	}
	if f.From == f.To && f.Via == f.Out {
		return nil, usage("give two interfaces or bridges that the device connects", "both ends are %s%s", f.From,
			f.Via)
	}
	p := &Path{setup: setup{machines: machines{m}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	m.count("", f.From.Netns, f.To.Netns)
	var source, target traffic.Device
	if source, p.From, err = m.nearEnd(ctx, With{Bridge: f.Via, From: f.From}, load, &p.setup); err != nil {
		return nil, err
	}
	if target, p.To, err = m.nearEnd(ctx, With{Bridge: f.Out, From: f.To}, load, &p.setup); err != nil {
		return nil, err
	}
	forth, back, err := lanes(load, o)
	if err != nil {
		return nil, err
	}
	forth.back = f.Reverse
	to := target.MAC
	if f.Gateway.IsValid() || f.GatewayMAC != nil {
		stop, err := answerARP(target, forth.frame(load).Dst.First)
		if err != nil {
			return nil, err
		}
		p.undo = append(p.undo, stop)
		if to = f.GatewayMAC; to == nil {
			if to, err = resolve(ctx, source, f.Gateway); err != nil {
				return nil, err
			}
		}
	}
	return p, p.connect(ctx, source, target, to, load, o, forth, back)
}
