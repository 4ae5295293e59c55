package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/knob"
	"mpps/internal/ops"
	"mpps/internal/ops/judging"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/sheet"
)

func (a *app) auditCommand() *cobra.Command {
	var flags goalFlags
	var snapshot, output string
	var failOn failOn
	var allowUnseen bool
	var interval time.Duration
	cmd := verb("audit", "list the settings that limit your target, worst first", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			g, err := flags.goal()
			if err != nil {
				return err
			}
			fails, err := failOn.severity()
			if err != nil {
				return err
			}
			h, err := a.env().Gather(cmd.Context(), ops.Look{Snapshot: snapshot, Guest: g.Guest, Interval: interval})
			if err != nil {
				return err
			}
			defer h.Close()
			if err := ops.CheckGoal(h.Facts, g); err != nil {
				return err
			}
			r := judging.Audit(h.Facts, g, h.Site.Adjust)
			view := sheet.Sheet{Host: h.Facts, Audit: &r, Warnings: ops.Caveats(h.Facts, g), Data: r}
			if err := a.writeSheet(output, view); err != nil {
				return err
			}
			code := outcome.CodeOK
			if fails != nil && (len(r.AtLeast(*fails)) > 0 || r.Coverage.Blind() && !allowUnseen) {
				code = outcome.CodeDrifted
			}
			return a.answerAs(report.Answer{
				Verb: "audit", Host: h.Facts.Name, Result: r, Warnings: ops.Caveats(h.Facts, g),
				Text: func(t *report.Text) { report.Audit(t, r, a.verbose) },
			}, code, r.Verdict)
		})
	flags.add(cmd, a)
	cmd.Flags().StringVar(&snapshot, "snapshot", "", "use this snapshot file instead of this host")
	addSheet(cmd, &output)
	failOn.add(cmd, "finding")
	a.addExitCodes(cmd)
	cmd.Flags().BoolVar(&allowUnseen, "allow-unseen", false, "with --fail-on: pass although guests could not be seen")
	addInterval(cmd.Flags(), &interval)
	return cmd
}

// failOn is the flag --fail-on: the severity at or above which findings are a failure.
type failOn string

func (f *failOn) add(cmd *cobra.Command, of string) {
	cmd.Flags().StringVar((*string)(f), "fail-on", "", "exit code 4 if a "+of+" has this severity or worse: "+
		strings.Join(knob.Severities(), ", "))
}

// severity returns the severity; nil if the flag was not given.
func (f *failOn) severity() (*knob.Severity, error) {
	if *f == "" {
		return nil, nil
	}
	var s knob.Severity
	if !slices.Contains(knob.Severities(), string(*f)) {
		return nil, usage(fmt.Errorf("--fail-on %q: expected one of %s", *f, strings.Join(knob.Severities(), ", ")), "")
	}
	return &s, s.UnmarshalText([]byte(*f))
}
