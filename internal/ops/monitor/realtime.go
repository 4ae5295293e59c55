package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/realtime"
	"mpps/internal/machine"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// RealtimeOptions select the CPUs whose isolation is checked.
type RealtimeOptions struct {
	Snapshot string         // a file of 'mpps snapshot' instead of the machine
	Guest    string         // the guest that the CPUs are for; empty: any
	CPUs     setting.CPUSet // that should be quiet; none: those of the guest, or else the isolated ones
	For      time.Duration  // how long to watch them; 0: not at all
	Asked    bool           // For was given by the user: a machine that cannot be watched is refused
}

func (a *RealtimeOptions) check() error {
	switch {
	case a.For != 0 && a.For < 100*time.Millisecond || a.For > time.Hour:
		return outcome.Usage(fmt.Errorf("--for %v: expected 100ms to 1h, or 0", a.For),
			"such as --for 5s; 0 does not watch")
	case a.Snapshot != "" && a.Asked:
		return outcome.Usage(errors.New("--for watches a live machine, --snapshot is a file"),
			"mpps snapshot --interval 5s records what is watched")
	}
	return nil
}

// Realtime watches the selected CPUs and reports what contradicts their isolation.
func Realtime(ctx context.Context, env *ops.Env, a RealtimeOptions) (*facts.Host, *realtime.Report, error) {
	if err := a.check(); err != nil {
		return nil, nil, err
	}
	h, err := env.Host(ctx, ops.Look{Snapshot: a.Snapshot, Guest: ops.NoGuest})
	if err != nil {
		return nil, nil, err
	}
	defer h.Close()
	m := h.Machine
	if m != nil && a.Asked && a.For > 0 && !m.Live() {
		return nil, nil, outcome.Usage(errors.New("--root is for recorded machines, and --for watches a live one"),
			"leave one of the two out")
	}
	if err := ops.CheckGoal(h.Facts, goal.Goal{CPUs: a.CPUs, Guest: a.Guest}); err != nil {
		return nil, nil, err
	}
	s := realtime.FindScope(h.Facts, a.CPUs, a.Guest)
	if m != nil {
		h.Read(ctx, realtime.Addresses()...)
		if a.For > 0 && m.Live() && len(s.CPUs) > 0 {
			done := env.Countdown("watching "+s.CPUs.Words(), a.For)
			h.Facts.Observed = m.Observe(ctx, h.Facts, s.CPUs, a.For, machine.ObserveShare)
			done()
		}
	}
	return h.Facts, realtime.Check(h.Facts, h.Facts.Observed, s), nil
}
