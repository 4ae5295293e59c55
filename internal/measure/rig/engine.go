package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/engine"
)

// Iperf3 is the engine that makes streams alone, and can leave out their first seconds.
const Iperf3 = string(engine.Iperf3)

// Engine is another program that makes the traffic of a conversation.
type Engine struct {
	program engine.Program
	target  engine.Target
}

// Version returns the program's name and version; empty for none.
func (e *Engine) Version() string {
	if e == nil {
		return ""
	}
	return e.program.Version
}

// CheckEngine rejects what a program cannot do, before anything starts.
func CheckEngine(name string, kind measure.Kind, load measure.Load) error {
	whole := func(d time.Duration) bool { return d%time.Second == 0 }
	switch {
	case engine.Name(name) != engine.Netperf && engine.Name(name) != engine.Iperf3:
		return usage("", "engine %q: expected mpps, netperf or iperf3", name)
	case engine.Name(name) == engine.Iperf3 && kind != measure.Stream:
		return usage("netperf does", "iperf3 makes no transactions")
	case load.Rate > 0:
		return usage("leave --engine out", "%s makes transactions in a closed loop only, without --rate", name)
	case !whole(load.Duration) || !whole(load.Ramp) || !whole(load.WarmUp):
		return usage("--duration, --ramp and --warm-up in whole seconds, such as 5s", "a duration of %v, a ramp of "+
			"%v and a warm-up of %v: %s takes whole seconds", load.Duration, load.Ramp, load.WarmUp, name)
	case engine.Name(name) == engine.Netperf && load.Ramp > 0:
		return usage("--ramp 0s", "netperf cannot leave out the ramp-up of a stream")
	case engine.Name(name) == engine.Netperf && load.Sendfile:
		return usage("--engine iperf3 can", "netperf needs its own file for sendfile")
	case load.Ramp > time.Minute:
		return usage("", "a ramp of %v: iperf3 leaves out 60 s at most", load.Ramp)
	case engine.Name(name) == engine.Iperf3 && load.Connections > 128:
		return usage("", "%d connections: iperf3 makes 128 at most", load.Connections)
	}
	return nil
}

// EngineBetween sets up a conversation between two network namespaces of this machine, with an engine at both ends.
func EngineBetween(ctx context.Context, m *Machine, name string, kind measure.Kind, from, to traffic.Endpoint,
	reverse bool) (*Talk, error) {
	source, target, address, err := twoEnds(from, to)
	if err != nil {
		return nil, err
	}
	program, err := findEngine(ctx, name)
	if err != nil {
		return nil, err
	}
	server, err := program.Serve(ctx, to.Netns, address, from.Netns)
	if err != nil {
		return nil, explainEngine(program.Name, err)
	}
	m.count("", from.Netns, to.Netns)
	t := &Talk{
		setup: setup{machines: machines{m}, From: endpoint(source), To: endpoint(target),
			undo: []func() error{server.Close}},
		kind: kind, reverse: reverse,
		Engine: &Engine{program: program, target: engine.Target{Netns: from.Netns, Addr: server.Addr}},
	}
	t.To.Address = server.Addr
	return t, nil
}

// EngineWithAgent sets up a conversation with an engine's server on an agent's machine, at the program's default port
// or the given one. The agent reports that machine's CPU times and counters; it starts no programs.
func EngineWithAgent(ctx context.Context, m *Machine, name string, kind measure.Kind, o AgentOptions, port uint16,
	reverse bool) (*Talk, error) {
	program, err := findEngine(ctx, name)
	if err != nil {
		return nil, err
	}
	t, f, host, err := talkWithAgent(ctx, m, kind, o, m.silence(false, false), reverse)
	if err != nil {
		return nil, err
	}
	if o.NIC != "" {
		if err := proveAddress(ctx, f, host, o.Netns); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	if port == 0 {
		port = program.Name.Port()
	}
	t.To.Address = net.JoinHostPort(host, strconv.Itoa(int(port)))
	if err := engine.Reach(ctx, o.Netns, t.To.Address); err != nil {
		return nil, errors.Join(explainEngine(program.Name, err), t.Close())
	}
	t.Engine = &Engine{program: program, target: engine.Target{Netns: o.Netns, Addr: t.To.Address}}
	t.From.Where = place(o.Netns)
	m.count("", o.Netns)
	return t, nil
}

// proveAddress returns an error unless an address that an agent named is its own, from a namespace of this machine:
// programs that make the traffic do not ask who answers them.
func proveAddress(ctx context.Context, f *far, host, netns string) error {
	server, err := f.client.ServeTCP(ctx, "", net.JoinHostPort(host, "0"))
	if err != nil {
		return explain(err)
	}
	return errors.Join(explainTalk(server.Target(netns).Prove(ctx)), server.Close())
}

func findEngine(ctx context.Context, name string) (engine.Program, error) {
	program, err := engine.Find(ctx, engine.Name(name))
	return program, explainEngine(program.Name, err)
}

func explainEngine(name engine.Name, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, engine.ErrMissing):
		return fault("install the package "+string(name)+", or leave --engine out", "%w", err)
	case errors.Is(err, engine.ErrOld):
		return fault("netperf since 2.5 and iperf3 since 3.0 do; leave --engine out", "%w", err)
	case errors.Is(err, engine.ErrUnreachable):
		return fault("start '"+name.Server()+"' there; --engine-port says where it listens", "%s: %w", name.Server(),
			err)
	}
	return err
}

// talk has the engine run the load once.
func (e *Engine) talk(ctx context.Context, kind measure.Kind, load measure.Load, reverse bool) (measure.Sample, error) {
	target := e.target
	target.Conns = max(1, load.Connections)
	seconds := func(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }
	if kind == measure.Stream {
		s, err := e.program.Stream(ctx, target, engine.StreamConfig{
			Seconds: seconds(load.Duration), Omit: seconds(load.Ramp), Reverse: reverse, Sendfile: load.Sendfile,
		})
		return measure.Sample{
			Seconds: s.Elapsed.Seconds(), Bytes: s.Bytes, RampBytes: s.Omitted, BitsPerS: s.BitsPerS,
			Retransmits: s.Retransmits,
		}, explainEngine(e.program.Name, err)
	}
	r, err := e.program.Transactions(ctx, target, engine.RR{
		Seconds: seconds(load.Duration), Request: load.Request, Response: load.Response, UDP: load.Protocol == UDP,
		Connect: kind == measure.CRR,
	})
	// The program reports a rate; the number follows from it.
	n := uint64(r.PerSecond*r.Elapsed.Seconds() + 0.5)
	s := measure.Sample{Seconds: r.Elapsed.Seconds(), TPS: r.PerSecond, Transactions: n, Sent: n, Received: n,
		Retransmits: r.Retransmits}
	s.Latency = delaysOf(r.Delays, n)
	if load.Protocol == UDP {
		s.Warnings = append(s.Warnings, measure.Warning{Code: "losses-not-told",
			Text: fmt.Sprintf("%s does not tell lost requests over UDP, and waits for their answers to the end",
				e.program.Version),
			Hint: "leave --engine out to see them"})
	}
	return s, explainEngine(e.program.Name, err)
}

// delaysOf returns a latency of which only some percentiles are known.
func delaysOf(d *engine.Delays, n uint64) *measure.Latency {
	if d == nil || n == 0 {
		return nil
	}
	return &measure.Latency{
		What: "round-trip", Loop: "closed", Count: n,
		MinNs: uint64(d.Min), MeanNs: float64(d.Mean), MaxNs: uint64(d.Max),
		Percentiles: []measure.Percentile{{P: 50, ValueNs: uint64(d.P50)}, {P: 90, ValueNs: uint64(d.P90)},
			{P: 99, ValueNs: uint64(d.P99)}},
		Buckets: []measure.Bucket{},
	}
}
