package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/measure/rig"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/traffic/agent"
)

func (a *app) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure packets, TCP transactions and streams; compare two runs",
		Long: `Measures a path between two interfaces of this machine (in whichever network
namespaces they are), or between this machine and an agent: 'mpps agent' in a
guest or on a second host.

  mpps bench pps --from netns:A/veth0 --to netns:B/veth1
  mpps bench pps --via br0 --agent 10.50.0.2:7878 -o before.json
  mpps bench rr --agent 10.50.0.2:7878
  mpps bench compare before.json after.json

With --plan the machine as found and with the plan are compared in turns, in
blocks ABBA or BAAB by lot, so that what drifts meanwhile falls on both alike.
The plan is applied and rolled back as by 'mpps apply' and 'mpps rollback', and
everything is as found in the end, also after an error or Ctrl-C; after a kill
'mpps rollback' puts it back. Only plans that take effect at once, and without
changes of risk connectivity, can be measured so.

  mpps bench pps --via br0 --agent 10.50.0.2:7878 --plan plan.json -o ab.json

A result holds every sample, what limited it and what a reader must know of it.
With --format it is printed as netperf's KEY=VALUE lines, iperf3's JSON, Go
benchmark lines for benchstat, Prometheus text, CSV or an HdrHistogram log;
--json is --format json.

  mpps bench rr --agent 10.50.0.2:7878 --format netperf
Exit codes: 0 measured · 1 failed, or ended early · 5 the generator or the
receiver was the limit, not the device under test · 64 usage.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.benchPPS(), a.benchTalk(measure.RR), a.benchTalk(measure.CRR), a.benchTalk(measure.Stream), a.benchModes(), a.benchCompare())
	return cmd
}

// benchFlags are the flags that all measurements share.
type benchFlags struct {
	from, to   string
	agent, nic string
	secretFile string
	reverse    bool
	forward    bool // bench pps: through a device, from and to two ends of this machine
	duration   time.Duration
	warmUp     time.Duration
	repeat     int
	name       string
	output     string
	keep       bool

	planFile string
	blocks   int
	seed     uint64
	changed  func(flag string) bool
}

// addEnds adds the flags that name the ends.
func (f *benchFlags) addEnds(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.from, "from", "", "interface that sends: IFACE or netns:NAME/IFACE")
	flags.StringVar(&f.to, "to", "", "interface that receives: IFACE or netns:NAME/IFACE")
	flags.StringVar(&f.agent, "agent", "", "HOST:PORT of 'mpps agent' at the far end")
	flags.StringVar(&f.nic, "guest-nic", "", "the agent's interface (default: the one with the agent's address)")
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the secret that the agent was given")
	flags.BoolVar(&f.reverse, "reverse", false, "the far end sends")
}

func (f *benchFlags) add(cmd *cobra.Command) {
	f.addEnds(cmd)
	flags := cmd.Flags()
	flags.DurationVar(&f.duration, "duration", 5*time.Second, "of one trial")
	flags.DurationVar(&f.warmUp, "warm-up", 500*time.Millisecond, "traffic before the first trial, not counted")
	flags.IntVar(&f.repeat, "repeat", 6, "trials; fewer than 6 give no interval of 95 %")
	flags.StringVar(&f.name, "name", "", "a label for the result")
	flags.StringVarP(&f.output, "output", "o", "", "write the run to this file")
	flags.BoolVar(&f.keep, "keep", true, "keep the run in /var/lib/mpps/runs")
	flags.StringVar(&f.planFile, "plan", "", "compare this machine as found and with this plan, in turns; ends with all of it rolled back")
	flags.IntVar(&f.blocks, "blocks", 6, "with --plan: blocks of four trials, two a side; fewer than 6 cannot show small differences")
	flags.Uint64Var(&f.seed, "seed", 0, "with --plan: of the order of the trials (default: by lot)")
	f.changed = flags.Changed
	formatFlag(cmd, "text", "json")
}

// check refuses what contradicts itself.
func (f *benchFlags) check() error {
	const hint = "give --from and --to, or --agent"
	switch here := f.agent == "" && !f.forward; {
	case here && f.from == "" && f.to == "":
		return usage(errors.New("nothing says between which ends to measure"), hint)
	case here && (f.from == "" || f.to == ""):
		return usage(errors.New("only one end was given"), hint)
	case f.agent != "" && f.to != "":
		return usage(errors.New("--to and --agent both name the far end"), hint)
	case f.agent == "" && (f.secretFile != "" || f.nic != ""):
		return usage(errors.New("--secret-file and --guest-nic belong to --agent"), hint)
	case f.planFile == "" && (f.changed("blocks") || f.changed("seed")):
		return usage(errors.New("--blocks and --seed belong to --plan"), "")
	case f.planFile != "" && f.changed("repeat"):
		return usage(errors.New("--plan and --repeat: expected one of them"), "--blocks says how many trials there are: two a side in each")
	case f.blocks < 1 || f.blocks > 1000:
		return usage(fmt.Errorf("--blocks %d: expected 1 to 1000", f.blocks), "")
	case f.warmUp < 0:
		return usage(fmt.Errorf("--warm-up %v: expected 0 or more", f.warmUp), "")
	}
	return nil
}

// agentOptions are those of the far end, with its secret.
func (f *benchFlags) agentOptions() (rig.AgentOptions, error) {
	o := rig.AgentOptions{Address: f.agent, NIC: f.nic, Version: version}
	var err error
	o.Secret, err = readSecret(f.secretFile)
	return o, err
}

// maxSecret bounds what is read of a secret's file, bytes.
const maxSecret = 64 << 10

// readSecret is a secret file's text without the white space around it; nil for no file.
func readSecret(file string) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	f, err := ops.OpenFile(file)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("secret: %w", err), "any text will do: the same file on both sides")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err == nil && len(text) > maxSecret {
		err = fmt.Errorf("%s: larger than %d bytes", file, maxSecret)
	}
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("secret: %w", err), "any text will do: the same file on both sides")
	}
	secret := bytes.TrimSpace(text)
	if len(secret) == 0 {
		return nil, outcome.Failed(fmt.Errorf("secret file %s: expected a text, found none", file), "any text will do: the same file on both sides")
	}
	return secret, nil
}

// newRun is a run with what is known of this machine.
func (a *app) newRun(ctx context.Context, kind measure.Kind, name string, load measure.Load) (*measure.Run, error) {
	m, err := a.env().Open()
	if err != nil {
		return nil, err
	}
	defer m.Close()
	h := m.Inventory(ctx)
	return &measure.Run{
		Schema: measure.Schema, Kind: kind, Name: name, Host: h.Name, Load: load, Started: time.Now().UTC(),
		Environment: measure.Environment{
			Kernel: h.Kernel.Release, CPU: h.Topology.Model, CPUs: h.Topology.Counts.CPUsOnline,
			Emulated: h.Emulated, Virtual: h.Virtual, MPPS: version,
		},
	}, nil
}

// openMachine opens this machine for a measurement.
func (a *app) openMachine() (*rig.Machine, error) {
	m, err := rig.OpenMachine(a.root)
	if err != nil {
		return nil, outcome.Failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	if h, err := a.env().Open(); err == nil {
		m.Patient = h.Emulated()
		_ = h.Close()
	}
	return m, nil
}

// progress shows the steps of a measurement.
func (a *app) progress(kind measure.Kind) func(measure.Step) {
	return func(s measure.Step) {
		if s.What != "trial" {
			a.out.Progress("%s", s.What)
			return
		}
		last := ""
		if s.Last != nil {
			last = fmt.Sprintf(", the last one %s %s", goal.FormatRate(s.Last.Value(kind)), kind.Unit())
		}
		a.out.Progress("trial %d of %d%s", s.N, s.M, last)
	}
}

// finish saves and shows a run. failure is what ended it early, or nil.
func (a *app) finish(run *measure.Run, f *benchFlags, failure error) error {
	if errors.Is(failure, agent.ErrLost) {
		failure = outcome.Failed(failure, "the control connection shares the link with the traffic: use a shorter --duration, or an address of the agent on another NIC and --guest-nic")
	}
	if len(run.Samples) == 0 {
		if failure == nil {
			failure = outcome.Failed(errors.New("interrupted before the first trial was complete"), "")
		}
		return failure
	}
	run.Judge()
	saved, err := a.saveRun(run, f)
	if err != nil {
		return errors.Join(failure, err)
	}
	var warnings []outcome.Warning
	warnings = append(warnings, run.Warnings...)
	err = a.answer(report.Answer{
		Verb: "bench-" + string(run.Kind), Host: run.Host, Result: run, Warnings: warnings,
		Text: func(t *report.Text) { drawRun(t, run, saved) },
	}, func(s *export.Set) { s.Add("", run) })
	switch {
	case err != nil || failure != nil:
		return errors.Join(failure, err)
	case run.Kind == measure.RR && run.Sent > 0 && run.Received == 0:
		return unanswered(run)
	case run.Partial:
		return outcome.Failed(fmt.Errorf("interrupted: %d of %d trials were completed", len(run.Samples), run.Load.Repeat), "")
	case !run.Valid():
		return outcome.Exit(outcome.CodeNotDevice)
	}
	return nil
}

// unanswered is the failure of a run of transactions of which not one was answered: no figure.
func unanswered(run *measure.Run) error {
	const headers = 28 // bytes of IPv4 and UDP
	longest := max(run.Load.Request, run.Load.Response) + headers
	return outcome.Failed(fmt.Errorf("none of %d requests was answered within %v", run.Sent, run.Load.Timeout),
		fmt.Sprintf("the way may be open for the connection alone: a firewall that drops datagrams, or an MTU below %d bytes at the far end or between", longest))
}

// saveRun saves a run.
func (a *app) saveRun(run *measure.Run, f *benchFlags) ([]string, error) {
	var text bytes.Buffer
	if err := measure.Encode(&text, facts.Whole(run)); err != nil {
		return nil, fmt.Errorf("encode the run: %w", err)
	}
	return a.save(text.Bytes(), run.Started, string(run.Kind), f, run.Warn)
}

// save writes a result where the user asked and into the collection; it returns the names of the files. Only what was
// asked for must succeed; warn is told of the rest.
func (a *app) save(text []byte, started time.Time, what string, f *benchFlags, warn func(measure.Warning)) ([]string, error) {
	var saved []string
	if f.keep {
		dir := filepath.Join(a.root, "var/lib/mpps/runs")
		file := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.json", started.Format("20060102T150405"), what, os.Getpid()))
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = ops.ReplaceFile(file, text)
		}
		if err != nil {
			warn(measure.Warning{Code: "not-kept", Text: "the run could not be kept: " + err.Error(), Hint: "--keep=false keeps none"})
		} else {
			saved = append(saved, file)
		}
	}
	if f.output != "" {
		if err := ops.ReplaceFile(f.output, text); err != nil {
			return saved, outcome.Failed(fmt.Errorf("write the run: %w", err), "")
		}
		saved = append(saved, f.output)
	}
	return saved, nil
}
