// Package accept runs experiments of the acceptance protocol step by step and keeps their report in a directory.
package accept

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mpps/internal/measure/acceptance"
	"mpps/internal/model/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/founding"
)

// Names in the report's directory.
const (
	JSON = "acceptance.json"
	HTML = "acceptance.html"
)

// Report is the report with its directory.
type Report struct {
	*acceptance.Report
	Dir string // absolute
}

// Open reads the report of a directory, or returns a new one.
func Open(dir string) (*Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, JSON)
	f, err := ops.OpenJSON(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &Report{&acceptance.Report{Schema: acceptance.Schema, Runs: []*acceptance.Run{}}, dir}, nil
	}
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("report %w", err), "-o takes the directory of the report")
	}
	defer f.Close()
	p, err := acceptance.Decode(f)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("report %s: %w", file, err), "give another directory with -o")
	}
	return &Report{p, dir}, nil
}

// SetMachine sets the report's machine. It refuses to mix machines in one report.
func (p *Report) SetMachine(m *acceptance.Machine) error {
	if p.Machine != nil && !p.Machine.Same(m) {
		return outcome.Failed(fmt.Errorf("the report in %s is of another machine: %s, this is %s", p.Dir,
			p.Machine.CPU, m.CPU), "give another directory with -o")
	}
	p.Machine = m
	return nil
}

// NextDir returns the directory of an experiment's next run, relative to the report's. Runs with missing prerequisites
// have no directory.
func (p *Report) NextDir(name string) string {
	n := 1
	for _, r := range p.Runs {
		if r.Name == name && r.State != acceptance.Lacking {
			n++
		}
	}
	return fmt.Sprintf("%s-%d", name, n)
}

// Add adds a run and removes earlier runs of its experiment with missing prerequisites.
func (p *Report) Add(r *acceptance.Run) error {
	p.Runs = append(slices.DeleteFunc(p.Runs, func(o *acceptance.Run) bool {
		return o.Name == r.Name && o.State == acceptance.Lacking
	}), r)
	dir := r.Inputs.Dir
	if r.State == acceptance.Lacking {
		dir = p.Dir
	}
	if err := ops.MakeFolder(dir); err != nil {
		return outcome.Failed(fmt.Errorf("report %w", outcome.FolderError(err)),
			"-o takes a directory that you may write to")
	}
	return nil
}

// renew makes sure that a run of the report goes on with commands of this version, and writes its files beside the
// report: somebody else may have made that.
func (p *Report) renew(r *acceptance.Run) error {
	here, err := os.Stat(p.Dir)
	if err != nil {
		return outcome.Failed(err, "-o takes the directory of the report")
	}
	there, err := os.Stat(filepath.Dir(r.Inputs.Dir))
	switch {
	case err != nil || !os.SameFile(here, there):
		return outcome.Failed(fmt.Errorf("run %s: its files are not in %s", r.Name, p.Dir),
			"its files belong beside its report; without --resume a new run is begun")
	case !r.Renew():
		return outcome.Failed(fmt.Errorf("run %s: its steps are not those of this version of mpps", r.Name),
			"go on with the version that has begun it; without --resume a new run is begun")
	}
	if err := ops.MakeFolder(r.Inputs.Dir); err != nil {
		return outcome.Failed(fmt.Errorf("run %s: %w", r.Name, outcome.FolderError(err)),
			"its files belong beside its report")
	}
	return nil
}

// Outcomes reads the answers of a run's completed steps.
func Outcomes(r *acceptance.Run) (*acceptance.Outcomes, error) {
	o := &acceptance.Outcomes{}
	for _, s := range r.Steps {
		if s.State != acceptance.Ended || s.File == "" {
			continue
		}
		text, err := answer(filepath.Join(r.Inputs.Dir, s.File))
		if err == nil {
			err = o.Add(s.ID, s.Gives, text)
		}
		if err != nil {
			return nil, outcome.Failed(fmt.Errorf("run %s: %w", r.Name, err),
				"its files belong beside its report; without --resume a new run is begun")
		}
	}
	return o, nil
}

// answer reads the answer of a step.
func answer(file string) ([]byte, error) {
	f, err := ops.OpenJSON(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, facts.MaxSnapshot))
}

// Save writes the report as JSON and as a page.
func (p *Report) Save(version string) error {
	p.Version = version
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(facts.NonNil(p.Report)); err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	var page bytes.Buffer
	if err := founding.HTML(&page, p.Report); err != nil {
		return err
	}
	for name, content := range map[string][]byte{JSON: text.Bytes(), HTML: page.Bytes()} {
		if err := ops.ReplaceFile(filepath.Join(p.Dir, name), content); err != nil {
			return outcome.Failed(fmt.Errorf("write the report %s: %w", filepath.Join(p.Dir, name), err),
				"-o takes a directory that you may write to")
		}
	}
	return nil
}

// Answer returns the answer of a call that made some runs.
func (p *Report) Answer(host string, runs []*acceptance.Run) report.Answer {
	answer := *p.Report
	answer.Runs = runs
	var warnings []outcome.Warning
	for _, r := range runs {
		if r.Machine != nil && r.Machine.Emulated {
			warnings = append(warnings, outcome.Warning{Code: "emulated",
				Text: r.Name + ": EMULATION: that it runs is shown, and nothing about hardware",
				Hint: "repeat on a real host"})
		}
	}
	return report.Answer{Verb: "acceptance", Host: host, Result: &answer, Warnings: warnings,
		Text: func(t *report.Text) {
			founding.Text(t, &answer, p.Dir)
		}}
}

// Code returns the exit code of the worst run.
func Code(runs []*acceptance.Run) int {
	code := outcome.CodeOK
	for _, r := range runs {
		switch {
		case r.State == acceptance.Failed:
			return outcome.CodeFailed
		case r.State == acceptance.Waiting:
			code = outcome.CodeChanges
		case r.State == acceptance.Lacking && code == outcome.CodeOK:
			code = outcome.CodeNotConfigured
		}
	}
	return code
}
