package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops/bench"
)

// addEnds adds the flags that name the ends of a measurement.
func addEnds(flags *pflag.FlagSet, e *bench.Ends) {
	cli.ValueVar(flags, &e.From, "from", "", "sending interface: IFACE or netns:NAME/IFACE", parseEndpoint)
	cli.ValueVar(flags, &e.To, "to", "", "receiving interface: IFACE or netns:NAME/IFACE", parseEndpoint)
	cli.TextVar(flags, &e.Agent, "agent", "", "'mpps agent' at the far end: HOST:PORT or unix:PATH", parseAgent)
	flags.StringVar(&e.NIC, "guest-nic", "", "interface of the agent (default: the one with its address)")
	flags.StringVar(&e.SecretFile, "secret-file", "", "file with the agent's secret, readable only by its owner")
	flags.BoolVar(&e.Reverse, "reverse", false, "reverse the direction: the far end sends")
}

// checkEnds refuses ends that contradict each other.
func checkEnds(e *bench.Ends, forward bool) error {
	const hint = "give --from and --to, or --agent"
	none := traffic.Endpoint{}
	switch here := e.Agent == "" && !forward; {
	case here && e.From == none && e.To == none:
		return usage(errors.New("nothing says between which ends to measure"), hint)
	case here && (e.From == none || e.To == none):
		return usage(errors.New("only one end was given"), hint)
	case e.Agent != "" && e.To != none:
		return usage(errors.New("--to and --agent both name the far end"), hint)
	case e.Agent == "" && (e.SecretFile != "" || e.NIC != ""):
		return usage(errors.New("--secret-file and --guest-nic belong to --agent"), hint)
	}
	return nil
}

// trafficFlags are the flags of bench pps, search and tune for the path and for how packets are sent and counted.
type trafficFlags struct {
	bench.Path
	flows           int
	sourceMACs      int
	generator, sink string
	cpus            setting.CPUSet
	packetFlags
	set *pflag.FlagSet
}

// packetFlags are the traffic flags that tune lacks.
type packetFlags struct {
	frame        frameSize
	imix, twoWay bool
	clone, burst int
}

// frameSize is a size of frames, or a mix of sizes.
type frameSize struct {
	bytes int
	mix   string
}

// add adds the flags of the path. cpus is the name of the flag for the generator's CPUs.
func (f *trafficFlags) add(flags *pflag.FlagSet, cpus string) {
	f.set = flags
	addEnds(flags, &f.Ends)
	flags.StringVar(&f.Via, "via", "", "bridge of this host to the agent, or with --forward to the guest")
	flags.BoolVar(&f.Forward, "forward", false, "measure through a guest or router, from --from or --via to --to or "+
		"--out")
	flags.StringVar(&f.Out, "out", "", "with --forward: bridge of this host on the far side of the guest")
	cli.ValueVar(flags, &f.Gateway, "gateway", "", "with --forward: IPv4 address of a routing guest on the sending "+
		"side; it needs a route to 198.19.0.1 (with --reverse: 198.18.0.1)", parseIPv4)
	cli.ValueVar(flags, &f.GatewayMAC, "gateway-mac", "", "with --forward: MAC address of that guest, instead of "+
		"--gateway",
		parseMAC)
	cli.IntVar(flags, &f.flows, "flows", 16, 1, rig.MaxFlows, "number of flows (distinct source addresses and ports)")
	cli.IntVar(flags, &f.sourceMACs, "source-macs", 1, 1, traffic.MaxSourceMACs, "number of source MAC addresses "+
		"that the frames take in turn; not with xdp")
	cli.ChoiceVar(flags, &f.generator, "generator", "auto",
		"traffic generator: auto, xdp, af_packet, or pktgen (needs its kernel module); of agents that send, fastest "+
			"takes "+
			"pktgen with clones where XDP is not possible",
		"auto", string(traffic.XDP), string(traffic.AFPacket), string(traffic.Pktgen), string(rig.Fastest))
	cli.ChoiceVar(flags, &f.sink, "sink", "auto",
		"receiver: auto, xdp, xdp-skb or af_packet; set one to compare results",
		"auto", string(traffic.XDP), string(traffic.XDPSkb), string(traffic.AFPacket))
	cli.ValueVar(flags, &f.cpus, cpus, "",
		"CPUs for the generator, one worker per CPU (default: the first allowed one; of an agent that sends, one for "+
			"each transmit queue)", parseCPUs)
	f.burst = 1
}

// addPackets adds the flags for the packets to send.
func (f *trafficFlags) addPackets(flags *pflag.FlagSet) {
	cli.ValueVar(flags, &f.frame, "frame", "64", "frame size in bytes, including FCS: 64 to 1518, or imix",
		func(text string) (frameSize, error) {
			if text == rig.IMIX {
				return frameSize{rig.MixBytes(rig.IMIX), rig.IMIX}, nil
			}
			n, err := strconv.Atoi(text)
			if err != nil {
				err = fmt.Errorf(" %q: expected a size in bytes or %s", text, rig.IMIX)
			}
			return frameSize{bytes: n}, err
		})
	flags.BoolVar(&f.imix, "imix", false, "same as --frame imix")
	flags.BoolVar(&f.twoWay, "two-way", false, "send in both directions at once; rates are per direction")
	flags.StringSliceVar(&f.More, "more-agents", nil,
		"HOST:PORT of further agents that count, or with --reverse send, "+
			"at the same time; rates are the sum")
	checkAgents(flags, "more-agents")
	cli.IntVar(flags, &f.clone, "clone-skb", 0, 0, 1<<20, "with pktgen: copies sent of each frame; copies share a "+
		"sequence number")
	cli.IntVar(flags, &f.burst, "burst", 1, 1, 4096, "with pktgen: copies of a frame per transmit call; see "+
		"--clone-skb")
}

// pathFlagNames are the flags of our own generator, except the one for its CPUs.
var pathFlagNames = []string{"from", "to", "via", "agent", "guest-nic", "secret-file", "reverse", "generator", "sink",
	"flows", "imix", "two-way", "more-agents", "forward", "out", "gateway", "gateway-mac", "clone-skb", "burst"}

// size returns the size of frames.
func (f *trafficFlags) size() (frameSize, error) {
	if f.imix && f.set.Changed("frame") && f.frame.mix == "" {
		return f.frame, usage(fmt.Errorf("--imix and --frame %d: expected one of them", f.frame.bytes), "")
	}
	if f.imix {
		return frameSize{rig.MixBytes(rig.IMIX), rig.IMIX}, nil
	}
	return f.frame, nil
}

// load checks the flags against each other and returns the load. Its rate, duration and trials are the caller's.
func (f *trafficFlags) load(latency bool) (measure.Load, error) {
	var load measure.Load
	pktgen := f.generator == string(traffic.Pktgen)
	switch err := cmp.Or(checkEnds(&f.Ends, f.Forward), f.checkForward()); {
	case err != nil:
		return load, err
	case f.Via != "" && f.Agent == "" && !f.Forward:
		return load, usage(errors.New("--via leads to an agent, and none was given"), "add --agent HOST:PORT")
	case f.Agent != "" && (f.Via == "") == (f.From == traffic.Endpoint{}):
		return load, usage(errors.New("packets to an agent leave through a bridge or from an interface"),
			"give one of --via BRIDGE and --from IFACE")
	case !pktgen && (f.set.Changed("clone-skb") || f.set.Changed("burst")):
		return load, usage(errors.New("--clone-skb and --burst belong to --generator pktgen"), "")
	case f.generator == string(rig.Fastest) && (f.Agent == "" || !f.Reverse):
		return load, usage(errors.New("--generator fastest chooses for agents that send"),
			"add --agent HOST:PORT --reverse, or leave it out")
	case len(f.More) > 0 && f.Agent == "":
		return load, usage(errors.New("--more-agents are beside --agent, and none was given"), "")
	case pktgen && latency:
		return load, usage(errors.New("pktgen's frames carry no time that delays could be told from"),
			"--generator xdp stamps frames")
	case f.twoWay && f.Reverse:
		return load, usage(errors.New("--two-way and --reverse: both directions are measured, which leaves nothing "+
			"to reverse"), "leave --reverse out")
	}
	size, err := f.size()
	if err != nil {
		return load, err
	}
	f.Options.Generator, f.Options.Sink = bench.ParseMethod(f.generator), bench.ParseMethod(f.sink)
	f.Options.CPUs = f.cpus
	if pktgen {
		f.Options.Clone, f.Options.Burst = f.clone, f.burst
	}
	sources := f.sourceMACs
	if sources == 1 {
		sources = 0 // nothing to say
	}
	return measure.Load{FrameBytes: size.bytes, Mix: size.mix, TwoWay: f.twoWay, Flows: f.flows,
		SourceMACs: sources}, nil
}

// checkForward checks the flags of a path through a device that forwards.
func (f *trafficFlags) checkForward() error {
	const hint = "bench pps --forward (--from IFACE | --via BRIDGE) (--to IFACE | --out BRIDGE) [--gateway IP]"
	none := traffic.Endpoint{}
	switch {
	case !f.Forward && (f.Out != "" || f.Gateway.IsValid() || f.GatewayMAC != nil):
		return usage(errors.New("--out, --gateway and --gateway-mac belong to --forward"), hint)
	case !f.Forward:
		return nil
	case f.Agent != "":
		return usage(errors.New("--forward leads from one end of this machine to another, and --agent to another "+
			"machine"), hint)
	case (f.From == none) == (f.Via == ""):
		return usage(errors.New("packets leave from an interface or through a bridge"), hint)
	case (f.To == none) == (f.Out == ""):
		return usage(errors.New("packets arrive at an interface or through a bridge"), hint)
	case f.Gateway.IsValid() && f.GatewayMAC != nil:
		return usage(errors.New("--gateway and --gateway-mac: expected one of them"), hint)
	}
	return nil
}

// trialFlags are the flags of search and tune for an external program that runs the trials.
type trialFlags struct {
	command string
	grace   time.Duration
	maxPPS  float64
}

func (f *trialFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.command, "trial-command", "", "program that runs the trials, with arguments (docs/search.md)")
	cli.CheckLater(flags, "trial-command", isProgram)
	cli.DurationVar(flags, &f.grace, "trial-grace", time.Minute, 1, 0,
		"how long to wait for the program's answer after a trial")
	cli.ValueVar(flags, &f.maxPPS, "max-pps", "", "highest load in packets per second, such as 14.88M (default: what "+
		"the mpps generator can send)",
		parsePositiveRate)
}

// check refuses contradicting flags. cpus is the name of the flag for our own generator's CPUs, highest the highest
// load that the flags name, in packets per second; 0: none.
func (f *trialFlags) check(set *pflag.FlagSet, cpus string, highest float64) error {
	if f.command == "" {
		if set.Changed("trial-grace") {
			return usage(errors.New("--trial-grace belongs to --trial-command"), "")
		}
		return nil
	}
	for _, name := range append(pathFlagNames, cpus) {
		if set.Changed(name) {
			return usage(fmt.Errorf("--trial-command and --%s: expected one of them", name),
				"the program knows its own ends")
		}
	}
	if highest == 0 {
		return usage(errors.New("--trial-command needs --max-pps: nothing else says how much it can send"),
			"64-byte frames fill 10 Gbit/s at 14.88M")
	}
	return nil
}

// addInterval adds the flag for how long counters are watched.
func addInterval(flags *pflag.FlagSet, to *time.Duration) {
	cli.DurationVar(flags, to, "interval", 0, 0, time.Hour, "first watch counters for this long, such as 2s")
}

// addKeep adds the flags for where a result is saved.
func addKeep(flags *pflag.FlagSet, k *bench.Keep, what string) {
	cli.OutputVar(flags, &k.File, "output,o", "", "write the "+what+" to this file")
	flags.BoolVar(&k.Runs, "keep", true, "store the "+what+" in /var/lib/mpps/runs")
}

func parseRate(text string) (float64, error) { return cli.AfterColon(goal.ParseRate(text)) }

// parsePositiveRate reads a rate above 0.
func parsePositiveRate(text string) (float64, error) {
	v, err := goal.ParseRate(text)
	if err == nil && v <= 0 {
		err = fmt.Errorf("expected more than nothing, found %q", text)
	}
	return cli.AfterColon(v, err)
}

func parseCPUs(text string) (setting.CPUSet, error) {
	set, err := setting.ParseCPUs(text)
	if err == nil && len(set) == 0 {
		err = errors.New("expected CPUs such as 1 or 2-3")
	}
	return cli.AfterColon(set, err)
}

func parseEndpoint(text string) (traffic.Endpoint, error) {
	return cli.AfterColon(traffic.ParseEndpoint(text))
}

// parseAgent reads the address of an agent.
func parseAgent(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err == nil && (host == "" || strings.Trim(port, "0") == "") {
		return text, fmt.Errorf(" %q: expected HOST:PORT", text)
	}
	return parseListen(text)
}

// parseListen reads an address to listen on: any host where there is none, any free port where it is 0.
func parseListen(text string) (string, error) {
	_, port, err := net.SplitHostPort(text)
	_, bad := strconv.ParseUint(port, 10, 16)
	if path, unix := strings.CutPrefix(text, "unix:"); unix && path != "" || err == nil && bad == nil {
		return text, nil
	}
	return text, fmt.Errorf(" %q: expected HOST:PORT or unix:PATH", text)
}

// checkAgents has a flag for several agents checked.
func checkAgents(flags *pflag.FlagSet, name string) {
	cli.Check(flags, name, func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			if _, err := parseAgent(one); err != nil {
				return err
			}
		}
		return nil
	})
}

func parseIPv4(text string) (netip.Addr, error) {
	ip, err := netip.ParseAddr(text)
	if err != nil || !ip.Is4() {
		return ip, fmt.Errorf(" %q: expected an IPv4 address", text)
	}
	return ip, nil
}

// parseMAC reads the MAC address of one interface.
func parseMAC(text string) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, fmt.Errorf(" %q: expected the MAC address of an interface", text)
	}
	return mac, nil
}
