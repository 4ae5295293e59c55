package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"mpps/internal/measure"
	"mpps/internal/measure/rig"
	"mpps/internal/measure/traffic"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Workloads of a campaign: a stream into the guest and one out of it, transactions, packets, and a search for the
// highest rate without loss.
const (
	Stream    = "stream"
	StreamOut = "stream-out"
	RR        = "rr"
	PPS       = "pps"
	NDR       = "ndr"
)

// StreamRamp is the default time that a stream's connections have to reach full speed: many round trips of any path
// within a site.
const StreamRamp = 200 * time.Millisecond

// Shape holds the parameters common to a campaign's workloads.
type Shape struct {
	Frame, Flows     int // of packets
	Connections      int // of streams and transactions
	Duration, WarmUp time.Duration
	Budget           time.Duration // longest traffic of a search
	Engine           string        // of streams and transactions; Ours: mpps
	EnginePort       uint16        // of the engine's server in each guest; 0: its default
}

// engine sets the program that makes a conversation, with the times that it can keep.
func (s Shape) engine(w measure.Workload) measure.Workload {
	if s.Engine == "" || s.Engine == Ours {
		return w
	}
	w.Engine, w.EnginePort = s.Engine, s.EnginePort
	w.Load.WarmUp = 0 // in whole seconds; what an engine leaves out is its ramp
	if w.Load.Ramp = 0; s.Engine == rig.Iperf3 && w.Kind == measure.Stream {
		w.Load.Ramp = time.Second
	}
	return w
}

// Workloads returns what a campaign can measure of each mode, in display order. Any workload that yields one value per
// sample can be added, if sampler.once knows its kind; tables and report get columns and bars for it.
func Workloads(s Shape) []measure.Workload {
	with := func(l measure.Load) measure.Load {
		l.Duration, l.WarmUp, l.Repeat = s.Duration, s.WarmUp, 1
		return l
	}
	packets := with(measure.Load{FrameBytes: s.Frame, Flows: s.Flows})
	stream := s.engine(measure.Workload{Name: Stream, Kind: measure.Stream,
		Load: with(measure.Load{Connections: s.Connections, Ramp: StreamRamp})})
	sent := stream
	sent.Name, sent.Reverse = StreamOut, true
	return []measure.Workload{stream, sent,
		s.engine(measure.Workload{Name: RR, Kind: measure.RR, Load: with(measure.Load{Protocol: rig.TCP,
			Connections: s.Connections, Request: 1, Response: 1})}),
		{Name: PPS, Kind: measure.PPS, Load: packets},
		{Name: NDR, Kind: measure.PPS, Load: packets, Search: s.Budget},
	}
}

// ParseMode reads NAME=HOST:PORT and the options of a mode, KEY=VALUE each, behind commas.
func ParseMode(text string) (measure.Mode, error) {
	name, rest, found := strings.Cut(text, "=")
	words := strings.Split(rest, ",")
	m := measure.Mode{Name: name, Agent: words[0]}
	if !found || name == "" || m.Agent == "" {
		return m, fmt.Errorf("found %q, expected NAME=HOST:PORT[,via=BRIDGE][,from=IFACE][,guest-nic=IFACE]", text)
	}
	fields := map[string]*string{"via": &m.Via, "from": &m.From, "gateway": &m.Gateway, "guest-nic": &m.NIC,
		"frozen": &m.Frozen, "plan": &m.Plan}
	for _, word := range words[1:] {
		key, value, _ := strings.Cut(word, "=")
		if fields[key] == nil || value == "" {
			return m, fmt.Errorf("mode %s: found %q, expected via=BRIDGE, from=IFACE, gateway=ADDR, guest-nic=IFACE, "+
				"frozen=PIDFILE or plan=FILE", name, word)
		}
		*fields[key] = value
	}
	if m.From != "" {
		if _, err := traffic.ParseEndpoint(m.From); err != nil {
			return m, fmt.Errorf("mode %s: from: %w", name, err)
		}
	}
	if m.Via != "" && m.From != "" {
		return m, fmt.Errorf("mode %s: via and from both say where packets leave", name)
	}
	if gateway, err := netip.ParseAddr(m.Gateway); m.Gateway != "" && (err != nil || !gateway.Is4() || m.From == "") {
		return m, fmt.Errorf("mode %s: gateway %q: expected an IPv4 address, and from=IFACE on its link", name,
			m.Gateway)
	}
	return m, nil
}

// NewCampaign returns a campaign by a plan on this host.
func NewCampaign(ctx context.Context, env *ops.Env, name string, started time.Time,
	plan measure.ModesPlan) (*measure.ModesCampaign, error) {
	run, err := NewRun(ctx, env, measure.PPS, name, measure.Load{})
	if err != nil {
		return nil, err
	}
	return &measure.ModesCampaign{Name: name, Host: run.Host, Environment: run.Environment, Started: started,
		Plan: plan}, nil
}

// CheckHost refuses to resume a campaign of another host.
func CheckHost(ctx context.Context, env *ops.Env, c *measure.ModesCampaign, file string) error {
	run, err := NewRun(ctx, env, measure.PPS, "", measure.Load{})
	if err != nil {
		return err
	}
	here, there := run.Environment, c.Environment
	if c.Host != run.Host || there.Kernel != here.Kernel || there.CPU != here.CPU {
		return outcome.Failed(fmt.Errorf("campaign %s is of host %s with kernel %s and %s, this is %s with %s and %s",
			file, c.Host, there.Kernel, there.CPU, run.Host, here.Kernel, here.CPU),
			"samples of different machines do not belong in one table; 'mpps-lab modes --resume' goes on with one of "+
				"an emulated host")
	}
	return nil
}

// Campaign measures modes whose guests run, and continues a resumed campaign. Each sample is in the log before the next
// one is taken. foreign accepts modes' plans with changes that mpps would not plan.
func Campaign(ctx context.Context, env *ops.Env, c *measure.ModesCampaign, secretFile string, foreign bool,
	log *CampaignLog) (_ *measure.Modes, err error) {
	m, err := OpenMachine(env)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	s := &sampler{machine: m, plan: &c.Plan, alone: map[string]bool{}, stopped: map[int]bool{},
		turns: map[string]*planTurns{}, version: env.Version}
	if s.options, err = rigOptions(&c.Plan); err != nil {
		return nil, err
	}
	if s.secret, err = Secret(secretFile); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.closePlans(ctx)) }()
	if err := s.openPlans(ctx, env, foreign); err != nil {
		return nil, err
	}
	env.Out.Progress("looking at the agents")
	if err := s.greet(ctx); err != nil {
		return nil, err
	}
	env.Out.Progress("looking at the idle machine")
	conditions, err := m.Conditions(ctx, time.Second)
	if err != nil {
		return nil, err
	}
	if len(c.Cells) == 0 {
		c.Before = conditions
	}
	if err := log.open(c); err != nil {
		return nil, err
	}
	err = c.Run(ctx, s.take, log.add, func(p measure.ModesProgress) { ShowProgress(env, p) })
	if after, failure := m.Conditions(context.WithoutCancel(ctx), time.Millisecond); failure == nil {
		c.After = &after
	}
	return c.Result(), errors.Join(err, log.close())
}

// rigOptions returns how a plan's test frames are sent and counted.
func rigOptions(p *measure.ModesPlan) (rig.Options, error) {
	o := rig.Options{Generator: ParseMethod(p.Generator), Sink: ParseMethod(p.Sink)}
	var err error
	if o.CPUs, err = setting.ParseCPUs(p.CPUs); err != nil {
		err = fmt.Errorf("CPUs of the generator: %w", err)
	}
	return o, err
}

// ParseMethod returns the method of sending or counting with a name; "auto" is traffic.Auto.
func ParseMethod(name string) traffic.Method {
	if name == "auto" {
		return traffic.Auto
	}
	return traffic.Method(name)
}

// ShowProgress shows the next turn and the remaining time of the campaign.
func ShowProgress(env *ops.Env, p measure.ModesProgress) { env.Out.Progress("%s", progressLine(p)) }

func progressLine(p measure.ModesProgress) string {
	of, left := fmt.Sprint(p.AtLeast), p.Left.Round(time.Second).String()
	if p.AtMost > p.AtLeast {
		of, left = fmt.Sprintf("%d to %d", p.AtLeast, p.AtMost),
			fmt.Sprintf("%s to %s", left, p.LeftMax.Round(time.Second))
	}
	return fmt.Sprintf("sample %d of %s: %s of %s, about %s left", p.Done+1, of, p.Turn.Workload, p.Turn.Mode, left)
}

// FinishCampaign saves a campaign's result. failure is what ended the campaign early, or nil; again is the command that
// resumes it. shown reports whether there is a result to show.
func FinishCampaign(env *ops.Env, m *measure.Modes, k Keep, log *CampaignLog, again string,
	failure error) (saved []string, shown bool, err error) {
	hint := "nothing was written that could be resumed"
	if log.Name != "" {
		hint = "'" + again + " --resume " + log.Name + "' goes on with it"
	}
	if m.Samples == 0 {
		if failure == nil {
			failure = outcome.Failed(errors.New("interrupted before the first sample was complete"), hint)
		}
		return nil, false, failure
	}
	saved, err = Save(env, k, m, m.Started, "modes", func(w measure.Warning) { m.Warnings = append(m.Warnings, w) })
	if err != nil {
		return nil, false, errors.Join(failure, err)
	}
	if log.Temporary && !m.Partial && len(saved) > 0 {
		failure = errors.Join(failure, os.Remove(log.Name))
	}
	if failure == nil && m.Partial {
		failure = outcome.Failed(fmt.Errorf("not complete: %s taken, %d missing at least",
			ops.Count(m.Samples, "sample"), m.Missing), hint)
	}
	return saved, true, failure
}
