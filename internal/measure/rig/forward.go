package rig

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// Forward says which way leads through a device that forwards: a guest or a router, with one side towards each end.
type Forward struct {
	From, To traffic.Endpoint // interfaces of this machine, or
	Via, Out string           // bridges of it, into which pairs are made for the time of the measurement
	// Gateway is the address, on the sending side, of a device that routes, GatewayMAC its MAC address where that is
	// known without asking. Without both the device bridges.
	Gateway    netip.Addr
	GatewayMAC net.HardwareAddr
	Reverse    bool // from To or Out to From or Via
}

// Through makes the path through a device that forwards. A device that routes has to have a route to firstTarget, in
// reverse to firstSource, that leads to the receiving side: as to a neighbour, which then is answered for here.
func Through(ctx context.Context, m *Machine, f Forward, load measure.Load, o Options) (_ *Path, err error) {
	if f.Reverse {
		f.From, f.To, f.Via, f.Out = f.To, f.From, f.Out, f.Via
	}
	if load.TwoWay && (f.Gateway.IsValid() || f.GatewayMAC != nil) {
		return nil, wrong("measure one way, and the other with --reverse", "both ways at once through a device that "+
			"routes: there is one gateway for one of them")
	}
	if f.From == f.To && f.Via == f.Out {
		return nil, wrong("give two interfaces or bridges that the device connects", "both ends are %s%s", f.From,
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
	there, back, err := lanes(load, o)
	if err != nil {
		return nil, err
	}
	there.back = f.Reverse
	to := target.MAC
	if f.Gateway.IsValid() || f.GatewayMAC != nil {
		stop, err := answerARP(target, there.frame(load).Dst.First)
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
	// The sinks first: a veth takes live frames only once its peer has a program.
	if err := p.countHere(target, load, o, there); err != nil {
		return nil, err
	}
	if !load.TwoWay {
		return p, p.sendHere(source, to, load, o, there)
	}
	if err := p.countHere(source, load, o, back); err != nil {
		return nil, err
	}
	if err := p.sendHere(source, to, load, o, there); err != nil {
		return nil, err
	}
	return p, p.sendHere(target, source.MAC, load, o, back)
}
