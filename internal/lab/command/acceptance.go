package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mpps/internal/lab"
	"mpps/internal/measure/acceptance"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/founding"
	"mpps/internal/version"
)

// sharedReport is the report's directory in the host's /share.
const sharedReport = "acceptance"

func (a *app) acceptanceCommand() *cobra.Command {
	var output string
	var dryRun bool
	all := emulable()
	cmd := &cobra.Command{
		Use:   "acceptance [NAME…|all]",
		Short: "run shortened acceptance experiments on emulated hosts",
		Long: `Runs experiments of 'mpps acceptance' (` + strings.Join(all, ", ") + `) on emulated hosts,
shortened, including guest restarts. It shows that the protocol works; its
figures mean nothing.

  mpps-lab acceptance throughput
  mpps-lab acceptance all --dry-run

Exit codes: 0 done, whatever the verdicts · 1 failed · 3 not configured ·
64 usage.`,
		Args: func(_ *cobra.Command, names []string) error { return checkExperiments(names) },
		RunE: func(cmd *cobra.Command, names []string) error {
			if slices.Contains(names, "all") {
				names = all
			}
			p, err := accept.Open(output)
			if err != nil {
				return err
			}
			if dryRun {
				return a.acceptanceDryRun(p, names)
			}
			return a.acceptance(cmd.Context(), p, names)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "acceptance", "report directory; adds to an existing report")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the commands; run nothing")
	return cmd
}

// emulable lists the experiments that an emulated host can repeat.
func emulable() []string {
	var names []string
	for _, e := range acceptance.All() {
		if e.NoLab == "" {
			names = append(names, e.Name)
		}
	}
	return names
}

// checkExperiments refuses experiments that no emulated host can repeat.
func checkExperiments(names []string) error {
	hint := "experiments: " + strings.Join(emulable(), ", ") + ", or all"
	if len(names) == 0 {
		return outcome.Usage(errors.New("nothing says which experiment to repeat"), hint)
	}
	for i, name := range names {
		e := acceptance.Find(name)
		switch {
		case name == "all" && len(names) > 1:
			return outcome.Usage(errors.New("all and a name: expected one of them"), hint)
		case name == "all":
		case e == nil:
			return outcome.Usage(fmt.Errorf("no experiment %q", name), hint)
		case e.NoLab != "":
			return outcome.Usage(fmt.Errorf("%s does not run in the lab: %s", name, e.NoLab), hint)
		case slices.Contains(names[:i], name):
			return outcome.Usage(fmt.Errorf("%s is named twice", name), "")
		}
	}
	return nil
}

// inputs returns the set-up of an experiment, as seen from its emulated host.
func inputs(name string) acceptance.Inputs {
	in := acceptance.Inputs{SecretFile: "/share/secret", NoReboot: true, Short: true}
	if name == "modes" {
		for _, m := range nicModes.modesOf(acceptanceModes) {
			in.Modes = append(in.Modes, modeArg(m))
		}
		return in.Defaults()
	}
	in.Guest, in.Via, in.Agent, in.Sink = demoGuest, demoBridge, demoAddress+":"+strconv.Itoa(demoPort), "af_packet"
	in.PPS, in.Consent = "500k", []string{"security"}
	return in.Defaults()
}

// acceptanceModes are the modes to compare: without multiqueue vhost, for which no founding figure was recorded.
var acceptanceModes = []string{"native", "e1000", "virtio", "vhost", "vf"}

// Acceptance returns the command line that repeats an experiment on its emulated host.
func Acceptance(name string) []string {
	in := inputs(name)
	argv := []string{"acceptance", name, "--short", "--no-reboot", "-o", "/share/" + sharedReport, "--secret-file",
		in.SecretFile}
	for _, m := range in.Modes {
		argv = append(argv, "--mode", m)
	}
	if in.Guest != "" {
		argv = append(argv, "--guest", in.Guest, "--via", in.Via, "--agent", in.Agent, "--sink", in.Sink, "--pps",
			in.PPS, "--consent", strings.Join(in.Consent, ","))
	}
	return argv
}

// acceptance runs experiments one after the other until one fails, each on its own host.
func (a *app) acceptance(ctx context.Context, p *accept.Report, names []string) error {
	if p.Machine != nil && !p.Machine.Emulated {
		return outcome.Failed(fmt.Errorf("the report in %s is of a real machine, and this is the lab", p.Dir),
			"give another directory with -o")
	}
	var runs []*acceptance.Run
	for _, name := range names {
		r, err := a.experiment(ctx, p, name)
		if err != nil {
			return err
		}
		runs = append(runs, r)
		if r.State != acceptance.Done {
			break
		}
	}
	if err := a.out.Answer(p.Answer(hostname(), runs)); err != nil {
		return err
	}
	return outcome.Exit(accept.Code(runs))
}

// experiment boots an experiment's host, runs the protocol there, and performs the restarts it asks for.
func (a *app) experiment(ctx context.Context, p *accept.Report, name string) (r *acceptance.Run, err error) {
	a.out.Step("an emulated host for %s", name)
	s, restart, err := a.experimentHost(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = closeAfter(s.lab, err) }()
	argv := Acceptance(name)
	for tries := 0; ; tries++ {
		// The report says that a run failed, and why.
		codes := []int{outcome.CodeOK, outcome.CodeChanges, outcome.CodeFailed, outcome.CodeNotConfigured}
		if _, err := s.mpps(ctx, codes, argv...); err != nil {
			return nil, err
		}
		there, err := accept.Open(s.shared(sharedReport))
		if err != nil {
			return nil, err
		}
		if r = there.Last(name); r == nil {
			return nil, errors.New("the emulated host answered without a report")
		}
		again := name == "modes" && r.State == acceptance.Failed && tries < maxMends && ctx.Err() == nil
		if r.State != acceptance.Waiting && !again {
			return r, takeOver(p, r, there.Dir)
		}
		a.out.Step("%s: %s", r.Name, r.Why)
		if err := restart(ctx); err != nil {
			return r, err
		}
		argv = []string{"acceptance", name, "--resume", "-o", "/share/" + sharedReport}
	}
}

// experimentHost boots an experiment's host, and returns how to restart its guests.
func (a *app) experimentHost(ctx context.Context, name string) (s *scene, restart func(context.Context) error,
	err error) {
	if name != "modes" {
		s, err = a.openScene(ctx, a.steps(), io.Discard)
		return s, func(ctx context.Context) error { return s.guest.Restart(ctx) }, err
	}
	m, err := a.openModesScene(ctx, nicModes, acceptanceModes)
	if err != nil {
		return nil, nil, err
	}
	fresh := func(ctx context.Context) error { return m.mend(ctx, nil, lab.ErrGone) }
	return &scene{lab: m.lab, log: io.Discard}, fresh, nil
}

// takeOver adds a run from the report in another directory, with its files.
func takeOver(p *accept.Report, r *acceptance.Run, from string) error {
	from = filepath.Join(from, filepath.Base(r.Inputs.Dir))
	r.Machine.Emulated, r.Inputs.Lab = true, true // under KVM too: the lab is no real host
	p.Machine, r.Inputs.Dir = r.Machine, filepath.Join(p.Dir, p.NextDir(r.Name))
	if err := p.Add(r); err != nil {
		return err
	}
	if r.State == acceptance.Lacking { // nothing was run
		return p.Save(version.Version)
	}
	if err := os.CopyFS(r.Inputs.Dir, os.DirFS(from)); err != nil {
		return fmt.Errorf("take the emulated host's files over: %w", err)
	}
	o, err := accept.Outcomes(r)
	if err != nil {
		return err
	}
	r.Judge(o)
	return p.Save(version.Version)
}

// acceptanceDryRun prints the plan, in order.
func (a *app) acceptanceDryRun(p *accept.Report, names []string) error {
	dry := founding.DryRuns{}
	for _, name := range names {
		e, in := acceptance.Find(name), inputs(name)
		in.Lab, in.Dir = true, filepath.Join("/share", sharedReport, p.NextDir(name))
		dry.Runs = append(dry.Runs, founding.DryRun{
			Name: name, Title: e.Title, Minutes: e.Takes.Minutes(), Lab: true, Steps: e.Steps(in),
			Checks: []acceptance.Check{}, Changes: []report.ChangeRow{}, Restarts: []string{},
		})
	}
	return a.out.Answer(dry.Answer(hostname(), a.opts.Verbose))
}

// hostname returns this machine's name, empty if unknown.
func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
