package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/measure/acceptance"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/goal"
	"mpps/internal/ops/bench"
	"mpps/internal/report/founding"
)

// acceptanceFlags are the flags of acceptance.
type acceptanceFlags struct {
	acceptance.Inputs
	output               string
	list, dryRun, resume bool
	set                  *pflag.FlagSet
}

func (a *app) acceptanceCommand() *cobra.Command {
	var f acceptanceFlags
	cmd := &cobra.Command{
		Use:   "acceptance [NAME…|all]",
		Short: "repeat a founding experiment on your hardware and report it",
		Args:  func(_ *cobra.Command, names []string) error { return f.checkNames(names) },
		RunE: func(cmd *cobra.Command, names []string) error {
			if f.list {
				name, _ := os.Hostname() // an answer without it is as good
				return a.out.Answer(founding.List(name))
			}
			chosen := chosenExperiments(names)
			if err := f.check(); err != nil {
				return err
			}
			if f.dryRun {
				return a.acceptanceDryRun(cmd.Context(), &f, chosen)
			}
			return a.accept(cmd.Context(), &f, chosen)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

func (f *acceptanceFlags) add(flags *pflag.FlagSet) {
	f.set = flags
	flags.StringVarP(&f.output, "output", "o", "acceptance", "report directory; adds to an existing report")
	flags.BoolVar(&f.list, "list", false, "list experiments")
	flags.BoolVar(&f.dryRun, "dry-run", false, "print the commands and what they change; run nothing")
	flags.BoolVar(&f.resume, "resume", false, "continue the last run with its own flags")
	flags.BoolVar(&f.Keep, "keep", false, "keep the changes; 'mpps rollback' undoes them")
	flags.BoolVar(&f.NoReboot, "no-reboot", false, "skip steps that need a host reboot")
	flags.BoolVar(&f.Short, "short", false, "few and short trials, to check the setup")
	flags.StringVar(&f.Guest, "guest", "", "guest to measure")
	flags.StringSliceVar(&f.Consent, "consent", nil, "risks to accept: security, data, connectivity")
	cli.TextVar(flags, &f.From, "from", "", "sending interface: IFACE or netns:NAME/IFACE", parseEndpoint)
	cli.TextVar(flags, &f.To, "to", "", "receiving interface behind a guest that routes", parseEndpoint)
	flags.StringVar(&f.Via, "via", "", "bridge of this host to the guest")
	flags.StringVar(&f.Out, "out", "", "bridge of this host behind a guest that routes")
	cli.TextVar(flags, &f.Gateway, "gateway", "", "IPv4 address of a guest that routes, on the sending side", parseIPv4)
	cli.TextVar(flags, &f.Agent, "agent", "", "HOST:PORT of 'mpps agent' in the guest", parseAgent)
	flags.StringVar(&f.SecretFile, "secret-file", "", "file with the agents' secret")
	cli.ChoiceVar(flags, &f.Generator, "generator", "", "traffic generator: xdp, af_packet or pktgen (default: the "+
		"fastest that works)",
		string(traffic.XDP), string(traffic.AFPacket), string(traffic.Pktgen))
	cli.ChoiceVar(flags, &f.Sink, "sink", "", "receiver: xdp, xdp-skb or af_packet (default: the fastest that works)",
		string(traffic.XDP), string(traffic.XDPSkb), string(traffic.AFPacket))
	cli.TextVar(flags, &f.SendOn, "generator-cpus", "", "CPUs for the generator, such as 2-3", parseCPUs)
	flags.StringVar(&f.Trial, "trial-command", "", "adapter program of another generator, as for 'mpps search'")
	cli.ListVar(flags, &f.HostTrials, "host-trial", "throughput: the same with the host itself forwarding, as "+
		"`KIND=COMMAND`: l3, l2, vxlan or dpdk; repeatable", func(text string) (string, error) {
		_, _, err := acceptance.ParseHostTrial(text)
		return text, err
	})
	cli.TextVar(flags, &f.MaxPPS, "max-pps", "", "highest load in packets "+
		"per second, such as 14.88M", parsePositiveRate)
	flags.BoolVar(&f.Compliant, "compliant", false, "throughput: prove rates with 60 s trials (RFC 2544)")
	cli.TextVar(flags, &f.PPS, "pps", "1.8M", "throughput: target of the "+
		"plan, in packets per second", parsePositiveRate)
	cli.IntVar(flags, &f.Queues, "queues", 9, 2, 256, "queues: queue pairs of the guest, 2 to 256")
	flags.BoolVar(&f.Container, "container", false,
		"queues: a network namespace takes the guest's place; one queue, then "+
			"many, nothing is changed")
	flags.StringVar(&f.NIC, "nic", "", "queues: NIC under the tunnel (default: all)")
	flags.StringVar(&f.PF, "pf", "", "sriov: physical function, such as ens1f0")
	cli.TextVar(flags, &f.VFAgent, "vf-agent", "", "sriov: HOST:PORT of the agent through the VF", parseAgent)
	cli.TextVar(flags, &f.TunnelAgent, "tunnel-agent", "", "sriov: HOST:PORT of the agent through a VXLAN", parseAgent)
	flags.StringSliceVar(&f.MoreVFAgents, "more-vf-agents", nil,
		"sriov: agents of other guests on functions of the card, "+
			"to measure all at once")
	checkAgents(flags, "more-vf-agents")
	cli.TextVar(flags, &f.VFTunnelAgent, "vf-tunnel-agent", "",
		"sriov: HOST:PORT of the agent through a VXLAN that ends in the guest, over the VF", parseAgent)
	cli.TextVar(flags, &f.TunnelFrom, "tunnel-from", "", "sriov: interface that sends into the VXLAN", parseEndpoint)
	cli.ListVar(flags, &f.Modes, "mode", "modes: one mode as `NAME=HOST:PORT,from=IFACE`, see 'mpps bench modes'; "+
		"repeatable",
		func(text string) (string, error) {
			_, err := bench.ParseMode(text)
			return text, err
		})
	flags.BoolVar(&f.MakeGuests, "make-guests", false, "modes: make guests for e1000, virtio and vhost "+
		"on the bridge of --via, unless --mode names one, and remove them at the end")
	cli.TextVar(flags, &f.GuestAddress, "guest-address", "", "modes: with --make-guests, the first of as many free "+
		"addresses, such as 10.0.0.10/24", acceptance.ParseGuestAddress)
	cli.ChoiceVar(flags, &f.Engine, "engine", "",
		"modes: traffic program: netperf, as then, or iperf3 (streams only); "+
			"its server runs in every guest (default: mpps)", "netperf", "iperf3")
	cli.TextVar(flags, &f.Trials, "trials", "", "number and length of the trials of a rate, such as 3x60s, as netperf "+
		"then (default: 12x10s)", parseTrials)
	cli.TextVar(flags, &f.Latency, "latency", "20us", "realtime: target of the plan, wake-up latency", cli.ParseTime)
	cli.TextVar(flags, &f.GuestCPU, "guest-cpu", "", "realtime: vCPU to measure (default: the last)", parseCPUs)
	cli.TextVar(flags, &f.CPUs, "cpus", "", "realtime: host CPUs for the guest alone, such as 20-23", parseCPUs)
}

func parseTrials(text string) (string, error) {
	_, _, err := acceptance.ParseTrials(text)
	return cli.AfterColon(text, err)
}

// checkNames refuses names that are not experiments.
func (f *acceptanceFlags) checkNames(names []string) error {
	hint := "experiments: " + strings.Join(acceptance.Names(), ", ") + ", or all"
	switch {
	case f.list && len(names) > 0:
		return usage(errors.New("--list and a name: expected one of them"), "")
	case f.list:
		return nil
	case len(names) == 0:
		return usage(errors.New("nothing says which experiment to repeat"), hint)
	case slices.Contains(names, "all") && len(names) > 1:
		return usage(errors.New("all and a name: expected one of them"), hint)
	}
	for i, name := range names {
		if name != "all" && acceptance.Find(name) == nil {
			return usage(fmt.Errorf("no experiment %q", name), hint)
		}
		if slices.Contains(names[:i], name) {
			return usage(fmt.Errorf("%s is named twice", name), "")
		}
	}
	return nil
}

// chosenExperiments returns the experiments that were named.
func chosenExperiments(names []string) []*acceptance.Experiment {
	if slices.Equal(names, []string{"all"}) {
		return acceptance.All()
	}
	var chosen []*acceptance.Experiment
	for _, name := range names {
		chosen = append(chosen, acceptance.Find(name))
	}
	return chosen
}

// resumeFlags are the flags allowed with --resume: the others are in the report.
var resumeFlags = []string{"output", "resume", "keep", "dry-run", "json", "quiet", "no-color", "verbose", "root"}

// check refuses contradicting flags, and values that a step would refuse later.
func (f *acceptanceFlags) check() error {
	var wrong error
	if f.resume {
		f.set.Visit(func(flag *pflag.Flag) {
			if wrong == nil && !slices.Contains(resumeFlags, flag.Name) {
				wrong = usage(fmt.Errorf("--resume and --%s: the run has its own flags", flag.Name),
					"without --resume a new run is begun")
			}
		})
	}
	switch {
	case wrong != nil:
		return wrong
	case f.resume && f.dryRun:
		return usage(errors.New("--resume and --dry-run: expected one of them"), "")
	}
	if f.GuestAddress != "" && !f.MakeGuests {
		return usage(errors.New("--guest-address without --make-guests: no guest is made"), "")
	}
	for _, risk := range f.Consent {
		if !slices.Contains(goal.Risks(), goal.Risk(risk)) {
			return usage(fmt.Errorf("--consent %s: expected security, data or connectivity", risk), "")
		}
	}
	return nil
}

// inputs returns the inputs that the flags give, with absolute file names, so that every step finds them.
func (f *acceptanceFlags) inputs() (acceptance.Inputs, error) {
	in := f.Inputs.Defaults()
	if in.SecretFile != "" {
		absolute, err := filepath.Abs(in.SecretFile)
		if err != nil {
			return in, err
		}
		in.SecretFile = absolute
	}
	return in, nil
}
