package main

import (
	"context"
	"errors"
	"path/filepath"

	"mpps/internal/acceptance"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/founding"
)

// acceptanceDry is the answer of acceptance --dry-run.
type acceptanceDry struct {
	Runs []founding.DryRun `json:"runs"`
}

// acceptanceDryRun tells what would be run, in order, and what that would change.
func (a *app) acceptanceDryRun(ctx context.Context, f *acceptanceFlags, chosen []*acceptance.Experiment) error {
	in, err := f.inputs()
	if err != nil {
		return err
	}
	in.Lab = f.lab
	if in.Lab {
		in.Short = true
	}
	p, err := openReport(f.output)
	if err != nil {
		return err
	}
	dry := acceptanceDry{}
	name := ""
	for _, e := range chosen {
		if in.Lab && e.NoLab != "" {
			continue
		}
		seen, err := a.seen(ctx, in)
		if err != nil {
			return err
		}
		name = seen.Host.Name
		in.Dir = filepath.Join(f.output, p.next(e.Name))
		own := e.Settle(in, seen.Host)
		if in.Lab && e.Name == throughputName {
			own = labInputs(in.Dir)
		}
		d := founding.DryRun{Name: e.Name, Title: e.Title, Minutes: e.Takes.Minutes(), Lab: in.Lab, Steps: e.Steps(own),
			Checks: []acceptance.Check{}, Changes: []report.ChangeRow{}, Restarts: []string{}}
		if !in.Lab {
			d.Checks = e.Look(in, seen)
			if c := acceptance.Unknown(in, d.Checks); c != nil {
				return &outcome.Fault{Err: errors.New(c.Why), Hint: c.Hint, Code: outcome.CodeNotConfigured}
			}
		}
		d.Keep = in.Keep
		for _, s := range d.Steps {
			if s.Gives != acceptance.Planned || in.Lab || s.When != acceptance.Always {
				continue
			}
			p, err := a.dryPlan(ctx, s.Argv)
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
	return a.out.Answer(report.Answer{Verb: "acceptance-dry-run", Host: name, Result: dry, Text: func(t *report.Text) {
		founding.Dry(t, dry.Runs, a.verbose)
	}})
}
