package rig

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

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
