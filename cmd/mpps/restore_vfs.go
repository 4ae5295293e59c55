package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/apply"
	"mpps/internal/journal"
	"mpps/internal/lasting"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// vfsPause is how often what is missing is looked at again.
const vfsPause = 200 * time.Millisecond

// restoreVFs puts back, in the order of the list, what makes virtual functions what they are. At a boot devices appear one
// after the other, and links come up seconds after their device: what is not there, or refused, is tried again until the time
// is over. A device that udev has yet to name may bear the name of another for a moment.
func (a *app) restoreVFs(ctx context.Context, e *engine, r *apply.Restorer, wait time.Duration) error {
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	defer m.Close()
	all := r.Desired
	r.Desired = func() ([]lasting.Value, error) {
		values, err := all()
		return slices.DeleteFunc(values, func(v lasting.Value) bool {
			return !lasting.OfVFs(v.Address) || m.Live() && !m.Named(lasting.PF(v.Address))
		}), err
	}
	known := a.recall(e.BootID).ByHand
	total := apply.Pass{PutBack: []apply.PutBack{}, ByHand: []apply.ByHand{}}
	for began := time.Now(); ; {
		values, err := all()
		if err != nil {
			return err
		}
		expected := slices.DeleteFunc(values, func(v lasting.Value) bool { return !lasting.OfVFs(v.Address) })
		if err := r.Load(); err != nil {
			return err
		}
		pass, err := r.Once(ctx, known)
		var locked *journal.Locked
		if err != nil && !errors.As(err, &locked) {
			return err
		}
		total = gathered(total, pass, len(expected))
		total.Seconds = time.Since(began).Seconds()
		done := err == nil && pass.Values == len(expected) && pass.Absent == 0 && pass.Failed() == 0
		if done && len(pass.PutBack) == 0 || time.Since(began) >= wait {
			if err != nil {
				return err
			}
			break
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(vfsPause):
		}
	}
	err = a.out.Answer(report.Answer{Verb: "restore", Host: e.name, Result: total, Text: func(t *report.Text) { report.PutBack(t, total) }})
	if err != nil {
		return err
	}
	if missing := total.Absent; missing > 0 {
		return outcome.Failed(fmt.Errorf("%s of devices that did not appear within %v", counted(missing, "value"), wait), "mpps-restore.service puts them back when they appear")
	}
	if total.Failed() > 0 {
		return outcome.Exit(outcome.CodeFailed)
	}
	return nil
}

// gathered adds a pass to those before it: of each value the last outcome counts.
func gathered(total, pass apply.Pass, values int) apply.Pass {
	for _, b := range pass.PutBack {
		at := slices.IndexFunc(total.PutBack, func(o apply.PutBack) bool { return o.Address == b.Address })
		if at < 0 {
			total.PutBack = append(total.PutBack, b)
			continue
		}
		b.From = total.PutBack[at].From
		total.PutBack[at] = b
	}
	total.Values, total.ByHand = values, pass.ByHand
	total.Absent = pass.Absent + values - pass.Values
	return total
}
