package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/cli"
	"mpps/internal/lab"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/ops"
	"mpps/internal/ops/saved"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/bench"
	"mpps/internal/report/sheet"
	"mpps/internal/version"
)

func (a *app) demoCommand() *cobra.Command {
	var out string
	var pps string
	var trials int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "measure, apply and roll back a plan on an emulated KVM host",
		Long: `Boots an emulated KVM host with a badly configured guest, as is common, and runs
the whole workflow on it: inspect, audit, measure, apply the plan including the
guest restart that it needs, measure again, and roll back. Each step updates
report.html and result.json; demo.log has the output of all programs, and the
results are in their own files.

A host that dies or hangs is replaced once. Once the root tree is built, the
demo ends within 15 minutes, not counting time in which it waits for the CPUs of
a busy machine, and with a report of how far it came.

The rates are those of an emulator: only their ratio means something.

Exit codes: 0 done · 1 failed · 3 not configured · 64 usage.`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := goal.ParseRate(pps)
			if err != nil {
				return outcome.Usage(fmt.Errorf("--pps: %w", err), "")
			}
			if trials < 2 {
				return outcome.Usage(fmt.Errorf("--trials %d: expected 2 or more", trials),
					"an interval of 95 % needs 6")
			}
			d := &demo{app: a, out: out, pps: target, trials: trials, started: time.Now()}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&out, "out", filepath.Join("out", "demo"), "report directory")
	cmd.Flags().StringVar(&pps, "pps", "500k", "target of the plan, in packets per second")
	cmd.Flags().IntVar(&trials, "trials", 6, "trials per state (before, after, rolled back)")
	return cmd
}

var errInterrupted = errors.New("interrupted")

// demo is one run of the demo.
type demo struct {
	app     *app
	out     string
	pps     float64
	trials  int
	started time.Time
	stage   *stage
	retries int

	scene *scene
	ended []string   // why boxes were given up
	state demoState  // results of the current box
	kept  *demoState // results of the earlier box that came furthest; nil: there was none
}

func (d *demo) run(ctx context.Context) (err error) {
	if _, err := d.app.programs(); err != nil {
		return err
	}
	free, err := lab.Reserve(ctx, lab.Config{Name: demoLab})
	if err != nil {
		return otherDemo(err)
	}
	defer func() { err = errors.Join(err, free()) }()
	log, unlock, err := d.begin()
	if err != nil {
		return err
	}
	defer unlock()
	defer log.Close()
	d.stage = &stage{terminal: report.Read{Writer: d.app.stdout, Gone: d.app.opts.Gone}, log: log, after: d.write,
		live: report.Redraws(d.app.stdout), reopen: d.giveUp, checkAlive: d.checkAlive,
		limit: func(ctx context.Context, t time.Duration) (context.Context, context.CancelFunc) {
			return lab.FairTimeout(ctx, demoLab, t)
		}}
	defer func() { err = d.close(err) }()
	if err := d.stage.play(ctx, d.acts(ctx)); err != nil {
		if ctx.Err() != nil { // the end of ctx killed the box, which is what err reports
			err = outcome.Failed(errInterrupted, "the report so far is in "+d.out)
		}
		return err
	}
	absolute, err := filepath.Abs(filepath.Join(d.out, "report.html"))
	if err != nil {
		return err
	}
	d.stage.say("%s\nreport: %s", bench.Ending(d.shown().document(d)), absolute)
	return nil
}

// giveUp ends a box for a reason. Its results are kept: the fresh one may not come that far.
func (d *demo) giveUp(ctx context.Context, why string) error {
	kept := *d.shown()
	d.kept, d.state = &kept, demoState{box: d.state.box + 1}
	d.ended = append(d.ended, why)
	if err := d.close(nil); err != nil { // does not keep a fresh one from starting
		d.stage.say("  %v", err)
	}
	return ctx.Err()
}

// shown returns the results in the report: those of an earlier box until the current one has come further.
func (d *demo) shown() *demoState {
	if d.kept != nil && len(d.kept.missing()) <= len(d.state.missing()) {
		return d.kept
	}
	return &d.state
}

// begin locks the demo's directory, removes what earlier demos left there, and creates the log and an empty report.
func (d *demo) begin() (log *os.File, unlock func(), err error) {
	const hint = "--out takes a directory that you may write to"
	if err := os.MkdirAll(d.out, 0o755); err != nil {
		return nil, nil, outcome.Failed(err, hint)
	}
	dir, err := os.Open(d.out)
	if err != nil {
		return nil, nil, outcome.Failed(err, hint)
	}
	defer func() {
		if err != nil {
			dir.Close()
		}
	}()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another demo writes there")
		}
		return nil, nil, outcome.Failed(fmt.Errorf("%s: %w", d.out, err), "give another directory with --out")
	}
	for _, name := range demoFiles {
		if err := os.Remove(filepath.Join(d.out, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, outcome.Failed(err, hint)
		}
	}
	log, err = os.Create(filepath.Join(d.out, demoLog))
	if err != nil {
		return nil, nil, outcome.Failed(err, hint)
	}
	if err := d.write(); err != nil {
		log.Close()
		return nil, nil, outcome.Failed(fmt.Errorf("%s: %w", d.out, err), hint)
	}
	return log, func() { dir.Close() }, nil
}

const demoLog = "demo.log"

// demoFiles are all that a demo writes.
var demoFiles = []string{demoLog, "report.html", "host.html", "result.json", "inspect.txt", "audit.txt", "plan.txt",
	"apply.txt", "verify.txt", "pps-before.txt", "rr-before.txt", "pps-after.txt", "rr-after.txt",
	"pps-rolled-back.txt", "rr-rolled-back.txt"}

// file writes one of demoFiles.
func (d *demo) file(name string, text []byte) error {
	if !slices.Contains(demoFiles, name) {
		return fmt.Errorf("%s: not among the files that the next demo removes", name)
	}
	return ops.ReplaceFile(filepath.Join(d.out, name), text)
}

// acts returns the acts in order; when run ends, the box is killed at once.
func (d *demo) acts(run context.Context) []act {
	const minute = time.Minute
	acts := []act{
		{what: "start the emulated host and its guest", expect: d.app.expectScene, limit: 6 * minute,
			do: func(ctx context.Context) error { return d.open(ctx, run) }},
		{what: "what the host is, and what limits its guest", about: 20 * time.Second, limit: 3 * minute, do: d.audit},
		{what: "measure as found", about: 30 * time.Second, limit: 3 * minute, do: d.before, repeat: true},
		{what: "apply the whole plan, restart the guest", about: 40 * time.Second, limit: 4 * minute, do: d.apply},
		{what: "measure after", about: 30 * time.Second, limit: 3 * minute, do: d.after, repeat: true},
		{what: "roll everything back", about: 30 * time.Second, limit: 4 * minute, do: d.rollback},
		{what: "measure again, as it was found", about: 30 * time.Second, limit: 3 * minute, do: d.again, repeat: true},
	}
	if _, err := lab.OpenTree(lab.Dir()); errors.Is(err, fs.ErrNotExist) {
		acts = slices.Insert(acts, 0, act{what: "fetch packages and build the host's root tree",
			about: 90 * time.Second, limit: 30 * minute, do: d.build, noHost: true})
	}
	return acts
}

// build builds the root tree. What it waits for is the package mirror.
func (d *demo) build(ctx context.Context) error {
	_, err := lab.Prepare(ctx, d.step)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return outcome.Failed(err, "the package mirror was too slow: MPPS_LAB_MIRROR=URL names another")
	}
	return err
}

func (d *demo) step(text string) { d.stage.say("  %s", text) }

func (d *demo) open(ctx, run context.Context) (err error) {
	if d.scene, err = d.app.openScene(ctx, d.step, d.stage); err == nil {
		d.scene.lab.KillAfter(run)
	}
	return err
}

// checkAlive returns what died or hangs on the host: nested emulation is not perfect.
func (d *demo) checkAlive(ctx context.Context) error {
	if d.scene == nil {
		return nil
	}
	if why := d.scene.lab.Death(ctx); why != "" {
		return errors.New(why)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := d.scene.guest.Answers(ctx)
	if err != nil && !errors.Is(err, lab.ErrGone) {
		err = fmt.Errorf("the guest does not answer any more: %w", err)
	}
	return err
}

// close ends the lab if there is one.
func (d *demo) close(err error) error {
	s := d.scene
	d.scene = nil
	if s == nil {
		return err
	}
	d.retries += s.lab.Retries()
	return closeAfter(s.lab, err)
}

// closeAfter ends a lab and adds its errors to err. It kills the lab: nothing in it needs to be written back.
func closeAfter(l *lab.Lab, err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(err, l.Kill(), l.Stop(ctx))
}

// keep runs mpps on the demo's host and stores its output in a file next to the report.
func (d *demo) keep(ctx context.Context, file string, argv ...string) error {
	text, err := d.scene.mpps(ctx, []int{outcome.CodeOK}, argv...)
	if err != nil {
		return err
	}
	return d.file(file, []byte(text))
}

// demoWorst is the number of findings that the demo shows.
const demoWorst = 6

func (d *demo) audit(ctx context.Context) error {
	if err := d.snapshot(ctx, "before.json", &d.state.hostBefore); err != nil {
		return err
	}
	if err := d.keep(ctx, "inspect.txt", "inspect"); err != nil {
		return err
	}
	if err := d.keep(ctx, "audit.txt", append([]string{"audit"}, d.goal()...)...); err != nil {
		return err
	}
	h := d.state.hostBefore
	d.stage.say("  Linux %s, %d CPUs, %d NUMA nodes; guest %s on bridge %s", h.Kernel.Release,
		h.Topology.Counts.CPUsOnline, h.Topology.Counts.NUMANodes, demoGuest, demoBridge)
	r := audit.Run(h, goal.Goal{PPS: d.pps, Frame: 64, Guest: demoGuest}, knob.Catalogue())
	d.stage.say("  %s", r.Verdict)
	shown := map[string]bool{}
	for _, f := range r.Findings {
		if f.State != audit.Off || shown[f.ID] || len(shown) == demoWorst {
			continue
		}
		shown[f.ID] = true
		d.stage.say("  %-8s %-18s  %-15s  %s", f.Severity, f.ID, f.Found+" → "+f.Wanted, f.Title)
	}
	var page bytes.Buffer
	if err := sheet.HTML(&page, sheet.Sheet{Host: h, Audit: &r, Data: r}, version.Version, time.Now()); err != nil {
		return err
	}
	d.stage.say("  'mpps explain ID' says what each is; all of it is in host.html and audit.txt in %s", d.out)
	return d.file("host.html", page.Bytes())
}

// goal returns the goal flags of every command. The demo consents to taking the bridge out of iptables, because the
// rules in question are its own.
func (d *demo) goal() []string {
	return []string{"--pps", strconv.FormatFloat(d.pps, 'f', -1, 64), "--guest", demoGuest, "--consent", "security"}
}

func (d *demo) before(ctx context.Context) error { return d.bench(ctx, "before", &d.state.before) }

// apply makes and applies the plan, and restarts the guest, because the plan requires it. Changes that need a reboot of
// the host are left pending.
func (d *demo) apply(ctx context.Context) error {
	if err := d.keep(ctx, "plan.txt", append([]string{"plan", "-o", "/share/plan.json"}, d.goal()...)...); err != nil {
		return err
	}
	p, err := saved.ReadPlan(d.scene.shared("plan.json"))
	if err != nil {
		return err
	}
	d.state.plans = []*plan.Plan{p}
	d.stage.say("  %d changes; all of them, and why: %s", len(p.Changes), filepath.Join(d.out, "plan.txt"))
	if err := d.keep(ctx, "apply.txt", "apply", "--yes", "/share/plan.json"); err != nil {
		return err
	}
	d.stage.say("  restart the guest, which mpps never does by itself")
	if err := d.scene.guest.Restart(ctx); err != nil {
		return err
	}
	if err := d.keep(ctx, "verify.txt", "verify"); err != nil {
		return err
	}
	return d.snapshot(ctx, "after.json", &d.state.hostAfter)
}

func (d *demo) after(ctx context.Context) error {
	if err := d.bench(ctx, "after", &d.state.after); err != nil {
		return err
	}
	d.stage.say("  %s", bench.Verdict(d.state.document(d)))
	return nil
}

// rollback undoes every transaction, newest first, restarts the guest with its old definition and compares snapshots.
func (d *demo) rollback(ctx context.Context) error {
	from := time.Now()
	for range demoTransactions {
		r, err := d.scene.run(ctx, []int{outcome.CodeOK, outcome.CodeChanges}, "rollback", "--detailed-exit-code")
		if err != nil {
			return err
		}
		if r.Code == outcome.CodeOK {
			break
		}
	}
	d.state.rollbackSeconds = time.Since(from).Seconds()
	d.stage.say("  restart the guest into its old definition")
	if err := d.scene.guest.Restart(ctx); err != nil {
		return err
	}
	if err := d.snapshot(ctx, "again.json", &d.state.hostAgain); err != nil {
		return err
	}
	n := len(facts.Diff(d.state.hostBefore, d.state.hostAgain))
	d.stage.say("  %d of %d settings differ from before", n, len(d.state.hostBefore.Readings))
	return nil
}

// demoTransactions is more than the demo makes.
const demoTransactions = 8

func (d *demo) again(ctx context.Context) error {
	return d.bench(ctx, "rolled back", &d.state.again)
}

// write writes the report and the result so far.
func (d *demo) write() error {
	shown := d.shown()
	shown.seconds = time.Since(d.started).Seconds()
	page, result, err := shown.render(d)
	if err != nil {
		return err
	}
	return errors.Join(d.file("report.html", page), d.file("result.json", result))
}
