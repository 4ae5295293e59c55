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

	"mpps/internal/facts"
	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// runModes measures modes whose guests run, and answers.
func (a *app) runModes(ctx context.Context, f *modesFlags) (err error) {
	if len(f.only) > 0 {
		return usage(errors.New("--only belongs to --lab"), "give --mode for each that is to be measured")
	}
	if err := f.checkFiles(); err != nil {
		return err
	}
	c, err := a.campaign(ctx, f)
	if err != nil {
		return err
	}
	m, err := a.openMachine()
	if err != nil {
		return err
	}
	defer m.Close()
	t := &modeTaker{machine: m, plan: &c.Plan, alone: map[string]bool{}}
	if t.options, err = sending(&c.Plan); err != nil {
		return err
	}
	if t.secret, err = readSecret(f.secretFile); err != nil {
		return err
	}
	a.out.Progress("looking at the agents")
	if err := t.greet(ctx); err != nil {
		return err
	}
	a.out.Progress("looking at the idle machine")
	conditions, err := m.Conditions(ctx, time.Second)
	if err != nil {
		return err
	}
	if len(c.Cells) == 0 {
		c.Before = conditions
	}
	log, err := a.openCheckpoint(f, c)
	if err != nil {
		return err
	}
	err = c.Run(ctx, t.take, log.add, a.modesProgress)
	if after, failure := m.Conditions(context.WithoutCancel(ctx), time.Millisecond); failure == nil {
		c.After = &after
	}
	err = errors.Join(err, log.Close())
	return a.finishModes(c.Result(), f, log.name, err)
}

// checkFiles refuses files that cannot be written, before hours are spent.
func (f *modesFlags) checkFiles() error {
	for flag, name := range map[string]string{"--output": f.output, "--checkpoint": f.checkpoint} {
		if name == "" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(name)); err != nil || !info.IsDir() {
			return usage(fmt.Errorf("%s %s: expected a file in a directory that is there", flag, name), "")
		}
	}
	return nil
}

// modesProgress shows the turn that is about to begin, and how long all of it may take.
func (a *app) modesProgress(p measure.ModesProgress) {
	a.out.Progress("%s", progressLine(p))
}

func progressLine(p measure.ModesProgress) string {
	of, left := fmt.Sprint(p.AtLeast), p.Left.Round(time.Second).String()
	if p.AtMost > p.AtLeast {
		of, left = fmt.Sprintf("%d to %d", p.AtLeast, p.AtMost), fmt.Sprintf("%s to %s", left, p.LeftMax.Round(time.Second))
	}
	return fmt.Sprintf("sample %d of %s: %s of %s, about %s left", p.Done+1, of, p.Turn.Workload, p.Turn.Mode, left)
}

// checkpoint is the file that a campaign's samples are written to as they are taken.
type checkpoint struct {
	name string   // empty: there is none
	file *os.File // nil: there is none
}

// openCheckpoint begins a campaign's file, or goes on with it.
func (a *app) openCheckpoint(f *modesFlags, c *measure.ModesCampaign) (*checkpoint, error) {
	name := a.checkpointFile(f)
	if name == "" {
		return &checkpoint{}, nil
	}
	const hint = "--checkpoint names another file; with --keep=false there is none"
	if f.resume != "" {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("campaign: %w", err), "")
		}
		// A line that was cut off is overwritten.
		if err = file.Truncate(f.resumedFrom); err == nil {
			_, err = file.Seek(0, io.SeekEnd)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("campaign %s: %w", name, err), file.Close())
		}
		return &checkpoint{name: name, file: file}, nil
	}
	if f.checkpoint == "" {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, outcome.Failed(fmt.Errorf("campaign: %w", err), hint)
		}
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("campaign: %w", err), hint)
	}
	if err := errors.Join(measure.EncodeCampaign(file, c), file.Sync()); err != nil {
		return nil, errors.Join(outcome.Failed(fmt.Errorf("campaign %s: %w", name, err), hint), file.Close())
	}
	return &checkpoint{name: name, file: file}, nil
}

// add writes a sample; it is on the disk when add returns.
func (c *checkpoint) add(cell measure.ModeCell) error {
	if c.file == nil {
		return nil
	}
	return errors.Join(measure.EncodeCell(c.file, facts.Whole(&cell)), c.file.Sync())
}

// Close closes the file, which stays.
func (c *checkpoint) Close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// finishModes saves and shows a result. failure is what ended the campaign early, or nil.
func (a *app) finishModes(m *measure.Modes, f *modesFlags, checkpoint string, failure error) error {
	again := "nothing was written that could be resumed"
	if checkpoint != "" {
		again = "'mpps bench modes --resume " + checkpoint + "' goes on with it"
		if f.lab {
			again = "'mpps bench modes --lab --resume " + checkpoint + "' goes on with it"
		}
	}
	if m.Samples == 0 {
		if failure == nil {
			failure = outcome.Failed(errors.New("interrupted before the first sample was complete"), again)
		}
		return failure
	}
	var text bytes.Buffer
	if err := measure.EncodeModes(&text, facts.Whole(m)); err != nil {
		return errors.Join(failure, fmt.Errorf("encode the result: %w", err))
	}
	warn := func(w measure.Warning) { m.Warnings = append(m.Warnings, w) }
	saved, err := a.save(text.Bytes(), m.Started, "modes", &benchFlags{keep: f.keep, output: f.output}, warn)
	if err != nil {
		return errors.Join(failure, err)
	}
	if f.forgottenWhenItEnded && !m.Partial && len(saved) > 0 {
		failure = errors.Join(failure, os.Remove(checkpoint))
	}
	var warnings []outcome.Warning
	warnings = append(warnings, m.Warnings...)
	err = a.answer(report.Answer{
		Verb: "bench-modes", Host: m.Host, Result: m, Warnings: warnings,
		Text: func(t *report.Text) { drawModes(t, m, saved) },
	}, func(s *export.Set) { s.AddModes(m, export.Format(a.format)) })
	switch {
	case err != nil || failure != nil:
		return errors.Join(failure, err)
	case m.Partial:
		return outcome.Failed(fmt.Errorf("not complete: %s taken, %s missing at least", ops.Count(m.Samples, "sample"), fmt.Sprint(m.Missing)), again)
	}
	return nil
}
