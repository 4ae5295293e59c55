package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/advise/tune"
	"mpps/internal/cli"
	"mpps/internal/measure/export"
	"mpps/internal/ops"
	"mpps/internal/ops/saved"
	"mpps/internal/report"
	"mpps/internal/report/bench"
	"mpps/internal/report/tuning"
)

// reportFlags are the flags of report.
type reportFlags struct{ output, plan, title string }

func (a *app) reportCommand() *cobra.Command {
	var f reportFlags
	cmd := verb("report RUN… -o report.html", "write one HTML page of runs: verdict, samples, latency, losses",
		cobra.MinimumNArgs(1), func(cmd *cobra.Command, files []string) error {
			results, err := readResults(files)
			if err != nil {
				return err
			}
			if r := results[0].Tune; r != nil {
				return a.reportTune(cmd, r, &f)
			}
			if a.format != "html" {
				return a.reprint(cmd, results, &f)
			}
			doc, err := f.document(results)
			if err != nil {
				return err
			}
			if err := a.writeEncoded(f.output, func(w io.Writer) error { return bench.HTML(w, doc) }); err != nil {
				return err
			}
			if f.output != "-" {
				a.out.Step("wrote %s: %s", f.output, bench.Verdict(doc))
			}
			return nil
		})
	cli.OutputVar(cmd.Flags(), &f.output, "output,o", "report.html",
		"output file; - is standard output (the default unless --format is html)")
	cmd.Flags().StringVar(&f.plan, "plan", "", "plan that was applied between the first run and the second")
	cmd.Flags().StringVar(&f.title, "title", "mpps report", "title of the page")
	formatFlag(cmd, "html", "text", "json")
	return cmd
}

// readResults reads files. It refuses a tuning run together with other files.
func readResults(files []string) ([]*saved.Result, error) {
	results := make([]*saved.Result, len(files))
	for i, file := range files {
		var err error
		if results[i], err = saved.Read(file); err != nil {
			return nil, err
		}
		if results[i].Tune != nil && len(files) > 1 {
			return nil, usage(fmt.Errorf("%s is a run of the loop, which has its own page, and %s", file,
				ops.Count(len(files)-1, "more file")), "one call for each")
		}
	}
	return results, nil
}

// reportTune writes the page of a tuning run.
func (a *app) reportTune(cmd *cobra.Command, r *tune.Result, f *reportFlags) error {
	switch changed := cmd.Flags().Changed; {
	case changed("plan") || changed("title"):
		return usage(errors.New("a run of the loop has no place for --plan and --title"), "its changes are in it")
	case a.format != "html":
		return usage(fmt.Errorf("--format %s: a run of the loop is a page", a.format), "its file is the JSON of it")
	}
	return a.writeTunePage(f.output, r)
}

// writeTunePage writes the page of a tuning run.
func (a *app) writeTunePage(file string, r *tune.Result) error {
	err := a.writeEncoded(file, func(w io.Writer) error { return tuning.HTML(w, r, version, time.Now()) })
	if err != nil {
		return err
	}
	if file != "-" {
		a.out.Step("wrote %s", file)
	}
	return nil
}

// document returns the content of the page.
func (f *reportFlags) document(results []*saved.Result) (*bench.Document, error) {
	doc := &bench.Document{Schema: bench.DocumentSchema, Title: f.title, Made: time.Now(), Version: version}
	for _, r := range results {
		addResult(doc, r)
	}
	if doc.Compared == nil && len(doc.Modes) == 0 {
		doc.CompareFirstTwo()
	}
	if f.plan != "" {
		p, err := saved.ReadPlan(f.plan)
		if err != nil {
			return nil, err
		}
		doc.Changes, doc.Refused = report.Rows(p.Changes), report.SkippedRows(p)
	}
	return doc, nil
}

// reprint prints saved results in another format than HTML.
func (a *app) reprint(cmd *cobra.Command, results []*saved.Result, f *reportFlags) error {
	if changed := cmd.Flags().Changed; a.format != "json" && (changed("plan") || changed("title")) {
		return usage(fmt.Errorf("--format %s has no place for --plan and --title", a.format),
			"they belong to --format html and json")
	}
	for _, r := range results {
		if (r.Search != nil || r.Sizes != nil) && a.foreign() {
			return usage(fmt.Errorf("--format %s has no place for a search, which has bounds and not samples",
				a.format), "--format html, text and json have it")
		}
		if r.Wakeups != nil && a.foreign() {
			return usage(fmt.Errorf("--format %s has no place for wake-ups", a.format),
				"--format html, text and json have it")
		}
	}
	doc, err := f.document(results)
	if err != nil {
		return err
	}
	out := a.out
	var text bytes.Buffer
	if toFile := cmd.Flags().Changed("output") && f.output != "-"; toFile {
		out = report.NewPrinter(&text, a.stderr, report.Options{JSON: a.json, Quiet: a.quiet, NoColor: true,
			Version: version})
	}
	ans := report.Answer{Verb: "report-runs", Host: doc.Host.Name, Result: doc, Text: func(t *report.Text) {
		for i, r := range results {
			if i > 0 {
				t.Blank()
			}
			drawResult(t, r)
		}
	}}
	for _, w := range doc.Warnings {
		ans.Warnings = append(ans.Warnings, w.Warning)
	}
	err = a.answerOn(out, ans, func(s *export.Set) {
		for _, r := range results {
			exportResult(s, r, export.Format(a.format))
		}
	})
	if err != nil || text.Len() == 0 {
		return err
	}
	return a.writeFile(f.output, text.Bytes())
}

// addResult adds a result to a page.
func addResult(doc *bench.Document, r *saved.Result) {
	switch {
	case r.Run != nil:
		doc.Add(r.Label(), r.Run)
	case r.Modes != nil:
		doc.AddModes(r.Modes)
	case r.Search != nil:
		doc.AddSearch(r.Label(), r.Search)
	case r.Sizes != nil:
		doc.AddSizes(r.Label(), r.Sizes)
	case r.Wakeups != nil:
		doc.AddWakeups(r.Label(), r.Wakeups)
	case r.AB != nil:
		for _, w := range r.AB.Warnings {
			doc.Warn(w)
		}
		doc.AddAB(r.AB)
	}
}

func drawResult(t *report.Text, r *saved.Result) {
	switch {
	case r.Run != nil:
		bench.RunText(t, r.Run, nil)
	case r.Modes != nil:
		bench.ModesText(t, r.Modes, nil)
	case r.Search != nil:
		bench.SearchText(t, r.Search, nil)
	case r.Sizes != nil:
		bench.SizesText(t, r.Sizes, nil)
	case r.Wakeups != nil:
		bench.WakeupsText(t, r.Wakeups, nil, "")
	case r.AB != nil:
		bench.TurnsText(t, r.AB, nil)
	}
}

// exportResult adds a result to an export. Formats of other programs have no searches and wake-ups; reprint refuses
// them.
func exportResult(s *export.Set, r *saved.Result, f export.Format) {
	switch {
	case r.Run != nil:
		s.Add(r.Label(), r.Run)
	case r.Modes != nil:
		s.AddModes(r.Modes, f)
	case r.AB != nil:
		s.AddAB(r.AB)
	}
}
