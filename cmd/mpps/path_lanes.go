package main

import (
	"context"
	"errors"

	"mpps/internal/facts"
	"mpps/internal/queuepath"
	"mpps/internal/setting"
)

// tellLanes adds the windows that the steering program gives to taps now to what was seen of their NICs: a queue that lanes were told to
// share is no collision.
func (a *app) tellLanes(ctx context.Context, o *queuepath.Observation, h *facts.Host) error {
	m, err := a.env().Open()
	if err != nil {
		return err
	}
	nics, err := m.SteeredNICs()
	read := m.Mechanisms()[setting.QueueLanes]
	for _, nic := range nics {
		d := o.Device(nic)
		if d == nil {
			continue
		}
		if r := read.Read(ctx, setting.Of(setting.QueueLanes, nic)); r.State == setting.Known {
			lanes, errLanes := setting.ParseLanes(r.Value)
			err = errors.Join(err, errLanes)
			d.Lanes = lanesByTap(lanes, h)
		}
	}
	return errors.Join(err, m.Close())
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
