package main

import (
	"cmp"
	"errors"
	"io"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/ops/fleet"
	"mpps/internal/outcome"
	"mpps/internal/report"
	view "mpps/internal/report/fleet"
)

func (a *app) fleetCommand() *cobra.Command {
	return verbs("fleet", "compare many hosts, from their snapshots", a.fleetAuditCommand())
}

// fleetMemory is the memory limit of the garbage collector while many snapshots are read, in bytes.
const fleetMemory = 200 << 20

func (a *app) fleetAuditCommand() *cobra.Command {
	var flags goalFlags
	var output string
	var failOn failOn
	cmd := verb("audit DIR|FILE…", "list what hosts have that most of their class have not", cobra.MinimumNArgs(1),
		func(cmd *cobra.Command, files []string) error {
			g, err := flags.goal()
			if err == nil && g.Guest != "" {
				err = usage(errors.New("--guest: a guest belongs to one host"), "see 'mpps audit --snapshot FILE'")
			}
			if err != nil {
				return err
			}
			fails, err := failOn.severity()
			if err != nil {
				return err
			}
			if output != "" && !isPage(output) {
				return usage(errors.New("-o "+quote(output)+": expected a file that ends in .html"), "")
			}
			if a.alone {
				debug.SetMemoryLimit(fleetMemory)
				debug.SetGCPercent(400) // most of what is read is dropped at once
			}
			r, err := fleet.Audit(cmd.Context(), a.env(), files, g)
			if err != nil {
				return err
			}
			if output != "" {
				err := a.writeEncoded(output, func(w io.Writer) error { return view.HTML(w, r, version, time.Now()) })
				if err != nil {
					return err
				}
			}
			err = a.out.Answer(report.Answer{
				Verb: "fleet-audit", Result: r, Text: func(t *report.Text) { view.Draw(t, r, a.verbose) },
			})
			differ := len(r.Outliers) > 0 || fails != nil && r.Failed(*fails)
			return cmp.Or(err, exitIf(len(r.Refused) > 0, outcome.CodeFailed), exitIf(differ, outcome.CodeDrifted))
		})
	flags.add(cmd, nil)
	addSheet(cmd, &output)
	failOn.add(cmd, "finding")
	return cmd
}
