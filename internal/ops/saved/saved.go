// Package saved reads the files that measurements write. A file's schema says what it holds.
package saved

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"mpps/internal/advise/plan"
	"mpps/internal/advise/tune"
	"mpps/internal/measure"
	"mpps/internal/measure/wakeup"
	"mpps/internal/ops"
	"mpps/internal/outcome"
)

// Result is the content of a file: exactly one of the pointers is set.
type Result struct {
	File string

	Run     *measure.Run
	AB      *measure.AB // two runs in turns
	Modes   *measure.Modes
	Search  *measure.Search
	Sizes   *measure.Sizes // searches over frame sizes
	Wakeups *wakeup.File
	Tune    *tune.Result
}

// kinds describes what a file can hold, by its schema.
var kinds = map[string]struct {
	noun, made string // the noun of errors, and the command that makes such a file
	decode     func(*Result, io.Reader) error
}{
	measure.Schema: {"run", "bench …", func(r *Result, in io.Reader) (err error) {
		if r.Run, err = measure.Decode(in); err == nil && r.Run.Median.N == 0 { // edited by hand
			r.Run.Median = measure.Median(r.Run.Values())
		}
		return err
	}},
	measure.SchemaAB: {"comparison", "bench … --plan PLAN", func(r *Result, in io.Reader) (err error) {
		r.AB, err = measure.DecodeAB(in)
		return err
	}},
	measure.SchemaModes: {"result", "bench modes …", func(r *Result, in io.Reader) (err error) {
		r.Modes, err = measure.DecodeModes(in)
		return err
	}},
	measure.SchemaSearch: {"search", "search …", func(r *Result, in io.Reader) (err error) {
		r.Search, err = measure.DecodeSearch(in)
		return err
	}},
	measure.SchemaSizes: {"search over sizes", "search --sizes …", func(r *Result, in io.Reader) (err error) {
		r.Sizes, err = measure.DecodeSizes(in)
		return err
	}},
	wakeup.Schema: {"latency", "latency …", func(r *Result, in io.Reader) (err error) {
		r.Wakeups, err = wakeup.Decode(in)
		return err
	}},
	tune.Schema: {"result", "tune …", func(r *Result, in io.Reader) (err error) {
		r.Tune, err = tune.Decode(in)
		return err
	}},
}

// schemaOf returns the schema of a file: its own, or that of the result if the file is an answer of --json.
func schemaOf(text []byte) string {
	var head struct {
		Schema string `json:"schema"`
		Result struct {
			Schema string `json:"schema"`
		} `json:"result"`
	}
	if json.Unmarshal(text, &head) == nil && head.Result.Schema != "" {
		return head.Result.Schema
	}
	return head.Schema
}

// Read reads a file of any known schema.
func Read(file string) (*Result, error) { return read(file, measure.Schema, false) }

// read reads a file that is expected to have a schema, or unless only is set any known one. The expected schema words
// the errors.
func read(file, expected string, only bool) (*Result, error) {
	k := kinds[expected]
	f, err := ops.OpenJSON(file)
	if err != nil {
		return nil, outcome.Failed(fmt.Errorf("%s %w", k.noun, err), "make one with 'mpps "+k.made+" -o FILE'")
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err == nil {
		if found, known := kinds[schemaOf(text)]; known && !only {
			k = found
		}
		r := &Result{File: file}
		if err = k.decode(r, bytes.NewReader(text)); err == nil {
			return r, nil
		}
	}
	return nil, outcome.Failed(fmt.Errorf("%s %s: %w", k.noun, file, outcome.FileCause(err)),
		"make a new one with 'mpps "+k.made+" -o FILE'")
}

// ReadRun reads the run of a file.
func ReadRun(file string) (*Result, error) { return read(file, measure.Schema, true) }

// ReadModes reads the result of a campaign over NIC modes.
func ReadModes(file string) (*measure.Modes, error) {
	r, err := read(file, measure.SchemaModes, true)
	if err != nil {
		return nil, err
	}
	return r.Modes, nil
}

// ReadWakeups reads a measurement of wake-ups.
func ReadWakeups(file string) (*wakeup.File, error) {
	r, err := read(file, wakeup.Schema, true)
	if err != nil {
		return nil, err
	}
	return r.Wakeups, nil
}

// Label returns the result's own name, or else that of its file without folder and extension.
func (r *Result) Label() string {
	switch {
	case r.Run != nil && r.Run.Name != "":
		return r.Run.Name
	case r.Search != nil && r.Search.Name != "":
		return r.Search.Name
	case r.Sizes != nil && r.Sizes.Name != "":
		return r.Sizes.Name
	case r.Wakeups != nil:
		return r.Wakeups.Label(fileLabel(r.File))
	}
	return fileLabel(r.File)
}

func fileLabel(file string) string {
	return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
}

// ReadPlan reads a plan.
func ReadPlan(file string) (*plan.Plan, error) {
	return ops.ReadJSON(file, "plan", "mpps plan …", plan.Decode)
}
