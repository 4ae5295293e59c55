package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/host"
	"mpps/internal/journal"
	"mpps/internal/knob"
	"mpps/internal/lasting"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/setting"
)

// defaultConfirm is the time to confirm changes that can cut the path that the operator came by.
const defaultConfirm = time.Minute

func (a *app) applyCommand() *cobra.Command {
	var flags goalFlags
	var confirm time.Duration
	var dryRun, detailed, runtimeOnly, resume bool
	cmd := &cobra.Command{
		Use:   "apply [PLAN]",
		Short: "make the changes of a plan, all or none",
		Long: `Makes the changes of a plan (a file of 'mpps plan -o', - for standard input, or
a plan made now from the goal flags). Each value is journaled before it is
written, and read back afterwards. Where one fails, or on Ctrl-C, everything is
put back. A plan that no longer fits the host is refused: other values, or a
change that is riskier now than the plan says. Nothing is ever restarted. What
makes the values last (files, the service that puts values back) is changed, and
undone, with them; --runtime-only leaves it out.

With --confirm the changes are undone by themselves, even if this shell dies,
unless 'mpps confirm' follows in time. That is on (60s) for plans with changes
of risk connectivity; --confirm 0 turns it off.

A plan of which a part waits for a reboot or a guest's restart is gone on with
by --resume: it looks at the host anew with the goal of the newest transaction
that waited, and applies what remains as a transaction that follows it.
'mpps status' shows what that would be.

  mpps apply plan.json
  mpps apply plan.json --confirm 2m && mpps confirm
  mpps apply --pps 1.8M --dry-run
  mpps apply --resume

Exit codes: 0 all is as planned · 1 failed, and put back · 2 changes were made,
or with --dry-run would be (--detailed-exit-code) · 3 no transaction waits to be
gone on with (--resume) · 11 another mpps is at work.`,
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, given []string) error {
			if confirm != 0 && (confirm < time.Second || confirm > 24*time.Hour) {
				return usage(fmt.Errorf("--confirm %v: expected 1s to 24h, or 0 for never", confirm), "")
			}
			if len(given) > 0 && flags.given(cmd) {
				return usage(errors.New("a plan file and goal flags: expected one of them"), "the goal is part of the plan")
			}
			if resume && (len(given) > 0 || flags.given(cmd) || runtimeOnly) {
				return usage(errors.New("--resume and a plan file, goal flags or --runtime-only: expected --resume alone"), "the goal is that of the transaction that is gone on with; to change it: 'mpps apply' with the new goal")
			}
			run := func(p *plan.Plan, m *machine, cuts, runtimeOnly bool, r *apply.Remains) error {
				o := apply.Options{DryRun: dryRun, Confirm: confirm, Beside: besides(p, m.facts)}
				if r != nil {
					newest := r.Newest()
					o.Follows, o.Newest = r.TX, &newest
				}
				if err := a.keepGoal(&o, p, m, runtimeOnly); err != nil {
					return err
				}
				if !cmd.Flags().Changed("confirm") && cuts {
					o.Confirm = defaultConfirm
				}
				if o.Confirm > 0 {
					o.Arm = a.guard(cmd.Context(), o.Confirm)
				}
				return a.apply(cmd.Context(), p, m, o, detailed)
			}
			if resume {
				return a.whileMoving(func() error {
					return a.resume(cmd.Context(), func(p *plan.Plan, m *machine, runtimeOnly bool, r *apply.Remains) error {
						return run(p, m, risks(p, goal.Connectivity), runtimeOnly, r)
					})
				})
			}
			once := func() error {
				p, m, cuts, err := a.planned(cmd.Context(), given, &flags, runtimeOnly)
				if err != nil {
					return err
				}
				defer m.close()
				return run(p, m, cuts, runtimeOnly, nil)
			}
			if len(given) > 0 {
				return once()
			}
			return a.whileMoving(once)
		},
	}
	flags.add(cmd)
	flags.addWatch(cmd)
	cmd.Flags().DurationVar(&confirm, "confirm", 0, "undo unless 'mpps confirm' follows within this time, such as 60s")
	cmd.Flags().BoolVar(&resume, "resume", false, "go on with the plan of the newest transaction that waited for a reboot or a guest's restart")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "read everything, write nothing")
	cmd.Flags().BoolVar(&runtimeOnly, "runtime-only", false, "change only the running host: nothing that outlasts a reboot or an ifup")
	cmd.Flags().BoolVar(&detailed, "detailed-exit-code", false, "exit with 2 where changes were made or would be")
	return cmd
}

// looks is how often a plan is made anew where values do not stand still.
const looks = 3

// whileMoving plans anew where a value has changed since the host was looked at: a host that is not tuned yet has irqbalance, and
// NICs that come up, which move interrupts every few seconds. Nothing was written then.
func (a *app) whileMoving(once func() error) error {
	for look := 1; ; look++ {
		err := once()
		var stale *plan.Stale
		if !errors.As(err, &stale) || look == looks {
			return err
		}
		a.out.Step("looking anew: %s", strings.TrimPrefix(stale.Error(), "plan is stale: "))
	}
}

// given tells whether any goal flag stands on the command line.
func (f *goalFlags) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"pps", "frame", "loss", "bulk", "latency", "cpus", "guest", "nic", "consent", "watch"}, cmd.Flags().Changed)
}

func risks(p *plan.Plan, risk goal.Risk) bool {
	return slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Risk == risk })
}

// planned is the plan of a file with the machine that it is to fit, or one made now. cuts tells whether it can cut the
// path that the operator came by.
func (a *app) planned(ctx context.Context, given []string, flags *goalFlags, runtimeOnly bool) (p *plan.Plan, m *machine, cuts bool, err error) {
	var g goal.Goal
	if len(given) == 0 {
		g, err = flags.goal()
	} else if p, err = a.readPlan(given[0]); err != nil {
		err = failed(fmt.Errorf("plan %s: %w", given[0], err), "make one with 'mpps plan -o FILE'")
	} else if runtimeOnly {
		lasting.Strip(p)
	}
	if err != nil {
		return nil, nil, false, err
	}
	guest := g.Guest
	if p != nil {
		guest = p.Goal.Guest
	}
	if m, err = a.gatherOver(ctx, "", 0, guest); err != nil {
		return nil, nil, false, err
	}
	if p != nil {
		host.Read(ctx, m.mechanisms, m.facts, p.Addresses())
		cuts, err = fits(p, m.facts)
	} else if err = m.has(g); err == nil {
		if p, err = a.lastingPlan(m, g, runtimeOnly); err == nil {
			err = flags.watchToo(p, m.facts)
			cuts = risks(p, goal.Connectivity)
		}
	}
	if err != nil {
		return nil, nil, false, errors.Join(err, m.close())
	}
	return p, m, cuts, nil
}

func (a *app) readPlan(name string) (*plan.Plan, error) {
	if name == "-" {
		return plan.Decode(&jsonText{from: a.stdin})
	}
	f, err := openJSON(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return plan.Decode(f)
}

// fits refuses a stale plan: one made of other values, or one that is riskier by what the host is now. Values that are as
// the plan wants them already do not make it stale. cuts tells whether it can cut the path that the operator came by.
func fits(p *plan.Plan, h *facts.Host) (cuts bool, err error) {
	var stale, riskier *plan.Stale
	if err := plan.Check(p, h); err != nil && !errors.As(err, &stale) {
		return false, err
	}
	if stale != nil {
		met := map[string]bool{}
		for _, c := range p.Changes {
			met[c.Address.String()] = c.Want.Met(h.Readings.At(c.Address))
		}
		stale.Changed = slices.DeleteFunc(stale.Changed, func(d plan.Difference) bool { return met[d.What] })
	}
	cuts, err = plan.Again(p, h, knob.Catalogue())
	switch {
	case err != nil && !errors.As(err, &riskier):
		return cuts, err
	case riskier == nil:
		riskier = &plan.Stale{Digest: p.Digest}
	}
	if stale != nil {
		riskier.Changed = append(stale.Changed, riskier.Changed...)
	}
	if len(riskier.Changed) > 0 {
		return cuts, riskier
	}
	return cuts, nil
}

// besides are the values of the catalogue that belong to a NIC which the plan sets up anew, and that it does not change
// itself: rings and channels make a driver ask for its interrupts and queues again. What moves by itself (adaptive
// coalescing) or comes back by itself (features that depend on others) is not among them.
func besides(p *plan.Plan, h *facts.Host) []setting.Address {
	anew, channels, changed := map[string]bool{}, map[string]bool{}, map[setting.Address]bool{}
	for _, c := range p.Changes {
		changed[c.Address] = true
		switch c.Address.Kind {
		case setting.NICRing, setting.NICChannels, setting.NICFeature:
			anew[c.Address.Object()] = true
		case setting.VFCount: // the driver has other queues for itself then, as many as it can
			anew[c.Address.Object()] = true
			channels[c.Address.Object()] = true
		}
	}
	if len(anew) == 0 {
		return nil
	}
	return slices.DeleteFunc(knob.Addresses(h, knob.Catalogue()), func(a setting.Address) bool {
		nic := a.Object()
		switch a.Kind {
		case setting.SysfsCPUs:
			nic, _, _ = strings.Cut(strings.TrimPrefix(a.Path, "class/net/"), "/")
		case setting.NICRing, setting.NICChannels, setting.NICFlowHash, setting.IRQAffinity:
		default:
			return true
		}
		return !anew[nic] || changed[a] || a.Kind == setting.NICChannels && channels[nic]
	})
}

// apply runs a plan and prints what became of it.
func (a *app) apply(ctx context.Context, p *plan.Plan, m *machine, o apply.Options, detailed bool) error {
	result, err := a.transact(ctx, p, m, o)
	var failure *apply.Failure
	if errors.As(err, &failure) && a.json { // programs get the outcome of every change too
		err = errors.Join(err, a.out.Answer(report.Answer{Verb: "apply", Host: m.facts.Name, Result: result}))
	}
	if err != nil {
		return err
	}
	answer := report.Answer{
		Verb: "apply", Host: m.facts.Name, Result: result, Warnings: append(append(a.notes, tunedCaveats(p, m.facts)...), afterwards(p, result)...),
		Text: func(t *report.Text) { report.Applied(t, result, o.DryRun, a.verbose) },
	}
	var acted error
	if m.act != nil {
		var told []report.Warning
		told, acted = m.act(ctx)
		answer.Warnings = append(answer.Warnings, told...)
	}
	if err := a.out.Answer(answer); err != nil {
		return err
	}
	if acted != nil {
		return acted
	}
	return wrote(result, o.DryRun, detailed)
}

// transact runs a plan as a transaction of its own. An error that is an *apply.Failure comes with the outcome of every change.
func (a *app) transact(ctx context.Context, p *plan.Plan, m *machine, o apply.Options) (apply.Result, error) {
	if err := a.needsRoot("apply"); err != nil && !o.DryRun {
		return apply.Result{}, err
	}
	e, err := a.engine(m.mechanisms)
	if err != nil {
		return apply.Result{}, err
	}
	defer e.close()
	a.wayIn(p, m.facts)
	e.Journal.Appended = func(_ string, r journal.Record) {
		if r.Address != nil {
			a.out.Progress("%d/%d %s", r.N, len(p.Changes), r.Address)
		}
	}
	// A shell that goes away ends an apply like Ctrl-C: what was begun is put back.
	ctx, stop := untilHangup(ctx)
	defer stop()
	result, err := e.Run(ctx, p, o)
	if err == nil {
		a.restarts = p.Restarts
	}
	var failure *apply.Failure
	if errors.As(err, &failure) && failure.State == journal.FailedUndone && o.Confirm > 0 {
		a.unguard(ctx, failure.TX)
	}
	return result, err
}

// afterwards is what there is to know about a transaction that came about: what it moved besides, and what waits.
func afterwards(p *plan.Plan, result apply.Result) []report.Warning {
	var all []report.Warning
	told := map[string]bool{}
	for _, c := range p.Changes {
		if p.Asked && c.Warning != "" && !told[c.Warning] {
			told[c.Warning] = true
			all = append(all, report.Warning{Code: "careful", Text: c.Warning})
		}
	}
	for _, moved := range result.Moved {
		all = append(all, report.Warning{
			Code: "moved", Text: fmt.Sprintf("%s moved from %s to %s when its device was set up anew, and could not be put back", moved.Address, moved.From, moved.Found),
			Hint: moved.Why,
		})
	}
	for _, r := range p.Restarts {
		all = append(all, report.Warning{
			Code: "restart-pending", Text: takeEffect(len(r.Addresses)) + " after " + r.What.String(),
			Hint: "mpps never restarts anything; 'mpps status' tells when it has taken effect",
		})
	}
	return all
}

// wrote is the exit code of a transaction that came about.
func wrote(result apply.Result, dryRun, detailed bool) error {
	changes := result.TX != "" || dryRun && slices.ContainsFunc(result.Changes, func(c apply.Outcome) bool { return c.State == journal.ChangeIntended })
	if detailed && changes {
		return exit(exitChanges)
	}
	return nil
}

// wayIn says how the operator comes to the host now, and whether a plan changes that. A plan that cannot cut it and does not
// touch it need not say so.
func (a *app) wayIn(p *plan.Plan, h *facts.Host) {
	cuts, found := risks(p, goal.Connectivity), false
	for _, nic := range h.NICs {
		if nic.Management == "" {
			continue
		}
		found = true
		touched := slices.ContainsFunc(p.Management, func(w plan.Management) bool { return w.NIC == nic.Name && w.Touched })
		switch {
		case touched:
			a.out.Step("your way in: %s (%s); this plan changes it", nic.Name, nic.Management)
		case cuts:
			a.out.Step("your way in: %s (%s); this plan does not change it", nic.Name, nic.Management)
		}
	}
	if cuts && !found {
		a.out.Step("your way in was not found: there is no default route and no SSH session by a NIC of this host")
	}
}

func takeEffect(n int) string {
	if n == 1 {
		return "1 change takes effect"
	}
	return fmt.Sprintf("%d changes take effect", n)
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// needsRoot refuses what only root can do on the live machine.
func (a *app) needsRoot(what string) error {
	if filepath.Clean(a.root) == "/" && os.Geteuid() != 0 {
		return failed(fmt.Errorf("%s changes the machine: expected to run as root", what), "repeat with sudo")
	}
	return nil
}

// engine is the transaction engine of the machine below --root, with what must be closed behind it.
type engine struct {
	*apply.Engine
	name  string // of the host
	close func() error
}

// engine opens the journal and, where mechanisms are nil, the machine.
func (a *app) engine(mechanisms setting.Mechanisms) (*engine, error) {
	m, err := host.Open(a.root)
	if err != nil {
		return nil, failed(err, "--root takes a directory that holds proc/ and sys/ of a machine")
	}
	j, err := journal.Open(a.root)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if mechanisms == nil {
		mechanisms = m.Mechanisms()
	}
	name, boot := m.Identity()
	e := &engine{name: name, close: func() error { return errors.Join(j.Close(), m.Close()) }}
	e.Engine = &apply.Engine{Mechanisms: mechanisms, Journal: j, Host: name, BootID: boot, Version: version}
	e.Writable = func(at setting.Address) error { return m.Writable(at.Kind) }
	return e, nil
}
