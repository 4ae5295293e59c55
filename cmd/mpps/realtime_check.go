package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/knob"
	"mpps/internal/realtime"
	"mpps/internal/report"
	"mpps/internal/report/words"
	"mpps/internal/setting"
)

// realtimeFlags are the flags of mpps realtime check.
type realtimeFlags struct {
	guest, list, snapshot, failOn string
	interval                      time.Duration
	watch                         bool // --for was given
	cpus                          setting.CPUSet
}

func (a *app) realtimeCheckCommand() *cobra.Command {
	var f realtimeFlags
	cmd := &cobra.Command{
		Use:   "check",
		Short: "what contradicts that CPUs are set aside, and what ran there",
		Long: `Compares everything that says which CPU is for what: isolcpus, nohz_full,
rcu_nocbs and irqaffinity of this boot and of the next one, what the kernel
shows of them, irqbalance, control groups, the guests' pins, priorities, memory
and threads, interrupts, workqueues, watchdogs. Then it watches the CPUs for a
while and says what ran and what interrupted there, and whether the CPUs that
are left are enough for the host. Each contradiction and each intruder is named
worst first, with its numbers and with what mends it, or that nothing does.
Nothing is changed. Watching takes at most 2 % of one CPU.

The CPUs are those of --cpus, else of the vCPUs of --guest, else those that are
isolated or without a tick. What could not be seen is said, and is no finding.

  mpps realtime check
  mpps realtime check --guest rt1 --for 30s
  mpps realtime check --cpus 20-23 --fail-on high --json
  mpps snapshot --interval 5s -o host.json     carries what was watched
  mpps realtime check --snapshot host.json

Exit codes: 0 all well, or findings below --fail-on · 1 failed · 3 no CPU is set
aside · 4 a finding is as severe as --fail-on or more.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.watch = cmd.Flags().Changed("for")
			if err := f.check(); err != nil {
				return err
			}
			return a.runRealtimeCheck(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.guest, "guest", "", "the guest that the CPUs are for")
	flags.StringVar(&f.list, "cpus", "", "CPUs that should be quiet, such as 20-23")
	flags.DurationVar(&f.interval, "for", 5*time.Second, "how long to watch, at most an hour; 0 does not watch")
	flags.StringVar(&f.snapshot, "snapshot", "", "a snapshot file instead of this machine")
	flags.StringVar(&f.failOn, "fail-on", "", "exit with 4 where a finding has this severity or worse: "+strings.Join(knob.Severities(), ", "))
	return cmd
}

func (f *realtimeFlags) check() error {
	var err error
	if f.cpus, err = setting.ParseCPUs(f.list); err != nil {
		return usage(fmt.Errorf("--cpus: %w", err), "such as --cpus 20-23")
	}
	switch {
	case f.interval != 0 && f.interval < 100*time.Millisecond || f.interval > time.Hour:
		return usage(fmt.Errorf("--for %v: expected 100ms to 1h, or 0", f.interval), "such as --for 5s; 0 does not watch")
	case f.snapshot != "" && f.watch:
		return usage(errors.New("--for watches a live machine, --snapshot is a file"), "mpps snapshot --interval 5s records what is watched")
	case f.failOn != "" && !slices.Contains(knob.Severities(), f.failOn):
		return usage(fmt.Errorf("--fail-on %q: expected one of %s", f.failOn, strings.Join(knob.Severities(), ", ")), "")
	}
	return nil
}

func (a *app) runRealtimeCheck(ctx context.Context, f *realtimeFlags) error {
	h, s, err := a.watched(ctx, f)
	if err != nil {
		return err
	}
	r := realtime.Check(h, h.Observed, s)
	err = a.out.Answer(report.Answer{
		Verb: "realtime-check", Host: h.Name, Result: r, Warnings: notRoot(h),
		Text: func(t *report.Text) { report.RealtimeCheck(t, r, a.verbose) },
	})
	switch {
	case err != nil:
		return err
	case r.State == realtime.NotIsolated:
		return exit(exitNotConfigured)
	case f.failOn == "":
		return nil
	}
	var worst knob.Severity
	if err := worst.UnmarshalText([]byte(f.failOn)); err != nil {
		return err
	}
	if len(r.AtLeast(worst)) > 0 {
		return exit(exitDrifted)
	}
	return nil
}

// watched takes the facts, finds out which CPUs are meant, and watches them.
func (a *app) watched(ctx context.Context, f *realtimeFlags) (*facts.Host, realtime.Scope, error) {
	none := realtime.Scope{}
	if f.snapshot != "" {
		h, err := readSnapshot(f.snapshot)
		if err != nil {
			return nil, none, err
		}
		s, err := f.scope(h)
		return h, s, err
	}
	m, err := host.Open(a.root)
	if err != nil {
		return nil, none, failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	defer m.Close()
	if f.watch && f.interval > 0 && !m.Live() {
		return nil, none, usage(errors.New("--root is for recorded machines, and --for watches a live one"), "leave one of the two out")
	}
	m.LookInside(host.NoGuest)
	h := m.Inventory(ctx)
	s, err := f.scope(h)
	if err != nil {
		return nil, none, err
	}
	host.Read(ctx, m.Mechanisms(), h, realtime.Addresses(h))
	if f.interval > 0 && m.Live() && len(s.CPUs) > 0 {
		a.out.Progress("watching %s for %v", words.CPUs(s.CPUs), f.interval)
		h.Observed = m.Observe(ctx, h, s.CPUs, f.interval)
	}
	return h, s, nil
}

// scope is which CPUs of a host are judged.
func (f *realtimeFlags) scope(h *facts.Host) (realtime.Scope, error) {
	m := machine{facts: h}
	if err := m.has(goal.Goal{CPUs: f.cpus, Guest: f.guest}); err != nil {
		return realtime.Scope{}, err
	}
	return realtime.Find(h, f.cpus, f.guest), nil
}
