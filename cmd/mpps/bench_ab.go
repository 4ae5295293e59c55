package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/journal"
	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/measure/rig"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// gear is what a measurement is done with, once its ends are open.
type gear struct {
	alone   func(context.Context, *measure.Run) error
	inTurns func(context.Context, [2]measure.Configuration, int, uint64) (measure.Interleaved, error)
	ends    func(*measure.Run) // names the ends
	told    func(*measure.Run) // adds what is known only afterwards
	close   func() error
}

// measured opens the machine and the ends, measures and answers: one run, or with --plan two in turns.
func (a *app) measured(ctx context.Context, kind measure.Kind, f *benchFlags, load measure.Load, open func(*rig.Machine, func(measure.Step)) (*gear, error)) error {
	if err := a.fits(kind, load); err != nil {
		return err
	}
	var turns *turning
	if f.planFile != "" {
		// A shell that goes away ends it like Ctrl-C: everything is put back.
		var stop context.CancelFunc
		ctx, stop = ops.UntilHangup(ctx)
		defer stop()
		var err error
		if turns, err = a.turning(ctx, f.planFile); err != nil {
			return err
		}
		defer turns.close()
	}
	m, err := a.openMachine()
	if err != nil {
		return err
	}
	defer m.Close()
	g, err := open(m, a.progress(kind))
	if err != nil {
		return err
	}
	run, err := a.newRun(ctx, kind, f.name, load)
	if err != nil {
		return errors.Join(err, g.close())
	}
	g.ends(run)
	if turns != nil {
		return a.compareInTurns(ctx, g, turns, run, f)
	}
	err = g.alone(ctx, run)
	g.told(run)
	return a.finish(run, f, errors.Join(err, g.close()))
}

// compareInTurns measures as found and as planned in turns, puts everything back and answers.
func (a *app) compareInTurns(ctx context.Context, g *gear, turns *turning, before *measure.Run, f *benchFlags) error {
	after := *before
	before.Name, after.Name = "as found", "as planned"
	seed := f.seed
	if !f.changed("seed") {
		seed = uint64(rand.Uint32())
	}
	result, err := g.inTurns(ctx, turns.sides(before, &after), f.blocks, seed)
	if interrupted(ctx, err) {
		err = nil
	}
	back := turns.back(ctx)
	g.told(before)
	g.told(&after)
	err = errors.Join(back, err, g.close())
	if len(result.Order) == 0 {
		if err == nil {
			err = outcome.Failed(errors.New("interrupted before the first block was complete"), "everything is as it was found")
		}
		return err
	}
	ab, wrong := measure.NewAB(result, before, &after, f.blocks)
	if wrong != nil {
		return errors.Join(err, wrong)
	}
	ab.Name, ab.Plan, ab.Changes, ab.Switches, ab.RolledBack = f.name, turns.plan.Digest, turns.changes(), turns.times, turns.tx == ""
	return a.finishAB(ab, f, err)
}

// interrupted tells whether an error says no more than that the user had enough.
func interrupted(ctx context.Context, err error) bool {
	var failure *apply.Failure
	if errors.As(err, &failure) && failure.State != journal.FailedUndone {
		return false
	}
	return ctx.Err() != nil && (errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()))
}

// finishAB saves and shows a comparison. failure is what ended it early, or nil.
func (a *app) finishAB(ab *measure.AB, f *benchFlags, failure error) error {
	var text bytes.Buffer
	if err := measure.EncodeAB(&text, facts.Whole(ab)); err != nil {
		return errors.Join(failure, fmt.Errorf("encode the comparison: %w", err))
	}
	warn := func(w measure.Warning) { ab.Warnings = append(ab.Warnings, w) }
	saved, err := a.save(text.Bytes(), ab.BeforeRun.Started, string(ab.Kind)+"-ab", f, warn)
	if err != nil {
		return errors.Join(failure, err)
	}
	err = a.answer(report.Answer{
		Verb: "bench-ab", Host: ab.BeforeRun.Host, Result: ab, Warnings: warningsOf(ab),
		Text: func(t *report.Text) { drawAB(t, ab, saved) },
	}, func(s *export.Set) { s.AddAB("", ab) })
	switch {
	case err != nil || failure != nil:
		return errors.Join(failure, err)
	case ab.Partial:
		return outcome.Failed(fmt.Errorf("interrupted: %d of %d blocks were completed", len(ab.Order), ab.Blocks), "everything is as it was found")
	case !ab.Valid():
		return outcome.Exit(outcome.CodeNotDevice)
	}
	return nil
}

// warningsOf are those of the comparison and of both sides. What both sides say is said once.
func warningsOf(ab *measure.AB) []outcome.Warning {
	var all []outcome.Warning
	all = append(all, ab.Warnings...)
	after := map[string]bool{}
	for _, w := range ab.AfterRun.Warnings {
		after[w.Code] = true
	}
	said := map[string]bool{}
	for _, w := range ab.BeforeRun.Warnings {
		said[w.Code] = true
		if !after[w.Code] {
			w.Text = ab.BeforeRun.Name + ": " + w.Text
		}
		all = append(all, w)
	}
	for _, w := range ab.AfterRun.Warnings {
		if !said[w.Code] {
			w.Text = ab.AfterRun.Name + ": " + w.Text
			all = append(all, w)
		}
	}
	return all
}

func drawAB(t *report.Text, ab *measure.AB, saved []string) {
	title := "bench " + string(ab.Kind) + " in turns"
	if ab.Name != "" {
		title += ": " + ab.Name
	}
	t.Heading(title)
	t.Wrapped("  ", place(ab.BeforeRun.From)+" → "+place(ab.BeforeRun.To))
	t.Wrapped("  ", fmt.Sprintf("%s; %d blocks of four, seed %d", loadOf(&ab.BeforeRun), len(ab.Order), ab.Seed))
	for _, c := range ab.Changes {
		t.Wrapped("  plan: ", fmt.Sprintf("%s %s → %s", c.Address, c.From, c.To))
	}
	t.Blank()
	t.Table([][]string{
		{"  as found", estimate(ab.Before, ab.Unit), spread(ab.Before)},
		{"  as planned", estimate(ab.After, ab.Unit), spread(ab.After)},
	})
	verdict := ab.Verdict
	if !ab.Significant {
		verdict += " no significant difference"
	}
	t.Line("  %s  (%s, p = %.2g)", t.In(report.Bold, verdict), ab.Test, ab.P)
	if ab.Cost != nil && ab.Cost.Ratio.N > 0 {
		t.Line("  CPU cost of each: %s", ab.Cost)
	}
	for _, r := range []*measure.Run{&ab.BeforeRun, &ab.AfterRun} {
		style := report.Green
		if !r.Valid() {
			style = report.RedBold
		}
		if r.Kind == measure.PPS {
			t.Wrapped("  "+r.Name+": limited by "+t.In(style, string(r.LimitedBy))+": ", strings.Join(r.Evidence, "; "))
		}
	}
	t.Blank()
	rows := [][]string{{"  block", "order", "as found, " + ab.Unit, "as planned, " + ab.Unit}}
	for i, block := range ab.Values {
		rows = append(rows, []string{fmt.Sprintf("  %5d", i+1), ab.Order[i], rates(block.A), rates(block.B)})
	}
	t.Table(rows)
	if ab.RolledBack {
		t.Line("  everything is as it was found; the plan was applied %s", ops.Count(ab.Switches, "time"))
	}
	for _, file := range saved {
		t.Line("  saved as %s", file)
	}
}
