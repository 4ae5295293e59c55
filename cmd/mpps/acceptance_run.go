package main

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"mpps/internal/measure/acceptance"
	"mpps/internal/ops/accept"
	"mpps/internal/outcome"
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
