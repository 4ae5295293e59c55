package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"mpps/internal/strictjson"
)

// maxFile is the largest run file, in bytes. One of a thousand samples on 512 CPUs with histograms has about 60 MB.
const maxFile = 128 << 20

// ErrNotARun is wrapped by every error about the content of a run file.
var ErrNotARun = errors.New("not a run file")

// Encode writes a result as saved files contain it: indented JSON that ends in a newline.
func Encode[T any](w io.Writer, content T) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(content)
}

// Decode reads a run: a bare run, or a --json answer of bench with the run as its result. It checks what the rest of
// the program relies on: schema, kind, and that no number is negative or absurd.
func Decode(reader io.Reader) (*Run, error) {
	text, err := content(reader)
	if err != nil {
		return nil, err
	}
	var head struct {
		Schema string `json:"schema"`
	}
	switch err := strictjson.Unmarshal(text, &head); {
	case err == nil && head.Schema == SchemaAB:
		return nil, fmt.Errorf("%w: %w", ErrNotARun, ErrInterleaved)
	case err == nil && head.Schema == SchemaModes:
		return nil, fmt.Errorf("%w: %w", ErrNotARun, ErrModes)
	case err == nil && (head.Schema == SchemaSearch || head.Schema == SchemaSizes):
		return nil, fmt.Errorf("%w: %w", ErrNotARun, ErrSearch)
	}
	r := &Run{}
	if err := strictjson.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotARun, err)
	}
	return r, r.check()
}

// content returns the JSON object of a file, or the result within an answer of bench.
func content(reader io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrNotARun, maxFile>>20)
	}
	if len(bytes.TrimLeft(text, "\x00")) == 0 {
		return nil, fmt.Errorf("%w: empty", ErrNotARun)
	}
	var head struct {
		Schema string          `json:"schema"`
		Result json.RawMessage `json:"result"`
	}
	var kind *json.UnmarshalTypeError
	if err := strictjson.Unmarshal(text, &head); errors.As(err, &kind) && kind.Field == "" {
		return nil, fmt.Errorf("%w: expected a JSON object, found %s", ErrNotARun, kind.Value)
	} else if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotARun, err)
	}
	answer := strings.HasPrefix(head.Schema, "mpps.bench") || strings.HasPrefix(head.Schema, "mpps.search-") ||
		head.Schema == "mpps.search/1"
	if answer && len(head.Result) > 0 {
		return head.Result, nil
	}
	return text, nil
}

// decode reads a result with a schema: a bare one, or one within a --json answer.
func decode[T any](reader io.Reader, schema string) (*T, error) {
	text, err := content(reader)
	if err != nil {
		return nil, err
	}
	result := new(T)
	if err := strictjson.Unmarshal(text, result); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotARun, err)
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(text, &head); err != nil || head.Schema != schema {
		return nil, fmt.Errorf("%w: found schema %q, expected %q", ErrNotARun, head.Schema, schema)
	}
	return result, nil
}

func (r *Run) check() error {
	if r.Schema != Schema {
		return fmt.Errorf("%w: found schema %q, expected %q", ErrNotARun, r.Schema, Schema)
	}
	if r.Kind.Unit() == "" {
		return fmt.Errorf("%w: found kind %q, expected %s, %s or %s", ErrNotARun, r.Kind, PPS, RR, Stream)
	}
	for i, v := range r.Values() {
		if v < 0 || v > 1e15 || math.IsNaN(v) {
			return fmt.Errorf("%w: sample %d: found %g %s", ErrNotARun, i+1, v, r.Kind.Unit())
		}
	}
	return nil
}

// Compared is the comparison of two saved runs, the result of 'bench compare'.
type Compared struct {
	Kind Kind      `json:"kind"`
	Unit string    `json:"unit"`
	Runs [2]string `json:"runs"` // what the runs are called
	Comparison
	Verdict string      `json:"verdict"` // Same where there is no significant difference
	Cost    *Comparison `json:"cpu_ns_per_unit,omitempty"`
}

// CompareRuns compares two runs that were taken one after the other. The warnings list what else differed; the error
// says that the runs measured different things.
func CompareRuns(before, after *Run, names [2]string) (*Compared, []Warning, error) {
	caveats, err := Comparable(before, after)
	if err != nil {
		return nil, nil, err
	}
	cost := Compare(before.Costs(), after.Costs())
	c := &Compared{
		Kind: before.Kind, Unit: before.Kind.Unit(), Runs: names, Comparison: Compare(before.Values(), after.Values()),
		Cost: &cost,
	}
	c.Verdict = c.Comparison.String()
	return c, append(c.Comparison.Warnings, caveats...), nil
}

// Comparable checks whether two runs can be compared. It fails if they measured different things, and warns if more
// than the device differed.
func Comparable(before, after *Run) ([]Warning, error) {
	warnings, err := compareSettings(before, after)
	if err != nil {
		return nil, err
	}
	return append(warnings, Warning{Code: "not-interleaved",
		Text: "the runs were taken one after the other: what drifted meanwhile is in the difference",
		Hint: "measure before and after in turns: 'mpps bench … --plan PLAN'"}), nil
}

// compareSettings is Comparable without the warning that the runs were not interleaved.
func compareSettings(before, after *Run) ([]Warning, error) {
	if before.Kind != after.Kind {
		return nil, fmt.Errorf("the runs measured different things: %s and %s", before.Kind, after.Kind)
	}
	var warnings []Warning
	differ := func(what string, a, b any) {
		if a != b {
			warnings = append(warnings, Warning{Code: "different-" + strings.ReplaceAll(what, " ", "-"),
				Text: fmt.Sprintf("different %s: %v and %v", what, a, b), Hint: "the difference may come from this"})
		}
	}
	differ("host", before.Host, after.Host)
	differ("kernel", before.Environment.Kernel, after.Environment.Kernel)
	differ("cpu", before.Environment.CPU, after.Environment.CPU)
	differ("frame size", before.Load.FrameBytes, after.Load.FrameBytes)
	differ("mix of frame sizes", before.Load.Mix, after.Load.Mix)
	differ("number of directions", before.Load.Ways(), after.Load.Ways())
	differ("flows", before.Load.Flows, after.Load.Flows)
	differ("source MAC addresses", max(before.Load.SourceMACs, 1), max(after.Load.SourceMACs, 1))
	differ("rate asked for", before.Load.Rate, after.Load.Rate)
	differ("connections", before.Load.Connections, after.Load.Connections)
	differ("way of sending", before.Load.Sendfile, after.Load.Sendfile)
	differ("ramp", before.Load.Ramp, after.Load.Ramp)
	differ("protocol", before.Load.Protocol, after.Load.Protocol)
	differ("engine", before.Environment.Engine, after.Environment.Engine)
	differ("generator", before.Environment.Generator, after.Environment.Generator)
	differ("sink", before.Environment.Sink, after.Environment.Sink) // a receiver that does less work can take more
	for _, side := range []struct {
		name string
		run  *Run
	}{{"before", before}, {"after", after}} {
		if !side.run.Valid() {
			warnings = append(warnings, Warning{Code: "not-the-device",
				Text: fmt.Sprintf("%s: limited by the %s, not by the device under test", side.name, side.run.LimitedBy),
				Hint: "the true ratio may be larger or smaller"})
		}
		if side.run.Partial {
			warnings = append(warnings, Warning{Code: "partial", Text: side.name + ": the run ended early"})
		}
		if side.run.Environment.Emulated {
			warnings = append(warnings, Warning{Code: "emulated", Text: side.name + ": measured under full emulation"})
		}
	}
	return warnings, nil
}
