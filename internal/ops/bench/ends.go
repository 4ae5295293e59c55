package bench

import (
	"context"
	"net"
	"net/netip"

	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
)

// Ends are the two ends of a measurement.
type Ends struct {
	From, To   traffic.Endpoint // of this machine; zero: not given
	Agent      string           // HOST:PORT of the far end; empty: both ends are on this machine
	NIC        string           // the agent's interface; empty: the one with the agent's address
	SecretFile string
	Reverse    bool // the far end sends
}

// agent returns the options of the connection to the far end.
func (e *Ends) agent(version string) (rig.AgentOptions, error) {
	secret, err := Secret(e.SecretFile)
	return rig.AgentOptions{Address: e.Agent, NIC: e.NIC, Version: version, Secret: secret}, err
}

// Path is a path for test packets between two ends of this machine, or from this machine to an agent.
type Path struct {
	Ends
	More       []string // HOST:PORT of further agents that count or send at the same time, each by its address
	Via        string   // bridge of this host towards the agent, or with Forward towards the guest
	Forward    bool     // through a guest that forwards
	Out        string   // bridge of this host on the far side of the guest
	Gateway    netip.Addr
	GatewayMAC net.HardwareAddr
	Options    rig.Options
}

// Open sets the path up.
func (p *Path) Open(ctx context.Context, m *rig.Machine, load measure.Load, version string) (*rig.Path, error) {
	switch {
	case p.Agent != "":
		w := rig.With{Bridge: p.Via, From: p.From, Reverse: p.Reverse}
		var err error
		if w.Agent, err = p.agent(version); err != nil {
			return nil, err
		}
		for _, address := range p.More {
			more := w.Agent
			more.Address, more.NIC = address, ""
			w.More = append(w.More, more)
		}
		return rig.WithAgent(ctx, m, w, load, p.Options)
	case p.Forward:
		return rig.Through(ctx, m, rig.Forward{
			From: p.From, To: p.To, Via: p.Via, Out: p.Out, Reverse: p.Reverse, Gateway: p.Gateway,
			GatewayMAC: p.GatewayMAC,
		}, load, p.Options)
	case p.Reverse:
		return rig.Between(ctx, m, p.To, p.From, load, p.Options)
	}
	return rig.Between(ctx, m, p.From, p.To, load, p.Options)
}

func (p *Path) open(ctx context.Context, o openOptions) (*session, error) {
	path, err := p.Open(ctx, o.machine, o.load, o.version)
	if err != nil {
		return nil, err
	}
	b := &measure.Bench{Path: path, Progress: o.progress}
	return &session{
		run: b.Run, inTurns: b.Interleave, close: path.Close,
		before: func(run *measure.Run) {
			run.From, run.To = path.From, path.To
			run.Environment.FarHost, run.Environment.FarKernel = path.FarHost, path.FarKernel
		},
		after: func(run *measure.Run) {
			run.Environment.Generator, run.Environment.Sink = path.Generator(), path.Sink()
			run.Warnings = append(run.Warnings, path.Warnings...)
		},
	}, nil
}

// Ours is the built-in engine of a Talk.
const Ours = "mpps"

// Talk is a conversation over TCP or UDP: transactions or a stream.
type Talk struct {
	Ends
	Kind   measure.Kind
	Engine string // Ours, netperf or iperf3
	Port   uint16 // of the engine's server at the agent; 0: its default
}

func (t *Talk) connect(ctx context.Context, m *rig.Machine, version string) (*rig.Talk, error) {
	switch {
	case t.Agent == "" && t.Engine != Ours:
		return rig.EngineBetween(ctx, m, t.Engine, t.Kind, t.From, t.To, t.Reverse)
	case t.Agent == "":
		return rig.TalkBetween(m, t.Kind, t.From, t.To, t.Reverse)
	}
	o, err := t.agent(version)
	if err != nil {
		return nil, err
	}
	if t.Engine != Ours {
		return rig.EngineWithAgent(ctx, m, t.Engine, t.Kind, o, t.Port, t.Reverse)
	}
	return rig.TalkWithAgent(ctx, m, t.Kind, o, t.Reverse)
}

func (t *Talk) open(ctx context.Context, o openOptions) (*session, error) {
	talk, err := t.connect(ctx, o.machine, o.version)
	if err != nil {
		return nil, err
	}
	c := &measure.Conversation{Exchange: talk, Progress: o.progress}
	return &session{
		run: c.Run, inTurns: c.Interleave, close: talk.Close,
		before: func(run *measure.Run) {
			run.From, run.To = talk.From, talk.To
			run.Environment.FarHost, run.Environment.FarKernel = talk.FarHost, talk.FarKernel
			run.Environment.Engine = talk.Engine.Version()
		},
		after: func(*measure.Run) {},
	}, nil
}
