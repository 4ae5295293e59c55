package rig

import (
	"bytes"
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
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/measure/traffic/counters"
)

// AgentOptions say how to reach an agent.
type AgentOptions struct {
	Address string // host:port
	Version string // of mpps
	Secret  []byte // nil: none
	NIC     string // the agent's interface for packets in either direction; empty: the one that has Address
	Netns   string // network namespace of this machine to reach it from; empty: the process's own
}

// far is a session with an agent.
type far struct {
	client *agent.Client
	info   agent.Info
	nic    agent.Link
	addr   string
}

// How long an agent waits for a sign of life before it stops. If the control connection is lost, an agent that sends or
// serves a conversation stops within 2 s. An agent that only counts has nothing to stop, and test frames may flood the
// link that the control connection shares: TCP doubles its retransmission timeout with every loss. Emulated machines
// are silent for seconds.
const (
	countingSilence = 20 * time.Second
	emulatedSilence = 5 * time.Second
	trafficSilence  = 1800 * time.Millisecond
	dialTimeout     = 15 * time.Second
)

// silence returns how long an agent waits, depending on whether it sends test frames (sends) and serves conversations
// (talks).
func (m *Machine) silence(sends, talks bool) time.Duration {
	switch {
	case !m.Patient && (sends || talks):
		return trafficSilence
	case sends:
		return emulatedSilence
	}
	return countingSilence
}

// dialAgent opens a session and finds the agent's interface.
func dialAgent(ctx context.Context, o AgentOptions, silence time.Duration) (*far, error) {
	if _, _, err := net.SplitHostPort(o.Address); err != nil {
		if _, local := agent.SocketPath(o.Address); !local {
			return nil, usage("an agent's address is HOST:PORT or unix:PATH", "agent %q: %w", o.Address, err)
		}
	}
	client, err := agent.Dial(ctx, o.Address, agent.DialOptions{Netns: o.Netns, Version: o.Version, Secret: o.Secret,
		Timeout: dialTimeout, Silence: silence})
	if err != nil {
		return nil, explainDial(o, err)
	}
	f := &far{client: client, addr: o.Address}
	if f.info, err = client.Info(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("agent %s: %w", o.Address, err), client.Close())
	}
	if f.nic, err = findNIC(f.info, o); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return f, nil
}

func explainDial(o AgentOptions, err error) error {
	hint := "is 'mpps agent' running there, and does its address answer?"
	switch {
	case errors.Is(err, agent.ErrVersion):
		hint = "install the same version of mpps on both sides (here: " + o.Version + ")"
	case errors.Is(err, agent.ErrSecret):
		hint = "give the agent's secret with --secret-file"
	case errors.Is(err, agent.ErrHello):
		hint = "something else answers at " + o.Address
	case errors.Is(err, agent.ErrBusy):
		hint = "try again when other measurements have ended"
	case errors.Is(err, agent.ErrUser):
		hint = "measure as the agent's user, or as root with an agent of root's"
	}
	return fault(hint, "%w", err)
}

// listOf returns the beginning of a list of names that an agent answered.
func listOf(names []string) string {
	const most = 16
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "…")
	}
	return strings.Join(names, ", ")
}

// findNIC returns the requested interface of the agent, or the one with the address that the agent was reached at.
func findNIC(info agent.Info, o AgentOptions) (agent.Link, error) {
	var names []string
	host, _ := hostOf(o.Address)
	address, _ := netip.ParseAddr(host)
	for _, l := range info.Links {
		names = append(names, l.Name)
		if l.Name == o.NIC {
			return l, nil
		}
		for _, a := range l.Addrs {
			prefix, err := netip.ParsePrefix(a)
			if o.NIC == "" && err == nil && prefix.Addr() == address.Unmap() {
				return l, nil
			}
		}
	}
	hint := "the agent has " + listOf(names)
	if o.NIC != "" {
		return agent.Link{}, usage(hint, "agent %s has no interface %s", o.Address, o.NIC)
	}
	return agent.Link{}, usage("say with --guest-nic which; "+hint, "agent %s has no interface with the address %s",
		o.Address, host)
}

// workerCPUs returns the agent's CPUs for sending with one worker for each transmit queue of its interface.
func (f *far) workerCPUs() []int { return traffic.WorkerCPUs(f.info.Allowed, f.nic.TxQueues) }

func (f *far) where() string { return "agent " + f.addr }

func (f *far) cpuTimes(ctx context.Context) (measure.CPUTimes, error) {
	text, err := f.client.Stat(ctx)
	if err != nil {
		return measure.CPUTimes{}, err
	}
	taken := time.Now()
	times, err := measure.ParseStat(strings.NewReader(text))
	times.Taken = taken
	return times, err
}

func (f *far) counters(ctx context.Context) (measure.Counters, error) {
	statistics, err := f.client.Counters(ctx, traffic.Endpoint{Iface: f.nic.Name})
	if err != nil {
		return nil, err
	}
	all := measure.Counters{}
	for name, n := range statistics {
		c := measure.Counter{Where: f.where(), Name: name}
		if !counters.OfMachine(name) {
			c.Interface, c.Kind = f.nic.Name, f.nic.Kind
		}
		all[c] = n
	}
	return all, nil
}

func (f *far) endpoint() measure.Endpoint {
	return measure.Endpoint{Where: f.where(), Interface: f.nic.Name, MAC: f.nic.MAC, Driver: f.nic.Kind}
}

// generatorAlone measures the agent's generator. Packet sockets are measured by what they send into a veth pair there.
func (f *far) generatorAlone(ctx context.Context, c traffic.Config, d time.Duration) (traffic.Alone, error) {
	if c.Method == traffic.XDP || c.Method == traffic.Auto && f.info.Live == string(traffic.Yes) {
		return f.client.GeneratorAlone(ctx, c, d)
	}
	a, err := f.client.ReceiverAlone(ctx, traffic.SinkConfig{}, c, d)
	if a.Elapsed > 0 {
		a.PPS, a.AtLeast = float64(a.Sent)/a.Elapsed.Seconds(), false
	}
	return a, err
}

// With describes the way to an agent: through a bridge of this host, which gets a temporary veth pair, or out of an
// interface.
type With struct {
	Agent   AgentOptions
	Bridge  string
	From    traffic.Endpoint
	Reverse bool // the agent sends
}

// WithAgent sets up the path between this machine and an agent.
func WithAgent(ctx context.Context, m *Machine, w With, load measure.Load, o Options) (_ *Path, err error) {
	load.Latency = false // two machines, two clocks
	f, err := dialAgent(ctx, w.Agent, m.silence(w.Reverse || load.TwoWay, false))
	if err != nil {
		return nil, err
	}
	p := &Path{setup: setup{machines: machines{m, f}, FarHost: f.info.Host, FarKernel: f.info.Kernel,
		undo: []func() error{f.client.Close}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	mac, err := net.ParseMAC(f.nic.MAC)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 || bytes.Equal(mac, make([]byte, 6)) { // not a group's address
		return nil, usage("packets are sent to an Ethernet address", "interface %s of agent %s has the address %q",
			f.nic.Name, f.addr, f.nic.MAC)
	}
	if !f.nic.Up {
		return nil, usage("set it up there", "interface %s of agent %s is down", f.nic.Name, f.addr)
	}
	if err := fits(load, f.nic.Name+" of agent "+f.addr, f.nic.MTU); err != nil {
		return nil, err
	}
	m.count("", w.From.Netns)
	near, at, err := m.nearEnd(ctx, w, load, &p.setup)
	if err != nil {
		return nil, err
	}
	// Only the direction that leaves from this machine uses its CPUs.
	there, back := lane{cpus: o.CPUs}, lane{back: true, stream: backStream, cpus: f.workerCPUs()}
	if w.Reverse {
		if len(there.cpus) == 0 {
			there.cpus = f.workerCPUs()
		}
		p.From, p.To = f.endpoint(), at
		if err := p.countHere(near, load, o, there); err != nil {
			return nil, err
		}
		p.sendThere(f, near.MAC, load, o, there)
		return p, nil
	}
	p.From, p.To = at, f.endpoint()
	if err := checkMAC(ctx, f, w, near, mac); err != nil {
		return nil, err
	}
	if err := p.countThere(ctx, f, o, there); err != nil {
		return nil, err
	}
	if load.TwoWay {
		if err := p.countHere(near, load, o, back); err != nil {
			return nil, err
		}
	}
	if err := p.sendHere(near, mac, load, o, there); err != nil {
		return nil, err
	}
	if load.TwoWay {
		p.sendThere(f, near.MAC, load, o, back)
	}
	return p, nil
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
		make:  func(c traffic.Config) (traffic.Generator, error) { return f.client.NewGenerator(c), nil },
		limit: f.generatorAlone, warn: p.warnAs("generator"),
	})
}
