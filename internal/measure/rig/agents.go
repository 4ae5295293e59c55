package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
)

// With describes the way to agents: through a bridge of this host, which gets a temporary veth pair, or out of an
// interface.
type With struct {
	Agent   AgentOptions
	More    []AgentOptions // further agents that count or send at the same time; a rate is divided among all
	Bridge  string
	From    traffic.Endpoint
	Gateway netip.Addr // of a router on From's link that routes test frames to the only agent; zero: none
	Reverse bool       // the agents send
}

// WithAgent sets up the path between this machine and its agents.
func WithAgent(ctx context.Context, m *Machine, w With, load measure.Load, o Options) (_ *Path, err error) {
	load.Latency = false // two machines, two clocks
	p := &Path{setup: setup{machines: machines{m}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	var fars []*far
	for _, a := range append([]AgentOptions{w.Agent}, w.More...) {
		f, err := p.meet(ctx, a, m.silence(w.Reverse || load.TwoWay, false), load)
		if err != nil {
			return nil, err
		}
		fars = append(fars, f)
	}
	m.count("", w.From.Netns)
	near, at, err := m.nearEnd(ctx, w, load, &p.setup)
	if err != nil {
		return nil, err
	}
	there := fars[0].endpoint()
	there.Where = placesOf(fars)
	if w.Reverse {
		p.From, p.To = there, at
		return p, p.fromAgents(fars, near, load, o)
	}
	p.From, p.To = at, there
	return p, p.toAgents(ctx, fars, w, near, load, o)
}

// meet dials an agent and checks that its interface can take the load.
func (p *Path) meet(ctx context.Context, a AgentOptions, silence time.Duration, load measure.Load) (*far, error) {
	f, err := dialAgent(ctx, a, silence)
	if err != nil {
		return nil, err
	}
	p.machines = append(p.machines, f)
	p.undo = append(p.undo, f.client.Close)
	p.FarHost, p.FarKernel = joined(p.FarHost, f.info.Host), joined(p.FarKernel, f.info.Kernel)
	mac := f.mac()
	if !ofInterface(mac) {
		return nil, usage("packets are sent to an Ethernet address", "interface %s of agent %s has the address %q",
			f.nic.Name, f.addr, f.nic.MAC)
	}
	if !f.nic.Up {
		return nil, usage("set it up there", "interface %s of agent %s is down", f.nic.Name, f.addr)
	}
	return f, fits(load, f.nic.Name+" of agent "+f.addr, f.nic.MTU)
}

// mac returns the address of the agent's interface; nil if it has none.
func (f *far) mac() net.HardwareAddr {
	mac, err := net.ParseMAC(f.nic.MAC)
	if err != nil {
		return nil
	}
	return mac
}

// joined appends a name to others, each once.
func joined(names, name string) string {
	if names == "" || slices.Contains(strings.Split(names, ", "), name) {
		return name
	}
	return names + ", " + name
}

// placesOf names the agents.
func placesOf(fars []*far) string {
	places := fars[0].where()
	for _, f := range fars[1:] {
		places += ", " + f.addr
	}
	return places
}

// fromAgents adds the sending end of every agent and one receiver here.
func (p *Path) fromAgents(fars []*far, near traffic.Device, load measure.Load, o Options) error {
	o = p.fastest(o, fars)
	all := lane{}
	var lanes []lane
	for _, f := range fars {
		l := lane{stream: uint16(len(all.cpus)), cpus: o.CPUs, share: 1 / float64(len(fars))}
		if len(l.cpus) == 0 {
			l.cpus = f.workerCPUs()
		}
		lanes = append(lanes, l)
		all.cpus = append(all.cpus, l.cpus...)
	}
	if err := p.countHere(near, load, o, all); err != nil {
		return err
	}
	for i, f := range fars {
		p.sendThere(f, near.MAC, load, o, lanes[i])
	}
	return nil
}

// toAgents adds the receiving end of every agent, and a sender here for each. Two-way traffic comes back from each
// agent too.
func (p *Path) toAgents(ctx context.Context, fars []*far, w With, near traffic.Device, load measure.Load,
	o Options) error {
	if load.TwoWay && len(fars) > 1 {
		return usage("leave --two-way out", "both directions are measured with one agent, and there are %d", len(fars))
	}
	lanes, err := divided(o.CPUs, len(fars))
	if err != nil {
		return err
	}
	back := lane{back: true, stream: backStream, cpus: fars[0].workerCPUs()}
	to := make([]net.HardwareAddr, len(fars))
	for i, f := range fars {
		if to[i] = f.mac(); w.Gateway.IsValid() {
			if to[i], err = resolve(ctx, near, w.Gateway); err != nil {
				return err
			}
		}
		if err := checkMAC(ctx, f, w, near, to[i]); err != nil {
			return err
		}
		if err := p.countThere(ctx, f, o, lanes[i]); err != nil {
			return err
		}
	}
	if load.TwoWay {
		if err := p.countHere(near, load, o, back); err != nil {
			return err
		}
	}
	for i := range fars {
		if err := p.sendHere(ctx, near, to[i], load, o, lanes[i]); err != nil {
			return err
		}
	}
	if load.TwoWay {
		p.sendThere(fars[0], near.MAC, load, o, back)
	}
	return nil
}

// divided returns a lane for each of n senders on this machine, with its part of the CPUs: those given, else the first
// that this process may use. With fewer CPUs than senders they share them.
func divided(cpus []int, n int) ([]lane, error) {
	if n == 1 {
		return []lane{{cpus: cpus}}, nil
	}
	if len(cpus) == 0 {
		allowed, err := traffic.AllowedCPUs()
		if err != nil {
			return nil, err
		}
		cpus = allowed[:min(n, len(allowed))]
	}
	lanes := make([]lane, n)
	stream := 0
	for i := range lanes {
		own := cpus[i*len(cpus)/n : (i+1)*len(cpus)/n]
		if len(own) == 0 {
			own = cpus[i%len(cpus):][:1]
		}
		lanes[i] = lane{stream: uint16(stream), cpus: own, share: 1 / float64(n)}
		stream += len(own)
	}
	return lanes, nil
}

// nearEnd returns this machine's end: the given interface, or a temporary one in the bridge.
func (m *Machine) nearEnd(ctx context.Context, w With, load measure.Load, s *setup) (traffic.Device, measure.Endpoint,
	error) {
	if w.Bridge == "" {
		d, err := device(w.From, load)
		return d, endpoint(d), err
	}
	port, remove, err := m.intoBridge(ctx, w.Bridge)
	if err != nil {
		return traffic.Device{}, measure.Endpoint{}, err
	}
	s.undo = append(s.undo, remove)
	at := endpoint(port.Outer)
	at.Via = w.Bridge
	return port.Outer, at, fits(load, "bridge "+w.Bridge, port.Outer.MTU)
}

// countThere adds the receiving end of a direction, at the agent.
func (p *Path) countThere(ctx context.Context, f *far, o Options, l lane) error {
	config := traffic.SinkConfig{In: traffic.Endpoint{Iface: f.nic.Name}, Method: o.Sink, Stream: l.stream,
		Streams: max(1, len(l.cpus))}
	o.accept(&config)
	sink, err := f.client.NewSink(ctx, config)
	if err != nil {
		return explain(fmt.Errorf("sink at %s: %w", f.addr, err))
	}
	p.receivers = append(p.receivers, &receiver{config: config, sink: sink, limit: f.client.ReceiverAlone,
		warn: p.warnAs("sink")})
	return nil
}

// sendThere adds the sending end of a direction, at the agent.
func (p *Path) sendThere(f *far, to net.HardwareAddr, load measure.Load, o Options, l lane) {
	frame := l.frame(load)
	frame.DstMAC = to
	p.senders = append(p.senders, &sender{
		config: traffic.Config{Out: traffic.Endpoint{Iface: f.nic.Name}, Frame: frame, Stream: l.stream, CPUs: l.cpus,
			Method: o.Generator, Clone: o.Clone, Burst: o.Burst},
		share: l.share,
		make: func(_ context.Context, c traffic.Config) (traffic.Generator, error) {
			return f.client.NewGenerator(c), nil
		},
		limit: f.generatorAlone, warn: p.warnAs("generator"),
	})
}

// Fastest has the agents that send use the fastest generator that all of them have: XDP frames where every driver sends
// them, else pktgen with clones where every kernel has it loaded, else the choice of Auto, with a warning that says
// what is missing where.
const Fastest traffic.Method = "fastest"

// clones is how often Fastest has pktgen repeat a frame: making one costs more than sending it (alloc_skb and filling
// it in against one transmit, net/core/pktgen.c), and 64 repetitions leave under 2 % of that.
const clones = 64

// fastest returns the options for agents that send.
func (p *Path) fastest(o Options, fars []*far) Options {
	if o.Generator != Fastest {
		return o
	}
	o.Generator = traffic.Auto
	var slow, without *far
	for _, f := range fars {
		if f.info.Live != string(traffic.Yes) || f.nic.Live != string(traffic.Yes) {
			slow = f
		}
		if !f.info.Pktgen {
			without = f
		}
	}
	switch {
	case slow == nil:
	case without == nil:
		o.Generator, o.Clone = traffic.Pktgen, clones
	default:
		p.Warnings = append(p.Warnings, measure.Warning{Code: "generator-slow",
			Text: fmt.Sprintf("agent %s sends through packet sockets, about 1.25 Mpps a CPU at best: %s (%s) does not "+
				"send XDP frames, and pktgen is not loaded at agent %s", slow.addr, slow.nic.Name, slow.nic.Kind,
				without.addr),
			Hint: "'modprobe pktgen' in the guest"})
	}
	return o
}
