package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/cli"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/ops/load"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/sheet"
)

// diagnoseFlags are the flags of mpps diagnose.
type diagnoseFlags struct {
	interval     time.Duration
	netns        []string
	guest        string
	load, output string
	counters     bool
	scrub        bool
	watches      bool // a flag was given that needs a live machine
}

func (a *app) diagnoseCommand() *cobra.Command {
	var f diagnoseFlags
	cmd := verb("diagnose", "find the stage that limits the packet path now, with evidence", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			f.watches = slices.ContainsFunc([]string{"for", "netns", "counters"}, cmd.Flags().Changed)
			if err := f.check(a.root); err != nil {
				return err
			}
			return a.runDiagnose(cmd.Context(), &f)
		})
	flags := cmd.Flags()
	cli.DurationVar(flags, &f.interval, "for", 5*time.Second, 200*time.Millisecond, time.Hour,
		"how long to watch, at most 1h; Ctrl-C stops early and reports")
	flags.StringArrayVar(&f.netns, "netns", nil, "also watch this network namespace (see 'ip netns list'); repeatable")
	cli.CheckLater(flags, "netns", isNamespace)
	flags.StringVar(&f.guest, "guest", "", "diagnose the path of this guest only")
	flags.BoolVar(&f.counters, "counters", false, "use counters only, no eBPF or perf")
	flags.StringVar(&f.load, "load", "", "diagnose this file of -o instead of watching")
	cli.OutputVar(flags, &f.output, "output,o", "", "write the observations to this file, .html as a page, .svg as "+
		"a picture; - is standard output, without the diagnosis")
	flags.BoolVar(&f.scrub, "scrub", false, "replace identifiers in the file of -o")
	return cmd
}

func (f *diagnoseFlags) check(root string) error {
	switch {
	case f.load != "" && f.watches:
		return usage(errors.New("--load is a file, and --for, --netns and --counters are for watching"),
			"leave one of them out")
	case f.load != "" && f.output != "" && !isPage(f.output) && !isPicture(f.output):
		return usage(errors.New("--load is a file of observations already"),
			"-o takes a page or a picture of it: FILE.html, FILE.svg")
	case f.scrub && f.output == "":
		return usage(errors.New("--scrub is for the file of -o"), "mpps diagnose -o load.json --scrub")
	case f.load == "" && root != "/":
		return usage(errors.New("--root is for recorded machines, and traffic is watched on a live one"),
			"leave --root out, or give --load FILE")
	}
	return nil
}

func (a *app) runDiagnose(ctx context.Context, f *diagnoseFlags) error {
	h, err := a.observePath(ctx, f)
	if err != nil {
		return err
	}
	if f.output != "" && !isPage(f.output) && !isPicture(f.output) {
		if err := a.writeLoad(h, f); err != nil {
			return err
		}
		if f.output == "-" {
			return nil
		}
	}
	l := h.Load
	if f.guest != "" {
		l = l.ForGuest(f.guest)
	}
	d := bottleneck.Find(h, l)
	switch {
	case isPage(f.output):
		err = a.writeSheet(f.output, sheet.Sheet{Host: h, Diagnosis: d, Warnings: load.Caveats(h, l), Data: d})
	case isPicture(f.output):
		err = a.writeEncoded(f.output, func(w io.Writer) error { return sheet.Picture(w, d) })
	}
	if err != nil {
		return err
	}
	err = a.out.Answer(report.Answer{
		Verb: "diagnose", Host: h.Name, Result: d, Warnings: load.Caveats(h, l),
		Text: func(t *report.Text) { report.Diagnosis(t, d, l, a.verbose) },
	})
	ends := d.Bottleneck != nil && bottleneck.About(d.Bottleneck.Kind).Ends
	return cmp.Or(err, exitIf(ends, outcome.CodeNotDevice))
}

// observePath returns a host with its load: watched now, or read from a file.
func (a *app) observePath(ctx context.Context, f *diagnoseFlags) (*facts.Host, error) {
	if f.load == "" {
		return load.Watch(ctx, a.env(), load.Options{Interval: f.interval, Guest: f.guest, Netns: f.netns,
			Counters: f.counters})
	}
	h, err := load.Read(f.load)
	if err != nil {
		return nil, err
	}
	return h, ops.CheckGuest(h, f.guest)
}

// writeLoad writes a host with its load as a snapshot.
func (a *app) writeLoad(h *facts.Host, f *diagnoseFlags) error {
	if f.scrub {
		h = facts.Scrub(h)
	}
	return a.writeJSON(f.output, func(w io.Writer) error { return facts.Write(w, h, version) })
}
