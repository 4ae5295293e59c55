package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"mpps/internal/measure"
	"mpps/internal/measure/export"
	"mpps/internal/measure/wakeup"
	"mpps/internal/plan"
	"mpps/internal/report"
	"mpps/internal/report/bench"
)

// saved is what a file of bench holds: a run, the two of an interleaved comparison with its verdict, a campaign over
// NIC modes, or a search.
type saved struct {
	label string
	run   *measure.Run
	ab    *measure.AB
	modes *measure.Modes
	found *measure.Search
	awake *wakeup.File
}

func readResults(files []string) ([]saved, error) {
	results := make([]saved, len(files))
	for i, file := range files {
		var err error
		if results[i], err = readResult(file); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func readResult(file string) (saved, error) {
	r, err := readRun(file)
	if err == nil {
		if r.Median.N == 0 { // put together by hand
			r.Median = measure.Median(r.Values())
		}
		return saved{label: seriesLabel(r, file), run: r}, nil
	}
	switch {
	case errors.Is(err, measure.ErrInterleaved):
		ab, err := readAB(file)
		return saved{ab: ab}, err
	case errors.Is(err, measure.ErrModes):
		m, err := readModes(file)
		return saved{modes: m}, err
	case errors.Is(err, measure.ErrSearch):
		s, err := readSearch(file)
		return saved{label: searchLabel(s, file), found: s}, err
	case errors.Is(err, measure.ErrNotARun):
		if f, err := readWakeups(file); err == nil {
			return saved{label: f.Label(fileLabel(file)), awake: f}, nil
		} else if !errors.Is(err, wakeup.ErrAnotherFile) {
			return saved{}, err
		}
	}
	return saved{}, err
}

func (r *saved) addTo(doc *bench.Document) {
	switch {
	case r.run != nil:
		doc.Add(r.label, r.run)
	case r.modes != nil:
		doc.AddModes(r.modes)
	case r.found != nil:
		doc.AddSearch(r.label, r.found)
	case r.awake != nil:
		doc.AddWakeups(r.label, r.awake)
	default:
		for _, w := range r.ab.Warnings {
			doc.Warn(report.Warning(w))
		}
		doc.AddAB(r.ab)
	}
}

func (r *saved) draw(t *report.Text) {
	switch {
	case r.run != nil:
		drawRun(t, r.run, nil)
	case r.modes != nil:
		drawModes(t, r.modes, nil)
	case r.found != nil:
		drawSearch(t, r.found, nil)
	case r.awake != nil:
		drawWakeups(t, &latencyAnswer{File: *r.awake}, "")
	default:
		drawAB(t, r.ab, nil)
	}
}

func (r *saved) export(s *export.Set, f export.Format) {
	switch {
	case r.run != nil:
		s.Add(r.label, r.run)
	case r.modes != nil:
		s.AddModes(r.modes, f)
	case r.found != nil, r.awake != nil: // none of the other programs has a form for bounds; reprint refuses it
	default:
		s.AddAB("", r.ab)
	}
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

func readSearch(file string) (*measure.Search, error) {
	f, err := openJSON(file)
	if err != nil {
		return nil, failed(fmt.Errorf("search: %w", err), "make one with 'mpps search … -o FILE'")
	}
	defer f.Close()
	s, err := measure.DecodeSearch(f)
	if err != nil {
		return nil, failed(fmt.Errorf("search %s: %w", file, err), "make a new one with 'mpps search … -o FILE'")
	}
	return s, nil
}

// seriesLabel is a run's own name, or its file's.
func seriesLabel(r *measure.Run, file string) string {
	if r.Name != "" {
		return r.Name
	}
	return fileLabel(file)
}

func searchLabel(s *measure.Search, file string) string {
	if s != nil && s.Name != "" {
		return s.Name
	}
	return fileLabel(file)
}

// fileLabel is a file's name without its folder and its ending.
func fileLabel(file string) string {
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
