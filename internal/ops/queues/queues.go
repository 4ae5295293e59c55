// Package queues does what 'mpps path' does: it watches which queues packets take, and steers them.
package queues

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/measure/trace"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Ask is what is watched.
type Ask struct {
	For         time.Duration
	Netns       string // network namespace; empty: one's own
	Guest       string // show only the packets from and to it; empty: all
	EveryPacket bool   // not those of short windows alone
}

// Watched is what was seen.
type Watched struct {
	Host     string
	Path     *queuepath.Path
	Warnings []outcome.Warning
}

// Watch watches packets on their way through the host.
func Watch(ctx context.Context, env *ops.Env, a Ask) (*Watched, error) {
	h, err := env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if a.Guest != "" {
		if err := ops.HasGuest(h.Facts, a.Guest); err != nil {
			return nil, err
		}
	}
	o, err := trace.Watch(ctx, trace.Config{
		Netns: a.Netns, For: a.For, EveryPacket: a.EveryPacket, Host: h.Facts, Progress: progress(env, a.For),
	})
	if err == nil && a.Netns == "" {
		err = addLanes(ctx, o, h)
	}
	if err != nil {
		return nil, err
	}
	p := queuepath.Judge(o)
	if a.Guest != "" {
		p = p.Of(a.Guest)
	}
	return &Watched{Host: h.Facts.Name, Path: p, Warnings: caveats(&p.Observation)}, nil
}

func progress(env *ops.Env, whole time.Duration) func(time.Duration) {
	return func(done time.Duration) {
		env.Out.Progress("watching queues: %.0f of %.0f s", done.Seconds(), whole.Seconds())
	}
}

// caveats are what a reader must know of what was watched.
func caveats(o *queuepath.Observation) []outcome.Warning {
	var warnings []outcome.Warning
	for _, u := range o.Unseen {
		warnings = append(warnings, outcome.Warning{Code: "unseen", Text: u.What + ": " + u.Why})
	}
	if o.Lost.Rows > 0 {
		warnings = append(warnings, outcome.Warning{
			Code: "rows-lost",
			Text: fmt.Sprintf("%d frames were not counted: there was no room for their row, or their device was new",
				o.Lost.Rows),
			Hint: "watch a shorter time, or one network namespace of several",
		})
	}
	var frames uint64
	for i := range o.Rows {
		frames += o.Rows[i].Frames
	}
	if o.Lost.Joins > frames/50 {
		warnings = append(warnings, outcome.Warning{
			Code: "joins-lost",
			Text: fmt.Sprintf("of %d of %d frames only the device is known that they came by, not its queue: "+
				"copies that a bridge made, or packets that were under way before", o.Lost.Joins, frames),
		})
	}
	return warnings
}

// addLanes adds the queues that the steering program gives to each tap now: a queue that lanes share on purpose is no
// collision.
func addLanes(ctx context.Context, o *queuepath.Observation, h *ops.Host) error {
	nics, err := h.Machine.SteeredNICs()
	for _, nic := range nics {
		d := o.Device(nic)
		if d == nil {
			continue
		}
		if r := h.Mechanisms[setting.QueueLanes].Read(ctx,
			setting.Of(setting.QueueLanes, nic)); r.State == setting.Known {
			lanes, errLanes := setting.ParseLanes(r.Value)
			err = errors.Join(err, errLanes)
			d.Lanes = lanesByTap(lanes, h.Facts)
		}
	}
	return err
}

// lanesByTap names taps by their devices where lanes name them by the address that the guest sees.
func lanesByTap(lanes []setting.Lane, h *facts.Host) []setting.Lane {
	taps := map[string]string{}
	for i := range h.Guests {
		for _, nic := range h.Guests[i].NICs() {
			if nic.Tap != "" {
				taps[nic.MAC] = nic.Tap
			}
		}
	}
	named := make([]setting.Lane, len(lanes))
	for i, l := range lanes {
		if tap, known := taps[l.Tap]; known {
			l.Tap = tap
		}
		named[i] = l
	}
	return named
}
