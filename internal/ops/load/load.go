// Package load measures what the stages of the packet path do, once or repeatedly.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/machine"
	"mpps/internal/machine/load"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Read reads a snapshot that includes a load.
func Read(file string) (*facts.Host, error) {
	h, err := ops.ReadSnapshot(file)
	if err == nil && h.Load == nil {
		err = outcome.Failed(fmt.Errorf("%s holds a host, but not what its stages did", file),
			"make one with 'mpps diagnose -o FILE' while traffic runs")
	}
	return h, err
}

// Options select what is watched.
type Options struct {
	Interval time.Duration
	Guest    string   // the guest to judge; empty: none
	Netns    []string // network namespaces besides that of the process
	Counters bool     // only counters: load nothing into the kernel
}

// Watch watches the path for an interval and returns the host with its load.
func Watch(ctx context.Context, env *ops.Env, o Options) (*facts.Host, error) {
	m, err := env.Open()
	if err != nil {
		return nil, err
	}
	m.Inside.Select(o.Guest)
	h := m.Inventory(ctx)
	if err := cmp.Or(ops.Complete(ctx), ops.CheckGuest(h, o.Guest)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	machine.Read(ctx, m.Within(ctx).Mechanisms(), h, bottleneck.Addresses())
	done := env.Countdown("watching the path", o.Interval)
	defer done()
	h.Load = load.Observe(ctx, m.Tree, h, load.Options{Interval: o.Interval, Netns: watched(h, o.Guest, o.Netns),
		Counters: o.Counters, Inside: m.Inside})
	return h, m.Close()
}

// watched returns the network namespaces to watch: the process's, those asked for, and those that guests' packets pass.
func watched(h *facts.Host, guest string, asked []string) []string {
	all := append([]string{""}, asked...)
	for _, name := range load.Spaces(h, guest) {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Caveats returns warnings that qualify a load.
func Caveats(h *facts.Host, l *facts.Load) []outcome.Warning {
	warnings := ops.AccessWarnings(h)
	for _, u := range l.Unseen {
		warnings = append(warnings, outcome.Warning{Code: "unseen", Text: u.What + ": " + u.Why})
	}
	return warnings
}
