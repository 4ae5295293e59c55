package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/measure/traffic/talk"
	"mpps/internal/outcome"
)

// The protocols of transactions, and the limits of a datagram's payload in bytes: at least the request's number if
// requests may overtake each other, at most what IPv4 carries.
const (
	TCP = "tcp"
	UDP = "udp"

	NumberBytes = talk.NumberBytes
	TokenBytes  = talk.TokenBytes
	MaxDatagram = talk.MaxDatagram
)

// Talk is a conversation between two ends over TCP or UDP. It implements measure.Exchange. Close it after use.
type Talk struct {
	setup
	kind    measure.Kind
	target  talk.Target
	reverse bool // stream: the far end sends

	Engine *Engine // the program that makes the traffic; nil for this one
}

// TalkBetween sets up a conversation between two network namespaces of this machine: a server at the address of an
// interface, and a client in a namespace.
func TalkBetween(m *Machine, kind measure.Kind, from, to traffic.Endpoint, reverse bool) (*Talk, error) {
	source, target, address, err := twoEnds(from, to)
	if err != nil {
		return nil, err
	}
	key, err := talk.NewKey()
	if err != nil {
		return nil, err
	}
	server, err := talk.Listen(to.Netns, net.JoinHostPort(address, "0"), key, nil, nil)
	if err != nil {
		return nil, fault("", "serve at %s: %w", to, err)
	}
	m.count("", from.Netns, to.Netns)
	t := &Talk{
		setup: setup{machines: machines{m}, From: endpoint(source), To: endpoint(target),
			undo: []func() error{server.Close}},
		kind: kind, target: talk.Target{Netns: from.Netns, Addr: server.Addr(), Key: key}, reverse: reverse,
	}
	t.To.Address = server.Addr()
	return t, nil
}

// twoEnds looks up both ends of a conversation on this machine, and the address to listen on.
func twoEnds(from, to traffic.Endpoint) (source, target traffic.Device, address string, err error) {
	if from == to {
		return source, target, "", usage("give two interfaces that a device under test connects", "both ends are %s",
			from)
	}
	any := measure.Load{FrameBytes: traffic.MinFrame}
	if source, err = device(from, any); err == nil {
		target, err = device(to, any)
	}
	if err == nil {
		address, err = addressOf(target)
	}
	return source, target, address, err
}

// talkHost returns the agent's address for a conversation.
func talkHost(f *far, o AgentOptions) (string, error) {
	if o.NIC != "" {
		return nicAddress(f.nic.Name, f.nic.Addrs)
	}
	return hostOf(o.Address)
}

// hostOf returns the host in an agent's address. A unix socket's is this one.
func hostOf(address string) (string, error) {
	if _, local := agent.SocketPath(address); local {
		return "127.0.0.1", nil
	}
	host, _, err := net.SplitHostPort(address)
	return host, err
}

// addressOf returns an address of an interface to listen on: the first global one, IPv4 before IPv6.
func addressOf(d traffic.Device) (address string, err error) {
	err = d.Do(func() error {
		l, err := netlink.LinkByIndex(d.Index)
		if err != nil {
			return err
		}
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			list, err := netlink.AddrList(l, family)
			if err != nil {
				return err
			}
			for _, a := range list {
				if a.IP.IsGlobalUnicast() || a.IP.IsLoopback() {
					address = a.IP.String()
					return nil
				}
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("addresses of %s: %w", d.Endpoint, err)
	case address == "":
		return "", usage("ip address add 10.0.0.2/24 dev "+d.Iface, "interface %s has no address to listen at",
			d.Endpoint)
	}
	return address, nil
}

// TalkWithAgent sets up a conversation with an agent.
func TalkWithAgent(ctx context.Context, m *Machine, kind measure.Kind, o AgentOptions, reverse bool) (*Talk, error) {
	t, f, host, err := talkWithAgent(ctx, m, kind, o, m.silence(false, true), reverse)
	if err != nil {
		return nil, err
	}
	server, err := f.client.ServeTCP(ctx, "", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, errors.Join(explain(err), t.Close())
	}
	t.undo = append(t.undo, server.Close)
	t.target = server.Target(o.Netns)
	t.To.Address = t.target.Addr
	t.From.Where = place(o.Netns)
	m.count("", o.Netns)
	return t, nil
}

// talkWithAgent dials an agent and returns a conversation with it that lacks a target, and the host to talk to.
func talkWithAgent(ctx context.Context, m *Machine, kind measure.Kind, o AgentOptions, silence time.Duration,
	reverse bool) (t *Talk, f *far, host string, err error) {
	if f, err = dialAgent(ctx, o, silence); err != nil {
		return nil, nil, "", err
	}
	t = &Talk{
		setup: setup{machines: machines{m, f}, From: measure.Endpoint{Where: "host"}, To: f.endpoint(),
			FarHost: f.info.Host, FarKernel: f.info.Kernel, undo: []func() error{f.client.Close}},
		kind: kind, reverse: reverse,
	}
	if host, err = talkHost(f, o); err != nil {
		return nil, nil, "", errors.Join(err, t.Close())
	}
	return t, f, host, nil
}

// nicAddress returns the first global address of an interface of the agent. What listens there proves that it is the
// agent's before anything is sent to it.
func nicAddress(name string, addresses []string) (string, error) {
	for _, text := range addresses {
		ip, _, err := net.ParseCIDR(text)
		if err == nil && ip.IsGlobalUnicast() {
			return ip.String(), nil
		}
	}
	return "", usage("it has "+listOf(append(addresses, "none")), "interface %s of the agent has no "+
		"address to listen at", name)
}

// Talk runs the load once.
func (t *Talk) Talk(ctx context.Context, load measure.Load) (measure.Sample, error) {
	if t.Engine != nil {
		return t.Engine.talk(ctx, t.kind, load, t.reverse)
	}
	target := t.target
	target.Conns = load.Connections
	switch t.kind {
	case measure.CRR:
		r, err := talk.CRR(ctx, talk.RRConfig{Target: target, Duration: load.Duration, Request: load.Request,
			Response: load.Response})
		return transactionSample(load, r), explainTalk(err)
	case measure.RR:
		r, err := talk.RR(ctx, talk.RRConfig{
			Target: target, Duration: load.Duration, Request: load.Request, Response: load.Response,
			UDP: load.Protocol == UDP, Rate: load.Rate, Timeout: load.Timeout,
		})
		return transactionSample(load, r), explainTalk(err)
	}
	r, err := talk.Stream(ctx, talk.StreamConfig{
		Target: target, Duration: load.Duration, Ramp: load.Ramp, Reverse: t.reverse, Sendfile: load.Sendfile,
	})
	return streamSample(r), explainTalk(err)
}

// streamSample returns the sample of a stream.
func streamSample(r talk.StreamResult) measure.Sample {
	s := measure.Sample{Seconds: r.Elapsed.Seconds(), Bytes: r.Bytes, RampBytes: r.RampBytes,
		BitsPerS: r.BitsPerSecond(), Retransmits: r.Retransmits}
	if len(r.Spans) == 0 {
		return s
	}
	var longest time.Duration
	for _, span := range r.Spans {
		longest = max(longest, span.Time)
	}
	s.Seconds = longest.Seconds()
	if slices.ContainsFunc(r.Spans, func(span talk.Span) bool { return span.Time == 0 }) {
		s.Warnings = append(s.Warnings, measure.Warning{
			Code: "ramp-not-over", Text: "some connections carried nothing that counts: they were slower than the " +
				"ramp, or were cut short",
			Hint: "use a longer --duration or a shorter --ramp, or fewer --connections",
		})
	}
	return s
}

// transactionSample returns the sample of a run of transactions.
func transactionSample(load measure.Load, r talk.RRResult) measure.Sample {
	s := measure.Sample{
		Seconds: r.Elapsed.Seconds(), Transactions: r.Transactions, TPS: r.PerSecond(), Retransmits: r.Retransmits,
		Sent: r.Sent, Received: r.Transactions, Lost: r.Lost, Late: r.Late, Due: r.Due, Blocked: r.Blocked,
	}
	if s.Latency = latencyOf("round-trip", r.Delays); s.Latency != nil {
		s.Latency.Loop = "closed"
	}
	if load.Rate == 0 || s.Latency == nil {
		return s
	}
	s.LatencyRaw = latencyOf("round-trip", r.SinceSent)
	s.Latency.Loop, s.LatencyRaw.Loop = "open", "open"
	s.Latency.Since, s.LatencyRaw.Since = "scheduled", "sent"
	return s
}

// explainTalk adds a hint to the error of a failed conversation.
func explainTalk(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, talk.ErrConfig):
		return outcome.Usage(err, "")
	case errors.Is(err, talk.ErrKey):
		return fault("the address must be the agent's; '--guest-nic' takes the one that it names", "%w", err)
	case errors.Is(err, talk.ErrPorts):
		return fault("sysctl -w net.ipv4.ip_local_port_range='1024 65535' gives more of them; fewer --connections "+
			"need fewer", "%w", err)
	}
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return fault("'ip route get ADDRESS' shows what way the kernel takes; the far end's address must be one that "+
			"this end can reach", "%w", err)
	}
	return err
}

// Close ends the conversation.
func (t *Talk) Close() error { return t.tearDown() }
