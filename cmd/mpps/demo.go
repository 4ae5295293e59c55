package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/report"
)

func (a *app) demoCommand() *cobra.Command {
	var out string
	var pps string
	var trials int
	var budget time.Duration
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "the closed loop on a KVM host in a box, with its rollback",
		Long: `Boots the lab, starts a guest in it that is set up as badly as guests often
are, and does there what mpps is for: audit, then the closed loop ('mpps tune')
with the guest's restart that it asks for in the middle, measurement before and
after, verify, and rollback to exactly the state before. Leaves report.html,
result.json, and of each half of the loop what it found and its page:
tune-1.json and tune-1.html, tune-2.json and tune-2.html.

The figures are those of an emulated host; only their ratio says something.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			target, err := goal.ParseRate(pps)
			if err != nil {
				return usage(fmt.Errorf("--pps: %w", err), "")
			}
			if trials < 2 {
				return usage(fmt.Errorf("--trials %d: expected 2 or more", trials), "an interval of 95 % needs 6")
			}
			d := &demo{app: a, out: out, pps: target, trials: trials, budget: budget, started: time.Now()}
			return d.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&out, "out", filepath.Join("out", "demo"), "directory for the report")
	cmd.Flags().StringVar(&pps, "pps", "500k", "target that the plan is made for")
	cmd.Flags().DurationVar(&budget, "budget", 4*time.Minute, "time for each half of the loop, before the guest's restart and behind it")
	cmd.Flags().IntVar(&trials, "trials", 6, "trials in each of the three states")
	return cmd
}

// demo is one run of the main job.
type demo struct {
	app     *app
	out     string
	pps     float64
	trials  int
	budget  time.Duration
	started time.Time

	scene *scene
	state demoState
}

func (d *demo) run(ctx context.Context) (err error) {
	if err := os.MkdirAll(d.out, 0o755); err != nil {
		return failed(err, "--out takes a directory that you may write to")
	}
	d.step("a KVM host in a box")
	if d.scene, err = d.app.openScene(ctx); err != nil {
		return err
	}
	defer func() { err = d.scene.closeAfter(err) }()
	for _, act := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"what the host is, and what holds it back", d.audit},
		{"measure as it is found", d.before},
		{"the closed loop: measure, try, keep or undo", d.tune},
		{"measure after", d.after},
		{"roll everything back", d.rollback},
		{"measure again, as it was found", d.again},
		{"report", d.write},
	} {
		d.step(act.what)
		if err := act.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", act.what, err)
		}
	}
	return nil
}

// step announces an act with the time that has passed.
func (d *demo) step(what string) {
	d.app.out.Step("[%3.0f s] %s", time.Since(d.started).Seconds(), what)
}

// closeAfter ends the lab, whatever happened before.
func (s *scene) closeAfter(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(err, s.lab.Stop(ctx))
}

// show prints what the program said on the demo's host.
func (d *demo) show(ctx context.Context, argv ...string) error {
	text, err := d.scene.mpps(ctx, []int{exitOK}, argv...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(d.app.stdout, text)
	return err
}

func (d *demo) audit(ctx context.Context) error {
	if err := d.snapshot(ctx, "before.json", &d.state.hostBefore); err != nil {
		return err
	}
	if err := d.show(ctx, "inspect"); err != nil {
		return err
	}
	return d.show(ctx, append([]string{"audit"}, d.goal()...)...)
}

// goal are the goal flags of every command: the demo consents to taking the bridge out of iptables, because the rules
// in the way are its own.
func (d *demo) goal() []string {
	return []string{"--pps", strconv.FormatFloat(d.pps, 'f', -1, 64), "--guest", demoGuest, "--consent", "security"}
}

func (d *demo) before(ctx context.Context) error { return d.bench(ctx, "before", &d.state.before) }

// tune runs the closed loop, restarts the guest because the loop asks for it and this is a demo, and goes on behind that.
func (d *demo) tune(ctx context.Context) error {
	first := append([]string{"--restarts", "--via", demoBridge, "--agent", demoAddress + ":" + strconv.Itoa(demoPort),
		"--secret-file", "/share/secret", "--sink", "af_packet", "--trial", demoTrial.String()}, d.goal()...)
	r, err := d.half(ctx, 1, first...)
	if err != nil {
		return err
	}
	if r.RestartTX != "" {
		d.step("restart the guest, which the loop asks for and mpps never does by itself")
		if err := d.scene.guest.Restart(ctx); err != nil {
			return err
		}
		if _, err = d.half(ctx, 2, "--resume"); err != nil {
			return err
		}
	}
	if err := d.show(ctx, "verify"); err != nil {
		return err
	}
	return d.snapshot(ctx, "after.json", &d.state.hostAfter)
}

func (d *demo) after(ctx context.Context) error { return d.bench(ctx, "after", &d.state.after) }

// rollback undoes every transaction, newest first, restarts the guest into its old definition and compares snapshots.
func (d *demo) rollback(ctx context.Context) error {
	from := time.Now()
	for range d.state.transactions {
		if err := d.show(ctx, "rollback"); err != nil {
			return err
		}
	}
	d.state.rollbackSeconds = time.Since(from).Seconds()
	if err := d.scene.guest.Restart(ctx); err != nil {
		return err
	}
	if err := d.snapshot(ctx, "again.json", &d.state.hostAgain); err != nil {
		return err
	}
	return d.show(ctx, "snapshot", "diff", "/share/before.json", "/share/again.json")
}

func (d *demo) again(ctx context.Context) error {
	return d.bench(ctx, "rolled back", &d.state.again)
}

// write leaves the report and the result, and ends with the report's path.
func (d *demo) write(context.Context) error {
	d.state.seconds = time.Since(d.started).Seconds()
	page, result, err := d.state.render(d)
	if err != nil {
		return err
	}
	reportFile := filepath.Join(d.out, "report.html")
	if err := replaceFile(reportFile, page); err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(d.out, "result.json"), result); err != nil {
		return err
	}
	absolute, err := filepath.Abs(reportFile)
	if err != nil {
		return err
	}
	for i, r := range d.state.tuned {
		text, err := json.MarshalIndent(facts.Whole(r), "", "  ")
		if err != nil {
			return err
		}
		if err := replaceFile(filepath.Join(d.out, fmt.Sprintf("tune-%d.json", i+1)), append(text, '\n')); err != nil {
			return err
		}
		if err := d.app.writeTunePage(filepath.Join(d.out, fmt.Sprintf("tune-%d.html", i+1)), r); err != nil {
			return err
		}
	}
	v := report.Verdict(d.state.document(d))
	_, err = fmt.Fprintf(d.app.stdout, "%s\n%s\n", v, absolute)
	return err
}
