package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/setting"
	"mpps/internal/traffic"
)

// modesFlags are the flags of bench modes.
type modesFlags struct {
	modes                []string
	native               string
	lab                  bool
	only, workloads      []string
	repeat, interval     string
	duration, warmUp     time.Duration
	budget               time.Duration
	frame, flows         int
	connections          int
	generator, sink      string
	cpus                 string
	secretFile           string
	seed                 uint64
	name, output         string
	checkpoint, resume   string
	notes                []string
	keep                 bool
	changed              func(string) bool
	resumedFrom          int64 // bytes of the file that stand
	stamp                time.Time
	forgottenWhenItEnded bool // the checkpoint is of no use once the result is saved
}

func (a *app) benchModes() *cobra.Command {
	var f modesFlags
	cmd := &cobra.Command{
		Use:   "modes",
		Short: "NIC modes side by side: e1000, virtio, vhost, VF, native",
		Long: `Measures guests whose NICs are made in different ways, side by side: TCP stream
and transactions of each in percent of the native mode, packets per second,
latency, CPU idle and CPU time per packet. The modes are taken in turns, in
blocks shuffled by a seed, so that what drifts falls on all of them alike. ndr
is the highest rate without loss, by a search each (see 'mpps search').

On this host, every mode a running guest with 'mpps agent' in it; native is an
agent without virtualization, such as on a second NIC in a namespace:
  mpps bench modes --mode native=A:7878,from=eth1 --mode vf=B:7878,from=eth1
  mpps bench modes --mode vhost=C:7878,via=br0 --repeat 8,20 -I 99,5
All of it in a KVM host in a box, which is booted and ended:
  mpps bench modes --lab
A campaign that was interrupted goes on where it was:
  mpps bench modes --resume FILE

Of a mode: via=BRIDGE sends test frames through a temporary port of a bridge,
from=IFACE or from=netns:NAME/IFACE from an interface; TCP then starts from its
namespace too. guest-nic=IFACE names the agent's interface. frozen=PIDFILE says
that the guest's process is stopped: it runs only while it is measured.

-I 99,5 goes on, up to the larger number of --repeat, until the interval of
99 % confidence is no wider than 5 % of the median, for each mode and workload.

What would spoil the result (frequency governor, other load, stolen time, heat,
a generator too slow) is looked at and told with it. Nothing is started on this
host, and nothing stopped.

Exit codes: 0 measured · 1 failed, or ended early · 64 usage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.changed, f.stamp = cmd.Flags().Changed, time.Now().UTC()
			if f.lab {
				return a.modesInLab(cmd.Context(), &f)
			}
			return a.runModes(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.modes, "mode", nil, "`NAME=HOST:PORT` of a mode's agent, with ,via= ,from= and the like; repeated")
	flags.StringVar(&f.native, "native", "native", "the mode that is 100 %")
	flags.BoolVar(&f.lab, "lab", false, "boot a KVM host in a box and measure its guests")
	flags.StringSliceVar(&f.only, "only", nil, "with --lab: these modes only (default: all; native is always there)")
	flags.StringSliceVar(&f.workloads, "workloads", workloadNames(), "what is measured of each mode")
	flags.StringVar(&f.repeat, "repeat", "3", "samples of each mode and workload: N, or MIN,MAX with -I")
	flags.StringVarP(&f.interval, "interval", "I", "", "LEVEL,WIDTH in percent, as netperf has it: sample until the interval is so narrow")
	flags.DurationVar(&f.duration, "duration", 5*time.Second, "of one sample (default with --lab: 1s)")
	flags.DurationVar(&f.warmUp, "warm-up", 500*time.Millisecond, "traffic before each sample, not counted (default with --lab: 200ms)")
	flags.DurationVar(&f.budget, "search-budget", 30*time.Second, "ndr: most traffic of a search (default with --lab: 10s)")
	flags.IntVar(&f.frame, "frame", 64, "pps: frame size in bytes, with FCS: 64 to 1518")
	flags.IntVar(&f.flows, "flows", 16, "pps: distinct source addresses and ports")
	flags.IntVar(&f.connections, "connections", 1, "stream, rr: TCP connections at a time, 1 to 1024")
	flags.StringVar(&f.generator, "generator", "auto", "pps: auto, xdp or af_packet")
	flags.StringVar(&f.sink, "sink", string(traffic.XDPSkb), "pps: xdp-skb, which every driver can, xdp or af_packet (default with --lab)")
	flags.StringVar(&f.cpus, "cpus", "", "pps: CPUs that the generator runs on, one worker each")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret that the agents were given")
	flags.Uint64Var(&f.seed, "seed", 0, "of the order (default: by lot)")
	flags.StringVar(&f.name, "name", "", "a label for the result")
	flags.StringArrayVar(&f.notes, "note", nil, "a sentence about the set-up that is kept with the result; repeated")
	flags.StringVarP(&f.output, "output", "o", "", "write the result to this file")
	flags.BoolVar(&f.keep, "keep", true, "keep the result, and until it is complete each sample, in /var/lib/mpps/runs")
	flags.StringVar(&f.checkpoint, "checkpoint", "", "write each sample to this file as it is taken")
	flags.StringVar(&f.resume, "resume", "", "go on with the campaign of this file, by its own plan")
	formatFlag(cmd, "text", "json")
	return cmd
}

// planFlags are the flags that say what --resume reads from its file.
var planFlags = []string{"mode", "native", "only", "workloads", "repeat", "interval", "duration", "warm-up", "search-budget", "frame", "flows", "connections", "seed", "name", "note",
	"generator", "sink", "cpus"}

// plan turns the flags into a plan, its modes left out.
func (f *modesFlags) plan() (measure.ModesPlan, error) {
	p := measure.ModesPlan{Native: f.native, Level: measure.Level, Seed: f.seed, Notes: f.notes, Generator: f.generator, Sink: f.sink, CPUs: f.cpus}
	if !f.changed("seed") {
		p.Seed = uint64(rand.Uint32())
	}
	var err error
	if p.Min, p.Max, err = parseRepeat(f.repeat); err != nil {
		return p, usage(fmt.Errorf("--repeat: %w", err), "--repeat 3, or with -I --repeat 8,20")
	}
	if f.interval != "" {
		if p.Level, p.Width, err = parseInterval(f.interval); err != nil {
			return p, usage(fmt.Errorf("-I: %w", err), "-I 99,5 is an interval of 99 % confidence that is 5 % wide")
		}
	}
	if p.Min != p.Max && p.Width == 0 {
		return p, usage(fmt.Errorf("--repeat %s: nothing says when to stop in between", f.repeat), "add -I 99,5")
	}
	for _, name := range f.workloads {
		w, known := workloadOf(name, f)
		if !known {
			return p, usage(fmt.Errorf("--workloads: found %q, expected some of %s", name, strings.Join(workloadNames(), ", ")), "")
		}
		if w.Load.WarmUp < 0 {
			return p, usage(fmt.Errorf("--warm-up %v: expected 0 or more", f.warmUp), "")
		}
		if name == ndr && f.budget < time.Second {
			return p, usage(fmt.Errorf("--search-budget %v: expected 1s or more", f.budget), "")
		}
		checked := w.Load
		if w.Kind != measure.PPS {
			checked.FrameBytes, checked.Flows = traffic.MinFrame, 1
		}
		if err := rig.CheckLoad(checked); err != nil {
			return p, err
		}
		p.Workloads = append(p.Workloads, w)
	}
	if f.connections < 1 || f.connections > 1024 {
		return p, usage(fmt.Errorf("--connections %d: expected 1 to 1024", f.connections), "")
	}
	_, err = sending(&p)
	return p, err
}

// sending is how a plan's test frames are sent and counted.
func sending(p *measure.ModesPlan) (rig.Options, error) {
	var o rig.Options
	switch g := traffic.Method(p.Generator); g {
	case "auto", traffic.Auto:
	case traffic.XDP, traffic.AFPacket:
		o.Generator = g
	default:
		return o, usage(fmt.Errorf("--generator %q: expected auto, xdp or af_packet", p.Generator), "")
	}
	switch s := traffic.Method(p.Sink); s {
	case "auto", traffic.Auto:
	case traffic.XDP, traffic.XDPSkb, traffic.AFPacket:
		o.Sink = s
	default:
		return o, usage(fmt.Errorf("--sink %q: expected auto, xdp, xdp-skb or af_packet", p.Sink), "")
	}
	var err error
	if o.CPUs, err = setting.ParseCPUs(p.CPUs); err != nil {
		return o, usage(fmt.Errorf("--cpus: %w", err), "")
	}
	return o, nil
}

// parseRepeat reads N or MIN,MAX.
func parseRepeat(text string) (least, most int, err error) {
	first, second, both := strings.Cut(text, ",")
	if least, err = strconv.Atoi(strings.TrimSpace(first)); err != nil {
		return 0, 0, fmt.Errorf("found %q, expected N or MIN,MAX", text)
	}
	if !both {
		return least, least, nil
	}
	if most, err = strconv.Atoi(strings.TrimSpace(second)); err != nil {
		return 0, 0, fmt.Errorf("found %q, expected N or MIN,MAX", text)
	}
	return least, most, nil
}

// parseInterval reads LEVEL,WIDTH in percent as shares; the width is 5 % where it is left out, as in netperf.
func parseInterval(text string) (level, width float64, err error) {
	first, second, both := strings.Cut(text, ",")
	if !both {
		second = "5"
	}
	if level, err = strconv.ParseFloat(strings.TrimSpace(first), 64); err == nil {
		width, err = strconv.ParseFloat(strings.TrimSpace(second), 64)
	}
	if err != nil || !(level > 0 && level < 100) || !(width > 0 && width <= 100) {
		return 0, 0, fmt.Errorf("found %q, expected LEVEL,WIDTH in percent", text)
	}
	return level / 100, width / 100, nil
}

// parseMode reads NAME=HOST:PORT[,via=BRIDGE][,from=IFACE][,guest-nic=IFACE][,frozen=PIDFILE].
func parseMode(text string) (measure.Mode, error) {
	name, rest, found := strings.Cut(text, "=")
	words := strings.Split(rest, ",")
	m := measure.Mode{Name: name, Agent: words[0]}
	if !found || name == "" || m.Agent == "" {
		return m, fmt.Errorf("found %q, expected NAME=HOST:PORT[,via=BRIDGE][,from=IFACE][,guest-nic=IFACE]", text)
	}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		field := map[string]*string{"via": &m.Via, "from": &m.From, "guest-nic": &m.NIC, "frozen": &m.Frozen}[key]
		if field == nil || value == "" {
			return m, fmt.Errorf("mode %s: found %q, expected via=BRIDGE, from=IFACE, guest-nic=IFACE or frozen=PIDFILE", name, word)
		}
		*field = value
	}
	if m.From != "" {
		if _, err := traffic.ParseEndpoint(m.From); err != nil {
			return m, fmt.Errorf("mode %s: from: %w", name, err)
		}
	}
	if m.Via != "" && m.From != "" {
		return m, fmt.Errorf("mode %s: via and from both say where packets leave", name)
	}
	return m, nil
}

// campaign is the campaign that the flags ask for: a new one, or that of a file.
func (a *app) campaign(ctx context.Context, f *modesFlags) (*measure.ModesCampaign, error) {
	if f.resume != "" {
		return a.resumedHere(ctx, f)
	}
	plan, err := f.plan()
	if err != nil {
		return nil, err
	}
	for _, text := range f.modes {
		m, err := parseMode(text)
		if err != nil {
			return nil, usage(fmt.Errorf("--mode: %w", err), "")
		}
		plan.Modes = append(plan.Modes, m)
	}
	if len(plan.Modes) == 0 {
		return nil, usage(errors.New("nothing says which modes to measure"), "give --mode NAME=HOST:PORT for each, or --lab")
	}
	named := func(m measure.Mode) bool { return m.Name == plan.Native }
	if !f.changed("native") && !slices.ContainsFunc(plan.Modes, named) {
		plan.Native = ""
	}
	for _, m := range plan.Modes {
		if m.Via == "" && m.From == "" && slices.ContainsFunc(plan.Workloads, func(w measure.Workload) bool { return w.Kind == measure.PPS }) {
			return nil, usage(fmt.Errorf("mode %s: nothing says where its packets leave", m.Name), "add ,via=BRIDGE or ,from=IFACE, or leave pps out of --workloads")
		}
	}
	if err := plan.Check(); err != nil {
		return nil, usage(err, "")
	}
	run, err := a.newRun(ctx, measure.PPS, f.name, measure.Load{})
	if err != nil {
		return nil, err
	}
	return &measure.ModesCampaign{Name: f.name, Host: run.Host, Environment: run.Environment, Started: f.stamp, Plan: plan}, nil
}

// resumedHere is the campaign of the file, if it is of this host.
func (a *app) resumedHere(ctx context.Context, f *modesFlags) (*measure.ModesCampaign, error) {
	c, err := f.resumed()
	if err != nil {
		return nil, err
	}
	run, err := a.newRun(ctx, measure.PPS, "", measure.Load{})
	if err != nil {
		return nil, err
	}
	if here := run.Environment; c.Host != run.Host || c.Environment.Kernel != here.Kernel || c.Environment.CPU != here.CPU {
		return nil, outcome.Failed(fmt.Errorf("campaign %s is of host %s with kernel %s and %s, this is %s with %s and %s", f.resume, c.Host, c.Environment.Kernel, c.Environment.CPU,
			run.Host, here.Kernel, here.CPU), "samples of different machines do not belong in one table; with --lab a campaign of the lab goes on")
	}
	return c, nil
}

// resumed is the campaign of the file. What failed in it is tried again.
func (f *modesFlags) resumed() (*measure.ModesCampaign, error) {
	for _, name := range planFlags {
		if f.changed(name) {
			return nil, usage(fmt.Errorf("--resume and --%s: the file has the plan", name), "")
		}
	}
	if f.checkpoint != "" {
		return nil, usage(errors.New("--resume and --checkpoint: the file is both"), "")
	}
	file, err := ops.OpenFile(f.resume)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("campaign: %w", err), "'mpps bench modes' names its file when it is interrupted")
	}
	defer file.Close()
	c, whole, err := measure.DecodeCampaign(file)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("campaign %s: %w", f.resume, err), "'mpps bench modes' names its file when it is interrupted")
	}
	f.resumedFrom = whole
	c.Forgive()
	return c, nil
}

// checkpointFile is where samples go as they are taken; empty for nowhere.
func (a *app) checkpointFile(f *modesFlags) string {
	switch {
	case f.resume != "":
		return f.resume
	case f.checkpoint != "":
		return f.checkpoint
	case !f.keep:
		return ""
	}
	f.forgottenWhenItEnded = true
	return filepath.Join(a.root, "var/lib/mpps/runs", fmt.Sprintf("%s-modes-%d.campaign.jsonl", f.stamp.Format("20060102T150405"), os.Getpid()))
}
