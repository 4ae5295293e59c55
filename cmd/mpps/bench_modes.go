package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mpps/internal/cli"
	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/setting"
	"mpps/internal/ops/bench"
	"mpps/internal/report"
	draw "mpps/internal/report/bench"
	"mpps/internal/words"
)

// modesFlags are the flags of bench modes.
type modesFlags struct {
	modes     []measure.Mode
	native    string
	workloads []string
	repeat    samples
	interval  confidence
	bench.Shape
	generator, sink    string
	cpus               setting.CPUSet
	secretFile         string
	foreign            bool
	seed               uint64
	name               string
	keep               bench.Keep
	checkpoint, resume string
	notes              []string
	set                *pflag.FlagSet
	stamp              time.Time
}

// samples is the number of samples per mode and workload.
type samples struct{ least, most int }

// confidence is the level and the relative width that an interval must reach, 0–1.
type confidence struct{ level, width float64 }

func (a *app) benchModes() *cobra.Command {
	var f modesFlags
	cmd := verb("modes", "compare NIC modes: e1000, virtio, vhost, VF, native", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			f.set, f.stamp = cmd.Flags(), time.Now().UTC()
			return a.runModes(cmd.Context(), &f)
		})
	f.add(cmd)
	return cmd
}

func (f *modesFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	cli.ListVar(flags, &f.modes, "mode", "one mode as `NAME=HOST:PORT` of its agent, with options such as ,via=br0; "+
		"repeatable",
		bench.ParseMode)
	flags.StringVar(&f.native, "native", "native", "mode that counts as 100 %")
	flags.StringSliceVar(&f.workloads, "workloads", workloadNames(), "workloads to measure")
	cli.ValueVar(flags, &f.repeat, "repeat", "3", "samples per mode and workload: N, or MIN,MAX with -I", parseRepeat)
	cli.ValueVar(flags, &f.interval, "interval,I", "", "LEVEL,WIDTH in percent: sample until the interval is this "+
		"narrow, as in netperf", parseInterval)
	cli.DurationVar(flags, &f.Duration, "duration", 5*time.Second, 1, 0, "duration of one sample")
	cli.DurationVar(flags, &f.WarmUp, "warm-up", 500*time.Millisecond, 0, 0,
		"warm-up traffic before each sample, not counted")
	cli.DurationVar(flags, &f.Budget, "search-budget", 30*time.Second, time.Second, 0,
		"ndr: traffic time limit of one search")
	cli.IntVar(flags, &f.Frame, "frame", 64, 64, 1518, "pps: frame size in bytes, including FCS, 64 to 1518")
	cli.IntVar(flags, &f.Flows, "flows", 16, 1, rig.MaxFlows, "pps: number of flows (distinct source addresses and "+
		"ports)")
	cli.IntVar(flags, &f.Connections, "connections", 1, 1, 1024, "stream, rr: concurrent TCP connections, 1 to 1024")
	cli.ChoiceVar(flags, &f.Engine, "engine", bench.Ours, "stream, rr: traffic program: mpps, netperf or iperf3, "+
		"whose server runs in every guest", bench.Ours, "netperf", "iperf3")
	flags.Uint16Var(&f.EnginePort, "engine-port", 0, "port of the engine's server in the guests (default: 12865 "+
		"netperf, 5201 iperf3)")
	cli.ChoiceVar(flags, &f.generator, "generator", "auto", "pps: traffic generator: "+
		"auto, xdp or af_packet", "auto", string(traffic.XDP),
		string(traffic.AFPacket))
	cli.ChoiceVar(flags, &f.sink, "sink", string(traffic.XDPSkb),
		"pps: receiver: xdp-skb (works with every driver), xdp, af_packet or auto",
		"auto", string(traffic.XDP), string(traffic.XDPSkb), string(traffic.AFPacket))
	cli.ValueVar(flags, &f.cpus, "cpus", "", "pps: CPUs for the generator, one worker per CPU", parseCPUs)
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the agents' secret")
	flags.BoolVar(&f.foreign, "foreign", false, "with plan=FILE: also apply changes that mpps would not plan for "+
		"this host")
	flags.Uint64Var(&f.seed, "seed", 0, "random seed of the order (default: random)")
	flags.StringVar(&f.name, "name", "", "label of the result")
	flags.StringArrayVar(&f.notes, "note", nil, "note stored with the result; repeatable")
	cli.OutputVar(flags, &f.keep.File, "output,o", "", "write the result to this file")
	flags.BoolVar(&f.keep.Runs, "keep", true, "store the result, and samples while measuring, in /var/lib/mpps/runs")
	cli.OutputVar(flags, &f.checkpoint, "checkpoint", "", "write each sample to this file at once")
	flags.StringVar(&f.resume, "resume", "", "continue the campaign of this file")
	formatFlag(cmd, "text", "json")
}

// planFlags are the flags whose values --resume reads from its file.
var planFlags = []string{"mode", "native", "workloads", "repeat", "interval", "duration", "warm-up",
	"search-budget", "frame", "flows", "connections", "engine", "engine-port", "seed", "name", "note", "generator",
	"sink", "cpus"}

func workloadNames() []string {
	return words.Each(bench.Workloads(bench.Shape{}), func(w measure.Workload) string { return w.Name })
}

// plan turns the flags into a plan without modes.
func (f *modesFlags) plan() (measure.ModesPlan, error) {
	p := measure.ModesPlan{
		Native: f.native, Min: f.repeat.least, Max: f.repeat.most, Level: measure.Level, Seed: seedOf(f.set, f.seed),
		Notes:     f.notes,
		Generator: f.generator, Sink: f.sink, CPUs: f.cpus.String(),
	}
	if f.interval.width > 0 {
		p.Level, p.Width = f.interval.level, f.interval.width
	}
	if p.Min != p.Max && p.Width == 0 {
		return p, usage(fmt.Errorf("--repeat %d,%d: nothing says when to stop in between", p.Min, p.Max), "add -I 99,5")
	}
	if f.EnginePort != 0 && f.Engine == bench.Ours {
		return p, usage(errors.New("--engine-port belongs to --engine netperf or iperf3"), "")
	}
	known := bench.Workloads(f.Shape)
	for _, name := range f.workloads {
		at := slices.IndexFunc(known, func(w measure.Workload) bool { return w.Name == name })
		if at < 0 {
			return p, usage(fmt.Errorf("--workloads: found %q, expected some of %s", name,
				strings.Join(workloadNames(), ", ")), "")
		}
		checked := known[at].Load
		if known[at].Kind != measure.PPS {
			checked.FrameBytes, checked.Flows = traffic.MinFrame, 1
		}
		if err := rig.CheckLoad(checked); err != nil {
			return p, err
		}
		if w := known[at]; w.Engine != "" {
			if err := rig.CheckEngine(w.Engine, w.Kind, w.Load); err != nil {
				return p, err
			}
		}
		p.Workloads = append(p.Workloads, known[at])
	}
	return p, nil
}

// parseRepeat reads N or MIN,MAX.
func parseRepeat(text string) (samples, error) {
	first, second, both := strings.Cut(text, ",")
	least, err := strconv.Atoi(strings.TrimSpace(first))
	most := least
	if both && err == nil {
		most, err = strconv.Atoi(strings.TrimSpace(second))
	}
	if err != nil {
		err = fmt.Errorf(" %q: expected N or MIN,MAX, such as 3, or 8,20 with -I", text)
	}
	return samples{least, most}, err
}

// parseInterval reads LEVEL,WIDTH in percent; the width is 5 % if it is left out, as in netperf.
func parseInterval(text string) (confidence, error) {
	first, second, both := strings.Cut(text, ",")
	if !both {
		second = "5"
	}
	level, err := strconv.ParseFloat(strings.TrimSpace(first), 64)
	width, wrong := strconv.ParseFloat(strings.TrimSpace(second), 64)
	if err != nil || wrong != nil || !(level > 0 && level < 100) || !(width > 0 && width <= 100) {
		return confidence{}, fmt.Errorf(" %q: expected LEVEL,WIDTH in percent, such as 99,5", text)
	}
	return confidence{level / 100, width / 100}, nil
}

// runModes measures modes whose guests are running, and answers.
func (a *app) runModes(ctx context.Context, f *modesFlags) error {
	c, log, err := a.campaign(ctx, f)
	if err != nil {
		return err
	}
	m, err := bench.Campaign(ctx, a.env(), c, f.secretFile, f.foreign, log)
	if m == nil {
		return err
	}
	return a.finishModes(m, f, log, err)
}

// campaign returns the campaign and its log: a new one, or the one that --resume names.
func (a *app) campaign(ctx context.Context, f *modesFlags) (*measure.ModesCampaign, *bench.CampaignLog, error) {
	if f.resume != "" {
		c, log, err := f.resumeCampaign()
		if err == nil {
			err = bench.CheckHost(ctx, a.env(), c, f.resume)
		}
		return c, log, err
	}
	plan, err := f.plan()
	if err != nil {
		return nil, nil, err
	}
	plan.Modes = f.modes
	if len(plan.Modes) == 0 {
		return nil, nil, usage(errors.New("nothing says which modes to measure"), "give --mode NAME=HOST:PORT for each")
	}
	named := func(m measure.Mode) bool { return m.Name == plan.Native }
	if !f.set.Changed("native") && !slices.ContainsFunc(plan.Modes, named) {
		plan.Native = ""
	}
	for _, m := range plan.Modes {
		packets := func(w measure.Workload) bool { return w.Kind == measure.PPS }
		if m.Via == "" && m.From == "" && slices.ContainsFunc(plan.Workloads, packets) {
			return nil, nil, usage(fmt.Errorf("mode %s: nothing says where its packets leave", m.Name),
				"add ,via=BRIDGE or ,from=IFACE, or leave pps out of --workloads")
		}
	}
	if err := plan.Check(); err != nil {
		return nil, nil, usage(err, "")
	}
	c, err := bench.NewCampaign(ctx, a.env(), f.name, f.stamp, plan)
	return c, bench.NewCampaignLog(a.env(), f.keep, f.checkpoint, f.stamp), err
}

// resumeCampaign returns the campaign of --resume and refuses flags that its plan already has.
func (f *modesFlags) resumeCampaign() (*measure.ModesCampaign, *bench.CampaignLog, error) {
	for _, name := range planFlags {
		if f.set.Changed(name) {
			return nil, nil, usage(fmt.Errorf("--resume and --%s: the file has the plan", name), "")
		}
	}
	if f.checkpoint != "" {
		return nil, nil, usage(errors.New("--resume and --checkpoint: the file is both"), "")
	}
	return bench.ResumeCampaign(f.resume)
}

// finishModes saves and shows a result. failure is what ended the campaign early, or nil.
func (a *app) finishModes(m *measure.Modes, f *modesFlags, log *bench.CampaignLog, failure error) error {
	saved, shown, failure := bench.FinishCampaign(a.env(), m, f.keep, log, "mpps bench modes", failure)
	if !shown {
		return failure
	}
	return joinFailure(failure, a.answer(report.Answer{
		Verb: "bench-modes", Host: m.Host, Result: m, Warnings: m.Warnings,
		Text: func(t *report.Text) { draw.ModesText(t, m, saved) },
	}, func(s *export.Set) { s.AddModes(m, export.Format(a.format)) }))
}
