package wakeup

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/model/setting"
	"mpps/internal/strictjson"
)

// maxFile is the largest file, in bytes. One with the most intervals and counters has about 8 MB.
const maxFile = 64 << 20

// ErrNotAFile is wrapped by every error about a file's content.
var ErrNotAFile = errors.New("not a file of 'mpps latency'")

// Encode writes a file as JSON that ends in a newline.
func Encode(w io.Writer, f *File) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(f)
}

// Decode reads a file: a bare one, or an answer of latency --json with it as the result.
func Decode(reader io.Reader) (*File, error) {
	text, err := io.ReadAll(io.LimitReader(reader, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%w: larger than %d MiB", ErrNotAFile, maxFile>>20)
	}
	var head struct {
		Schema string          `json:"schema"`
		Result json.RawMessage `json:"result"`
	}
	if err := strictjson.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAFile, err)
	}
	if strings.HasPrefix(head.Schema, "mpps.latency/") && len(head.Result) > 0 {
		text = head.Result
	}
	f := &File{Schema: head.Schema}
	if err := strictjson.Unmarshal(text, f); f.Schema == Schema && err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotAFile, err)
	}
	return f, f.check()
}

// check validates what the rest of the program relies on.
func (f *File) check() error {
	switch {
	case f.Schema != Schema:
		return fmt.Errorf("%w: found schema %q, expected %q", ErrNotAFile, f.Schema, Schema)
	case f.Total.Latency == nil || f.Total.Latency.Count == 0 || len(f.Total.Latency.Buckets) == 0:
		return fmt.Errorf("%w: it has no wake-up", ErrNotAFile)
	case len(f.Runs) == 0:
		return fmt.Errorf("%w: it has no run", ErrNotAFile)
	}
	var count uint64
	for _, b := range f.Total.Latency.Buckets {
		count += b.Count
		if b.ToNs < b.FromNs || b.ToNs > 1e15 {
			return fmt.Errorf("%w: found a bucket from %d to %d ns", ErrNotAFile, b.FromNs, b.ToNs)
		}
	}
	if count != f.Total.Latency.Count {
		return fmt.Errorf("%w: its buckets hold %d wake-ups of %d", ErrNotAFile, count, f.Total.Latency.Count)
	}
	if s := f.Counted; s != nil {
		for _, source := range s.Sources {
			if len(source.Deltas) != len(s.Ends) {
				return fmt.Errorf("%w: counter %q has %d values for %d intervals", ErrNotAFile, source.Name,
					len(source.Deltas), len(s.Ends))
			}
		}
	}
	return nil
}

// Comparison compares two files.
type Comparison struct {
	Before string `json:"before"`
	After  string `json:"after"`
	// Longest compares the longest wake-up of each run, not just the longest of all.
	Longest  measure.Comparison `json:"longest_ns"`
	Rows     []Row              `json:"rows"`
	Warnings []measure.Warning  `json:"warnings"`
}

// Row is one figure of both files.
type Row struct {
	Name     string  `json:"name"` // min, mean, p50 … p99.999, max
	BeforeNs float64 `json:"before_ns"`
	AfterNs  float64 `json:"after_ns"`
}

// Compare compares two files. It has the percentiles for which both have enough samples.
func Compare(before, after *File) Comparison {
	c := Comparison{Before: before.Label("before"), After: after.Label("after"),
		Longest: measure.Compare(before.longest(), after.longest())}
	b, a := before.Total.Latency, after.Total.Latency
	c.Rows = append(c.Rows, Row{"min", float64(b.MinNs), float64(a.MinNs)}, Row{"mean", b.MeanNs, a.MeanNs})
	for _, p := range b.Percentiles {
		if v, enough := a.Percentile(p.P); enough {
			c.Rows = append(c.Rows, Row{fmt.Sprintf("p%g", p.P), float64(p.ValueNs), float64(v)})
		}
	}
	c.Rows = append(c.Rows, Row{"max", float64(b.MaxNs), float64(a.MaxNs)})
	differ := func(what string, x, y any) {
		if x != y {
			c.Warnings = append(c.Warnings, measure.Warning{Code: "different-" + strings.ReplaceAll(what, " ", "-"),
				Text: fmt.Sprintf("different %s: %v and %v", what, x, y),
				Hint: "the difference may come from this"})
		}
	}
	differ("tool", before.Tool.Name, after.Tool.Name)
	differ("CPUs", before.Asked.CPUs.String(), after.Asked.CPUs.String())
	differ("interval", before.Asked.Interval, after.Asked.Interval)
	differ("priority", before.Asked.Priority, after.Asked.Priority)
	differ("load", before.Asked.Load, after.Asked.Load)
	differ("duration", before.Asked.For, after.Asked.For)
	differ("number of runs", len(before.Runs), len(after.Runs))
	differ("host", before.Host, after.Host)
	differ("guest", before.guestName(), after.guestName())
	if b.Count != a.Count {
		few, many := min(b.Count, a.Count), max(b.Count, a.Count)
		if many > few+few/10 {
			c.Warnings = append(c.Warnings, measure.Warning{Code: "different-counts",
				Text: fmt.Sprintf("%d and %d wake-ups: the longest of more is longer", b.Count, a.Count),
				Hint: "compare percentiles, or measure for the same time"})
		}
	}
	return c
}

// longest returns the longest wake-up of each run, in ns.
func (f *File) longest() []float64 {
	var values []float64
	for _, r := range f.Runs {
		if r.Latency != nil {
			values = append(values, float64(r.Latency.MaxNs))
		}
	}
	return values
}

func (f *File) guestName() string {
	if f.Guest == nil {
		return ""
	}
	return f.Guest.Name
}

// Label returns the file's name, or otherwise if it has none.
func (f *File) Label(otherwise string) string {
	if f.Name != "" {
		return f.Name
	}
	return otherwise
}

// Where describes what was measured.
func (f *File) Where() string {
	if f.Guest != nil {
		return "guest " + f.Guest.Name + ", " + cpus(f.Asked.CPUs)
	}
	return "host " + f.Host + ", " + cpus(f.Asked.CPUs)
}

// cpus returns a set with its noun.
func cpus(set setting.CPUSet) string {
	if len(set) == 1 {
		return "CPU " + set.String()
	}
	return "CPUs " + set.String()
}
