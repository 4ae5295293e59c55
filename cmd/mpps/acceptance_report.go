package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"mpps/internal/acceptance"
	"mpps/internal/facts"
	"mpps/internal/ops"
	"mpps/internal/outcome"
	"mpps/internal/report/founding"
)

// Names in the report's directory.
const (
	acceptanceJSON = "acceptance.json"
	acceptanceHTML = "acceptance.html"
)

// acceptanceReport is the report with its directory.
type acceptanceReport struct {
	*acceptance.Report
	dir string // absolute
}

// openReport reads the report of a directory, or begins one.
func openReport(dir string) (*acceptanceReport, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, acceptanceJSON)
	f, err := ops.OpenJSON(file)
	if errors.Is(err, fs.ErrNotExist) {
		return &acceptanceReport{&acceptance.Report{Schema: acceptance.Schema, Runs: []*acceptance.Run{}}, dir}, nil
	}
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("report: %w", err), "-o takes the directory of the report")
	}
	defer f.Close()
	p, err := acceptance.Decode(f)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("report %s: %w", file, err), "give another directory with -o")
	}
	return &acceptanceReport{p, dir}, nil
}

// of refuses to mix machines in one report.
func (p *acceptanceReport) of(m *acceptance.Machine) error {
	if p.Machine != nil && !p.Machine.Same(m) {
		return outcome.Failed(fmt.Errorf("the report in %s is of another machine: %s, this is %s", p.dir,
			p.Machine.CPU, m.CPU), "give another directory with -o")
	}
	p.Machine = m
	return nil
}

// next is the directory of an experiment's next run, below the report's. Runs for which something was missing have
// none.
func (p *acceptanceReport) next(name string) string {
	n := 1
	for _, r := range p.Runs {
		if r.Name == name && r.State != acceptance.Lacking {
			n++
		}
	}
	return fmt.Sprintf("%s-%d", name, n)
}

// add adds a run, in place of those of its experiment for which something was missing.
func (p *acceptanceReport) add(r *acceptance.Run) error {
	p.Runs = append(slices.DeleteFunc(p.Runs, func(o *acceptance.Run) bool {
		return o.Name == r.Name &&
			o.State == acceptance.Lacking
	}), r)
	dir := r.Inputs.Dir
	if r.State == acceptance.Lacking {
		dir = p.dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return outcome.Failed(fmt.Errorf("report: %w", err), "-o takes a directory that you may write to")
	}
	return nil
}

// outcomes are the answers that a run has so far.
func outcomes(r *acceptance.Run) (*acceptance.Outcomes, error) {
	o := &acceptance.Outcomes{}
	for _, s := range r.Steps {
		if s.State != acceptance.Ended || s.File == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(r.Inputs.Dir, s.File))
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

// save writes the report: the data first, then the page.
func (p *acceptanceReport) save() error {
	p.Version = version
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(facts.Whole(p.Report)); err != nil {
		return fmt.Errorf("encode the report: %w", err)
	}
	var page bytes.Buffer
	if err := founding.HTML(&page, p.Report); err != nil {
		return err
	}
	for name, content := range map[string][]byte{acceptanceJSON: text.Bytes(), acceptanceHTML: page.Bytes()} {
		if err := ops.ReplaceFile(filepath.Join(p.dir, name), content); err != nil {
			return outcome.Failed(fmt.Errorf("write the report %s: %w", filepath.Join(p.dir, name), err),
				"-o takes a directory that you may write to")
		}
	}
	return nil
}
