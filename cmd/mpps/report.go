package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/measure/export"
	"mpps/internal/report"
	"mpps/internal/report/bench"
	"mpps/internal/report/tuning"
	"mpps/internal/tune"
)

// reportFlags are the flags of report.
type reportFlags struct{ output, plan, title string }

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report RUN… -o report.html",
		Short: "one HTML file of runs: verdict, samples, latency, CPUs, losses",
		Long: `Draws runs that 'mpps bench … -o RUN' wrote. The first and the second run of the
same kind are compared. A file of 'mpps bench … --plan' holds both, and their
comparison; one of 'mpps bench modes' modes against native. Files of 'mpps
latency' are drawn over each other. With --plan the changes between the runs
are listed too. A file of 'mpps tune -o' has a page of its own: the way from the
baseline to the result, what was kept, what was not, what held the path back.

  mpps report before.json after.json -o report.html
  mpps report before.json after.json --plan plan.json -o report.html
  mpps report tuned.json -o tuned.html

With another --format than html the runs are printed in that form:

  mpps report before.json after.json --format gobench -o runs.txt
  mpps report run.json --format hdr -o run.hlog`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, files []string) error {
			if r, err := tuneResult(files); r != nil || err != nil {
				return errors.Join(err, a.reportTune(cmd, r, &f))
			}
			results, err := readResults(files)
			if err != nil {
				return err
			}
			if a.format != "html" {
				return a.reprint(cmd, results, &f)
			}
			doc, err := f.document(results)
			if err != nil {
				return err
			}
			var page bytes.Buffer
			if err := bench.HTML(&page, doc); err != nil {
				return err
			}
			if err := a.writeFile(f.output, page.Bytes()); err != nil {
				return err
			}
			if f.output != "-" {
				a.out.Step("wrote %s: %s", f.output, bench.Verdict(doc))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "report.html", "the file; - is standard output, and the default with another --format than html")
	cmd.Flags().StringVar(&f.plan, "plan", "", "the plan that was applied between the first run and the second")
	cmd.Flags().StringVar(&f.title, "title", "mpps report", "the page's title")
	formatFlag(cmd, "html", "text", "json")
	return cmd
}

// tuneResult reads a file of tune; nil where the first is none.
func tuneResult(files []string) (*tune.Result, error) {
	f, err := openJSON(files[0])
	if err != nil {
		return nil, nil // whoever reads it as a run says so
	}
	defer f.Close()
	r, err := tune.Decode(f)
	switch {
	case err != nil:
		return nil, nil
	case len(files) > 1:
		return nil, usage(fmt.Errorf("%s is a run of the loop, which has a page of its own, and %s", files[0], counted(len(files)-1, "more file")), "one call for each")
	}
	return r, nil
}

// reportTune writes the page of a run of the loop, or prints it.
func (a *app) reportTune(cmd *cobra.Command, r *tune.Result, f *reportFlags) error {
	switch changed := cmd.Flags().Changed; {
	case r == nil:
		return nil
	case changed("plan") || changed("title"):
		return usage(errors.New("a run of the loop has no place for --plan and --title"), "its changes are in it")
	case a.format != "html":
		return usage(fmt.Errorf("--format %s: a run of the loop is a page", a.format), "its file is the JSON of it")
	}
	return a.writeTunePage(f.output, r)
}

// writeTunePage writes the page of a run of the loop.
func (a *app) writeTunePage(file string, r *tune.Result) error {
	var page bytes.Buffer
	if err := tuning.HTML(&page, r, version, time.Now()); err != nil {
		return err
	}
	if err := a.writeFile(file, page.Bytes()); err != nil {
		return err
	}
	if file != "-" {
		a.out.Step("wrote %s", file)
	}
	return nil
}

// document is the page's content.
func (f *reportFlags) document(results []saved) (*bench.Document, error) {
	doc := &bench.Document{Schema: bench.DocumentSchema, Title: f.title, Made: time.Now(), Version: version}
	for _, r := range results {
		r.addTo(doc)
	}
	if doc.Compared == nil && len(doc.Modes) == 0 {
		doc.CompareFirstTwo()
	}
	if f.plan != "" {
		p, err := readPlan(f.plan)
		if err != nil {
			return nil, err
		}
		doc.Changes, doc.Refused = report.Rows(p.Changes), report.SkippedRows(p)
	}
	return doc, nil
}

// reprint prints saved results in another form than the page.
func (a *app) reprint(cmd *cobra.Command, results []saved, f *reportFlags) error {
	if changed := cmd.Flags().Changed; a.format != "json" && (changed("plan") || changed("title")) {
		return usage(fmt.Errorf("--format %s has no place for --plan and --title", a.format), "they belong to --format html and json")
	}
	for _, r := range results {
		if r.found != nil && a.foreign() {
			return usage(fmt.Errorf("--format %s has no place for a search, which has bounds and not samples", a.format), "--format html, text and json have it")
		}
		if r.awake != nil && a.foreign() {
			return usage(fmt.Errorf("--format %s has no place for wake-ups", a.format), "--format html, text and json have it")
		}
	}
	doc, err := f.document(results)
	if err != nil {
		return err
	}
	out := a.out
	var text bytes.Buffer
	if toFile := cmd.Flags().Changed("output") && f.output != "-"; toFile {
		out = report.NewPrinter(&text, a.stderr, report.Options{JSON: a.json, Quiet: a.quiet, NoColor: true, Version: version})
	}
	ans := report.Answer{Verb: "report-runs", Host: doc.Host.Name, Result: doc, Warnings: doc.Warnings, Text: func(t *report.Text) {
		for i, r := range results {
			if i > 0 {
				t.Blank()
			}
			r.draw(t)
		}
	}}
	err = a.answerOn(out, ans, func(s *export.Set) {
		for _, r := range results {
			r.export(s, export.Format(a.format))
		}
	})
	if err != nil || text.Len() == 0 {
		return err
	}
	return a.writeFile(f.output, text.Bytes())
}
