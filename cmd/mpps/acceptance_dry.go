package main

import (
	"context"
	"errors"
	"path/filepath"

	"mpps/internal/measure/acceptance"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/founding"
)

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
