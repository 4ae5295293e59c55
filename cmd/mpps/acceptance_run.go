package main

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"

	"mpps/internal/measure/acceptance"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/founding"
)

// acceptanceRunner returns a runner of experiments for a report.
func (a *app) acceptanceRunner(p *accept.Report) *accept.Runner {
	return &accept.Runner{Env: a.env(), Report: p, Execute: a.runOwn}
}

// accept runs experiments, or continues them, and answers with their runs.
func (a *app) accept(ctx context.Context, f *acceptanceFlags, chosen []*acceptance.Experiment) error {
	p, err := accept.Open(f.output)
	if err != nil {
		return err
	}
	in, err := f.inputs()
	if err != nil {
		return err
	}
	runs, err := a.acceptanceRunner(p).Run(ctx, chosen, in, f.resume)
	if err != nil {
		return err
	}
	name := ""
	if h, wrong := a.env().Open(); wrong == nil {
		name, _ = h.Identity()
		err = h.Close()
	}
	if err = errors.Join(a.out.Answer(p.Answer(name, runs)), err); err != nil {
		return err
	}
	return outcome.Exit(accept.Code(runs))
}

// runOwn runs a command line of this program, as main does, and returns its answer as JSON.
func (a *app) runOwn(ctx context.Context, argv []string, trial func()) (accept.Answer, error) {
	var out bytes.Buffer
	inner := &app{stdin: strings.NewReader(""), stdout: &out, stderr: a.stderr, approved: true, trial: trial}
	global := []string{"--json", "--root", a.root}
	if a.quiet {
		global = append(global, "--quiet")
	}
	err := inner.execute(ctx, append(global, argv...))
	answer := accept.Answer{JSON: out.Bytes(), Restarts: inner.restarts}
	if err == nil {
		return answer, nil
	}
	code, hint := inner.errorOf(err)
	answer.Code = code
	if outcome.Silent(err) {
		return answer, nil
	}
	return answer, &outcome.Fault{Err: err, Hint: hint, Code: code}
}

// acceptanceDryRun prints the steps that would be run, in order, and the changes that they would make.
func (a *app) acceptanceDryRun(ctx context.Context, f *acceptanceFlags, chosen []*acceptance.Experiment) error {
	in, err := f.inputs()
	if err != nil {
		return err
	}
	p, err := accept.Open(f.output)
	if err != nil {
		return err
	}
	x := a.acceptanceRunner(p)
	dry := founding.DryRuns{}
	name := ""
	for _, e := range chosen {
		own, seen, err := x.LookAround(ctx, e, in)
		if err != nil {
			return err
		}
		name = seen.Host.Name
		own.Dir = filepath.Join(f.output, p.NextDir(e.Name))
		d := founding.DryRun{Name: e.Name, Title: e.Title, Minutes: e.Takes.Minutes(), Steps: e.Steps(own),
			Checks: []acceptance.Check{}, Changes: []report.ChangeRow{}, Restarts: []string{}}
		d.Checks = e.Look(own, seen)
		if c := acceptance.Unknown(own, d.Checks); c != nil {
			return &outcome.Fault{Err: errors.New(c.Why), Hint: c.Hint, Code: outcome.CodeNotConfigured}
		}
		d.Keep = own.Keep
		for _, s := range d.Steps {
			if s.Gives != acceptance.Planned || s.When != acceptance.Always {
				continue
			}
			p, err := x.DryPlan(ctx, s.Argv)
			if err != nil {
				d.Unplanned = err.Error()
				continue
			}
			d.Planned = true
			d.Changes = append(d.Changes, report.Rows(p.Changes)...)
			for _, r := range p.Restarts {
				d.Restarts = append(d.Restarts, r.What.String())
			}
			d.Consent = len(p.Consent)
		}
		dry.Runs = append(dry.Runs, d)
	}
	return a.out.Answer(dry.Answer(name, a.verbose))
}
