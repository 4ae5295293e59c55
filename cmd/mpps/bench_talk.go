package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
	"mpps/internal/ops/bench"
)

// talkFlags are the flags of bench rr, crr and stream.
type talkFlags struct {
	runFlags
	ends                           bench.Ends
	connections, request, response int
	udp                            bool
	rate                           float64
	timeout, ramp                  time.Duration
	sendfile                       bool
	engine                         string
	enginePort                     uint16
}

// maxBytes is the largest request or response, in bytes.
const maxBytes = 64 << 20

func (a *app) benchTalk(kind measure.Kind) *cobra.Command {
	var f talkFlags
	cmd := verb("rr", "measure transactions per second and their latency", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			load, err := f.load(kind)
			if err != nil {
				return err
			}
			return a.measure(cmd.Context(), kind, &f.runFlags, load,
				&bench.Talk{Ends: f.ends, Kind: kind, Engine: f.engine, Port: f.enginePort})
		})
	flags := cmd.Flags()
	f.add(cmd)
	addEnds(flags, &f.ends)
	cli.ChoiceVar(flags, &f.engine, "engine", bench.Ours, "traffic program: mpps, netperf or iperf3 (streams only), "+
		"if installed", bench.Ours, "netperf", "iperf3")
	flags.Uint16Var(&f.enginePort, "engine-port", 0, "with --agent: port of the engine's server (default: 12865 "+
		"netperf, 5201 iperf3)")
	cli.IntVar(flags, &f.connections, "connections", 1, 1, 1024, "concurrent TCP connections, 1 to 1024")
	if kind == measure.CRR {
		cmd.Use, cmd.Short = "crr", "measure TCP connections per second"
		cli.IntVar(flags, &f.request, "request", 1, 1, maxBytes,
			"request size in bytes; between two mpps at least 16 (the session's token)")
		cli.IntVar(flags, &f.response, "response", 1, 1, maxBytes, "response size in bytes")
		return cmd
	}
	if kind == measure.RR {
		cli.IntVar(flags, &f.request, "request", 1, 1, maxBytes,
			"request size in bytes (with --udp --rate: 8, a sequence number)")
		cli.IntVar(flags, &f.response, "response", 1, 1, maxBytes, "response size in bytes (with --udp --rate: 8)")
		flags.BoolVar(&f.udp, "udp", false, "use UDP instead of TCP")
		cli.ValueVar(flags, &f.rate, "rate", "",
			"transactions per second of an open loop, such as 10k; 0 is a closed loop", parseRate)
		cli.DurationVar(flags, &f.timeout, "timeout", time.Second, time.Millisecond, time.Hour,
			"time until a UDP request, or the last ones of a trial with --rate, count as lost")
		return cmd
	}
	cmd.Use, cmd.Short = "stream", "measure TCP throughput in bits per second"
	flags.BoolVar(&f.sendfile, "sendfile", false, "send with sendfile(2), without copying")
	flags.DurationVar(&f.ramp, "ramp", bench.StreamRamp, "start of each connection before --duration, not counted")
	return cmd
}

// load checks the flags against each other and returns the load.
func (f *talkFlags) load(kind measure.Kind) (measure.Load, error) {
	load := measure.Load{
		FrameBytes: traffic.MinFrame, Flows: f.connections, Connections: f.connections, Request: f.request,
		Response: f.response,
	}
	f.setTimes(&load)
	if kind == measure.Stream {
		load.Ramp, load.Sendfile = f.ramp, f.sendfile
	}
	switch err := cmp.Or(checkEnds(&f.ends, false), f.check()); {
	case err != nil:
		return load, err
	case f.ends.Agent != "" && f.ends.From != traffic.Endpoint{}:
		return load, usage(errors.New("the connection to an agent takes the route that this host has"),
			"leave --from out")
	case load.Ramp < 0 || load.Ramp > time.Hour || load.Ramp%time.Millisecond != 0:
		return load, usage(fmt.Errorf("--ramp %v: expected whole milliseconds up to 1h", f.ramp), "")
	case kind != measure.Stream && f.ends.Reverse:
		return load, usage(errors.New("transactions go both ways: there is nothing to reverse"), "")
	}
	if kind == measure.RR {
		if err := f.setTransactions(kind, &load); err != nil {
			return load, err
		}
	}
	if err := rig.CheckLoad(load); err != nil {
		return load, err
	}
	if err := f.checkEngine(kind, &load); err != nil {
		return load, err
	}
	load.FrameBytes, load.Flows = 0, 0
	return load, nil
}

// checkEngine checks what an external engine is asked for. Times that were not given default to what it can do.
func (f *talkFlags) checkEngine(kind measure.Kind, load *measure.Load) error {
	if f.engine == bench.Ours {
		if f.enginePort != 0 {
			return usage(errors.New("--engine-port belongs to --engine netperf or iperf3"), "")
		}
		return nil
	}
	if f.enginePort != 0 && f.ends.Agent == "" {
		return usage(errors.New("--engine-port belongs to --agent: otherwise the server is started here"), "")
	}
	if !f.set.Changed("warm-up") {
		load.WarmUp = time.Second
	}
	if kind == measure.Stream && !f.set.Changed("ramp") {
		load.Ramp = 0
		if f.engine == "iperf3" {
			load.Ramp = time.Second
		}
	}
	return rig.CheckEngine(f.engine, kind, *load)
}

// setTransactions fills in the parameters of transactions.
func (f *talkFlags) setTransactions(kind measure.Kind, load *measure.Load) error {
	rate := f.rate
	load.Rate, load.Protocol = rate, rig.TCP
	if kind == measure.CRR && f.engine == bench.Ours {
		load.Request = max(load.Request, rig.TokenBytes)
	}
	if f.udp {
		load.Protocol = rig.UDP
	}
	if f.udp || rate > 0 {
		load.Timeout = f.timeout
	}
	if !f.udp {
		return nil
	}
	if rate > 0 && !f.set.Changed("request") {
		load.Request = rig.NumberBytes
	}
	if rate > 0 && !f.set.Changed("response") {
		load.Response = rig.NumberBytes
	}
	switch n, m := load.Request, load.Response; {
	case max(n, m) > rig.MaxDatagram:
		return usage(fmt.Errorf("a request of %d and a response of %d bytes: a UDP datagram carries at most %d", n, m,
			rig.MaxDatagram), "")
	case rate > 0 && min(n, m) < rig.NumberBytes:
		return usage(fmt.Errorf("a request of %d and a response of %d bytes: with --udp --rate expected %d or more, "+
			"which hold a request's number", n, m, rig.NumberBytes), "")
	}
	return nil
}
