// Package queues implements 'mpps path': it watches which queues packets take, and steers them.
package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/queuepath"
	"mpps/internal/measure/trace"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Options select what is watched.
type Options struct {
	For         time.Duration
	Netns       string // network namespace; empty: that of the process
	Guest       string // show only packets from and to this guest; empty: all
	EveryPacket bool   // trace every packet, not only those of short windows
}

// Answer is an observed queue path.
type Answer struct {
	Host     string
	Path     *queuepath.Path
	Warnings []outcome.Warning
}

// Watch traces packets through the host and judges their queue path.
func Watch(ctx context.Context, env *ops.Env, a Options) (*Answer, error) {
	h, err := env.Host(ctx, ops.Look{Guest: ops.NoGuest})
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := ops.CheckGuest(h.Facts, a.Guest); err != nil {
		return nil, err
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
	warnings := processSwitches(h.Facts)
	if a.Netns == "" {
		warnings = append(warnings, otherNamespaces(h.Facts)...)
	}
	p := queuepath.Judge(o)
	if a.Guest != "" {
		p = p.Of(a.Guest)
	}
	return &Answer{Host: h.Facts.Name, Path: p, Warnings: append(warnings, caveats(&p.Observation)...)}, nil
}

// processSwitches warns of bridges of guests whose packets a process switches: what it does with them is not seen.
func processSwitches(h *facts.Host) (warnings []outcome.Warning) {
	for _, bridge := range queuepath.ProcessSwitches(h) {
		warnings = append(warnings, outcome.Warning{
			Code: "process-switch",
			Text: fmt.Sprintf("packets of guests at %s are switched by a process (Open vSwitch's datapath netdev): "+
				"they pass no queue of the kernel between tap and NIC", bridge),
			Hint: "ovs-appctl dpif-netdev/pmd-rxq-show shows which thread polls which queue",
		})
	}
	return warnings
}

// otherNamespaces names the running guests whose taps are in other network namespaces: only one is watched at a time.
func otherNamespaces(h *facts.Host) []outcome.Warning {
	there := facts.Where(h.Guests, func(g facts.Guest) bool {
		away := func(i facts.Interface) bool { return g.Away(&i) }
		return g.Active() && (g.Elsewhere || slices.ContainsFunc(g.NICs(), away))
	})
	if len(there) == 0 {
		return nil
	}
	names := there[0].Name
	if more := len(there) - 1; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return []outcome.Warning{{
		Code: "other-namespace",
		Text: "packets of " + names + " are not followed: their taps are in other network namespaces",
		Hint: "--netns watches a namespace that has a name; 'mpps diagnose' counts what is lost in the others",
	}}
}

func progress(env *ops.Env, whole time.Duration) func(time.Duration) {
	return func(done time.Duration) {
		env.Out.Progress("watching queues: %s", ops.Elapsed(done, whole))
	}
}

// caveats returns warnings that qualify an observation.
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

// addLanes adds to each NIC the queues that the steering program assigns to taps now: a queue that lanes share on
// purpose is not a collision.
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

// lanesByTap replaces the guest's MAC address, by which lanes name a tap, with the tap's device name.
func lanesByTap(lanes []setting.Lane, h *facts.Host) []setting.Lane {
	taps := map[string]string{}
	for i := range h.Guests {
		for _, nic := range h.Guests[i].NICs() {
			if tap := h.Guests[i].TapHere(&nic); tap != "" {
				taps[nic.MAC] = tap
			}
		}
	}
	named := slices.Clone(lanes)
	for i, l := range lanes {
		named[i].Tap = cmp.Or(taps[l.Tap], l.Tap)
	}
	return named
}
