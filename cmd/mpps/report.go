package main

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"mpps/internal/measure"
	"mpps/internal/plan"
	"mpps/internal/report"
)

func (a *app) reportCommand() *cobra.Command {
	var output, planFile, title string
	cmd := &cobra.Command{
		Use:   "report RUN… -o report.html",
		Short: "one HTML file of runs: verdict, samples, latency, CPUs, losses",
		Long: `Draws runs that 'mpps bench … -o RUN' wrote. The first and the second run of the
same kind are compared. A file of 'mpps bench … --plan' holds both, and their
comparison. With --plan the changes between them are listed too.

  mpps report before.json after.json -o report.html
  mpps report before.json after.json --plan plan.json -o report.html`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, files []string) error {
			doc := &report.Document{Schema: report.DocumentSchema, Title: title, Made: time.Now(), Version: version}
			for _, file := range files {
				if err := addResult(doc, file); err != nil {
					return err
				}
			}
			if doc.Compared == nil {
				doc.CompareFirstTwo()
			}
			if planFile != "" {
				p, err := readPlan(planFile)
				if err != nil {
					return err
				}
				doc.Changes, doc.Refused = report.Rows(p.Changes), report.SkippedRows(p)
			}
			var page bytes.Buffer
			if err := report.HTML(&page, doc); err != nil {
				return err
			}
			if err := a.writeFile(output, page.Bytes()); err != nil {
				return err
			}
			if output != "-" {
				a.out.Step("wrote %s: %s", output, report.Verdict(doc))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "report.html", "the file; - is standard output")
	cmd.Flags().StringVar(&planFile, "plan", "", "the plan that was applied between the first run and the second")
	cmd.Flags().StringVar(&title, "title", "mpps report", "the page's title")
	return cmd
}

// addResult adds a run to a document, or the two of an interleaved comparison with its verdict.
func addResult(doc *report.Document, file string) error {
	r, err := readRun(file)
	if err == nil {
		doc.Add(seriesLabel(r, file), r)
	}
	if !errors.Is(err, measure.ErrInterleaved) {
		return err
	}
	ab, err := readAB(file)
	if err != nil {
		return err
	}
	for _, w := range ab.Warnings {
		doc.Warn(report.Warning(w))
	}
	first := len(doc.Series) == 0
	doc.Add(ab.BeforeRun.Name, &ab.BeforeRun)
	doc.Add(ab.AfterRun.Name, &ab.AfterRun)
	if first && ab.Kind != measure.RR {
		doc.Compared = &report.Compared{From: ab.BeforeRun.Name, To: ab.AfterRun.Name, Throughput: ab.Comparison}
	}
	return nil
}

func readAB(file string) (*measure.AB, error) {
	f, err := openJSON(file)
	if err != nil {
		return nil, failed(fmt.Errorf("comparison: %w", err), "make one with 'mpps bench … --plan PLAN -o FILE'")
	}
	defer f.Close()
	ab, err := measure.DecodeAB(f)
	if err != nil {
		return nil, failed(fmt.Errorf("comparison %s: %w", file, err), "make a new one with 'mpps bench … --plan PLAN -o FILE'")
	}
	return ab, nil
}

// seriesLabel is a run's own name, or its file's.
func seriesLabel(r *measure.Run, file string) string {
	if r.Name != "" {
		return r.Name
	}
	base := filepath.Base(file)
	return base[:len(base)-len(filepath.Ext(base))]
}

func readRun(file string) (*measure.Run, error) {
	f, err := openJSON(file)
	if err != nil {
		return nil, failed(fmt.Errorf("run: %w", err), "make one with 'mpps bench … -o FILE'")
	}
	defer f.Close()
	r, err := measure.Decode(f)
	if err != nil {
		return nil, failed(fmt.Errorf("run %s: %w", file, err), "make a new one with 'mpps bench … -o FILE'")
	}
	return r, nil
}

func readPlan(file string) (*plan.Plan, error) {
	f, err := openJSON(file)
	if err != nil {
		return nil, failed(fmt.Errorf("plan: %w", err), "make one with 'mpps plan … -o FILE'")
	}
	defer f.Close()
	p, err := plan.Decode(f)
	if err != nil {
		return nil, failed(fmt.Errorf("plan %s: %w", file, err), "make a new one with 'mpps plan … -o FILE'")
	}
	return p, nil
}
