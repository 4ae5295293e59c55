package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/setting"
	"mpps/internal/traffic"
)

// ppsFlags are the flags of bench pps.
type ppsFlags struct {
	benchFlags
	via, rate, generator, sink, cpus, frame string
	out, gateway, gatewayMAC                string
	flows, clone, burst                     int
	latency, imix, twoWay                   bool
}

func (a *app) benchPPS() *cobra.Command {
	var f ppsFlags
	cmd := &cobra.Command{
		Use:   "pps",
		Short: "packets per second through a device, and where they are lost",
		Long: `Sends UDP frames as fast as possible, or at --rate, and counts those that
arrive: received, lost, duplicated, out of order. Generator and receiver are
measured alone first; a result that they limited exits with 5.

Between two interfaces of this machine, in whichever namespaces:
  mpps bench pps --from netns:A/veth0 --to netns:B/veth1
Into a guest, through a temporary port of its bridge:
  mpps bench pps --via br0 --agent 10.50.0.2:7878 --repeat 6 -o before.json
Out of a guest, at a rate:
  mpps bench pps --via br0 --agent 10.50.0.2:7878 --reverse --rate 100k
Through a guest that routes or bridges, between two bridges or interfaces:
  mpps bench pps --forward --via br0 --out br1 --gateway 198.18.0.254
To another host:
  mpps bench pps --from eth1 --agent 192.0.2.7:7878 --secret-file secret
Both ways at once, at a rate in each, with sizes as on the Internet:
  mpps bench pps --from eth1 --agent 192.0.2.7:7878 --two-way --imix --rate 100k

Test frames carry addresses of 198.18.0.0/15 (RFC 2544) and go to the far end's
MAC address; sizes count the FCS. --imix is CSIT's mix: of 48 frames 28 have 64
bytes, 16 have 570 and 4 have 1518. CPU cost is that of the whole machine, with
softirq and guest time, the generator included.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runPPS(cmd.Context(), &f) },
	}
	f.add(cmd)
	f.addPath(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.rate, "rate", "0", "packets per second, such as 100k; 0 is as fast as possible")
	flags.BoolVar(&f.latency, "latency", false, "stamp frames and tell their one-way delays; costs the generator speed (default: with --rate)")
	return cmd
}

// addPath adds the flags that say how packets are sent and counted.
func (f *ppsFlags) addPath(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.via, "via", "", "bridge of this host that leads to the agent, or with --forward to the guest")
	flags.BoolVar(&f.forward, "forward", false, "through a guest or router, from --from or --via to --to or --out")
	flags.StringVar(&f.out, "out", "", "with --forward: bridge of this host on the far side of the guest")
	flags.StringVar(&f.gateway, "gateway", "", "with --forward: the guest's address on the sending side, if it routes;\nits route to 198.19.0.1 is what is used, with --reverse that to 198.18.0.1")
	flags.StringVar(&f.gatewayMAC, "gateway-mac", "", "with --forward: its MAC address, instead of --gateway")
	flags.StringVar(&f.frame, "frame", "64", "frame size in bytes, with FCS: 64 to 1518, or imix")
	flags.BoolVar(&f.imix, "imix", false, "the same as --frame imix")
	flags.BoolVar(&f.twoWay, "two-way", false, "send in both directions at once; rates are those of each")
	flags.IntVar(&f.flows, "flows", 16, "distinct source addresses and ports")
	flags.StringVar(&f.generator, "generator", "auto", "auto, xdp, af_packet, or pktgen: the kernel's, if its module is loaded")
	flags.IntVar(&f.clone, "clone-skb", 0, "with pktgen: how often a frame is sent before the next is made;\nsuch frames have no sequence numbers of their own")
	flags.IntVar(&f.burst, "burst", 1, "with pktgen: copies of a frame handed over at once; as --clone-skb")
	flags.StringVar(&f.sink, "sink", "auto", "auto, xdp, xdp-skb or af_packet: name one for results that are to be compared")
	flags.StringVar(&f.cpus, "cpus", "", "CPUs that the generator runs on, one worker each (default: one of the first allowed)")
}

// plan turns the flags into a load, options and ends.
func (f *ppsFlags) plan() (load measure.Load, o rig.Options, err error) {
	if err := f.check(); err != nil {
		return load, o, err
	}
	if err := f.checkForward(); err != nil {
		return load, o, err
	}
	if f.via != "" && f.agent == "" && !f.forward {
		return load, o, usage(errors.New("--via leads to an agent, and none was given"), "add --agent HOST:PORT")
	}
	if f.agent != "" && (f.via == "") == (f.from == "") {
		return load, o, usage(errors.New("packets to an agent leave through a bridge or from an interface"), "give one of --via BRIDGE and --from IFACE")
	}
	rate, err := goal.ParseRate(f.rate)
	if err != nil {
		return load, o, usage(fmt.Errorf("--rate: %w", err), "")
	}
	switch f.generator {
	case "auto":
	case string(traffic.XDP), string(traffic.AFPacket), string(traffic.Pktgen):
		o.Generator = traffic.Method(f.generator)
	default:
		return load, o, usage(fmt.Errorf("--generator %q: expected auto, xdp, af_packet or pktgen", f.generator), "")
	}
	pktgen := o.Generator == traffic.Pktgen
	switch {
	case !pktgen && (f.changed("clone-skb") || f.changed("burst")):
		return load, o, usage(errors.New("--clone-skb and --burst belong to --generator pktgen"), "")
	case pktgen && f.latency:
		return load, o, usage(errors.New("pktgen's frames carry no time that delays could be told from"), "--generator xdp stamps frames")
	case f.clone < 0 || f.clone > 1<<20 || f.burst < 1 || f.burst > 4096:
		return load, o, usage(fmt.Errorf("--clone-skb %d and --burst %d: expected 0 to 1048576 and 1 to 4096", f.clone, f.burst), "")
	case pktgen:
		o.Clone, o.Burst = f.clone, f.burst
	}
	switch f.sink {
	case "auto":
	case string(traffic.XDP), string(traffic.XDPSkb), string(traffic.AFPacket):
		o.Sink = traffic.Method(f.sink)
	default:
		return load, o, usage(fmt.Errorf("--sink %q: expected auto, xdp, xdp-skb or af_packet", f.sink), "")
	}
	cpus, err := setting.ParseCPUs(f.cpus)
	if err != nil {
		return load, o, usage(fmt.Errorf("--cpus: %w", err), "")
	}
	o.CPUs = cpus
	frame, mix, err := f.sizes()
	if err != nil {
		return load, o, err
	}
	if f.twoWay && f.reverse {
		return load, o, usage(errors.New("--two-way and --reverse: both directions are measured, which leaves nothing to reverse"), "leave --reverse out")
	}
	load = measure.Load{
		Rate: rate, FrameBytes: frame, Mix: mix, TwoWay: f.twoWay, Flows: f.flows, Duration: f.duration, WarmUp: f.warmUp, Repeat: f.repeat,
		// One clock only, and not where it would cost the highest rate.
		Latency: f.agent == "" && !pktgen && (f.latency || rate > 0),
	}
	return load, o, rig.CheckLoad(load)
}

// sizes are the frame size, and the mix that it is the mean of, if it is.
func (f *ppsFlags) sizes() (frame int, mix string, err error) {
	if f.imix && f.changed("frame") && f.frame != rig.IMIX {
		return 0, "", usage(fmt.Errorf("--imix and --frame %s: expected one of them", f.frame), "")
	}
	if f.imix || f.frame == rig.IMIX {
		return rig.MixBytes(rig.IMIX), rig.IMIX, nil
	}
	frame, err = strconv.Atoi(f.frame)
	if err != nil {
		return 0, "", usage(fmt.Errorf("--frame %q: expected a size in bytes or %s", f.frame, rig.IMIX), "")
	}
	return frame, "", nil
}

func (a *app) runPPS(ctx context.Context, f *ppsFlags) error {
	load, o, err := f.plan()
	if err != nil {
		return err
	}
	return a.measured(ctx, measure.PPS, &f.benchFlags, load, func(m *rig.Machine, progress func(measure.Step)) (*gear, error) {
		p, err := f.path(ctx, m, load, o)
		if err != nil {
			return nil, err
		}
		b := &measure.Bench{Path: p, Progress: progress}
		return &gear{
			alone: b.Run, inTurns: b.Interleave, close: p.Close,
			ends: func(run *measure.Run) {
				run.From, run.To = p.From, p.To
				run.Environment.FarHost, run.Environment.FarKernel = p.FarHost, p.FarKernel
			},
			told: func(run *measure.Run) {
				run.Environment.Generator, run.Environment.Sink = p.Generator(), p.Sink()
				run.Warnings = append(run.Warnings, p.Warnings...)
			},
		}, nil
	})
}

// path puts the ends together.
func (f *ppsFlags) path(ctx context.Context, m *rig.Machine, load measure.Load, o rig.Options) (*rig.Path, error) {
	var from, to traffic.Endpoint
	var err error
	if f.from != "" {
		if from, err = traffic.ParseEndpoint(f.from); err != nil {
			return nil, usage(fmt.Errorf("--from: %w", err), "IFACE or netns:NAME/IFACE")
		}
	}
	if f.agent != "" {
		w := rig.With{Bridge: f.via, From: from, Reverse: f.reverse}
		if w.Agent, err = f.agentOptions(); err != nil {
			return nil, err
		}
		return rig.WithAgent(ctx, m, w, load, o)
	}
	if f.to != "" {
		if to, err = traffic.ParseEndpoint(f.to); err != nil {
			return nil, usage(fmt.Errorf("--to: %w", err), "IFACE or netns:NAME/IFACE")
		}
	}
	if f.forward {
		w := rig.Forward{From: from, To: to, Via: f.via, Out: f.out, Reverse: f.reverse}
		if w.Gateway, w.GatewayMAC, err = f.gateways(); err != nil {
			return nil, err
		}
		return rig.Through(ctx, m, w, load, o)
	}
	if f.reverse {
		from, to = to, from
	}
	return rig.Between(ctx, m, from, to, load, o)
}
