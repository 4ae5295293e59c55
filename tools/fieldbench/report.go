package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"mpps/internal/measure"
)

// A Report is the result of the comparison.
type Report struct {
	Kernel  string    `json:"kernel"`
	CPU     string    `json:"cpu"`
	Rounds  int       `json:"rounds"`
	Seconds float64   `json:"seconds"` // measured time of each turn
	Parts   []Part    `json:"parts"`
	Taken   time.Time `json:"taken"`
}

// A Part compares contestants by one figure.
type Part struct {
	Title string  `json:"title"`
	Unit  string  `json:"unit"`
	Scale float64 `json:"-"`    // divisor for printed values
	Base  int     `json:"base"` // the row that ratios refer to
	Rows  []Row   `json:"rows"`
}

// A Row is one contestant.
type Row struct {
	Name    string           `json:"name"`
	Version string           `json:"version,omitempty"`
	Values  []float64        `json:"values"` // one per round
	Median  measure.Estimate `json:"median"`
	Ratio   measure.Estimate `json:"ratio"` // to the part's base, in the same rounds
	Package string           `json:"package,omitempty"`
	Failed  string           `json:"failed,omitempty"` // why there is no figure
}

// A contestant may be in several Parts: one turn gives a value for each.
type contestant struct {
	row  Row
	turn func(context.Context) ([]float64, error)
}

// interleave gives each contestant one turn per round, and fills in the rows of the parts.
func interleave(ctx context.Context, o options, all []contestant, parts []Part) ([]Part, error) {
	for i := range parts {
		for _, c := range all {
			parts[i].Rows = append(parts[i].Rows, c.row)
		}
	}
	failed := make([]bool, len(all))
	for i, c := range all {
		failed[i] = c.row.Failed != ""
	}
	for round := range o.rounds {
		for n := range all {
			i := (n + round) % len(all) // so that nobody always follows the heaviest one
			if failed[i] {
				continue
			}
			values, err := all[i].turn(ctx)
			if ctx.Err() != nil {
				return nil, errors.New("interrupted")
			}
			text := ""
			for p := range parts {
				row := &parts[p].Rows[i]
				if err != nil {
					row.Failed, row.Values, failed[i] = err.Error(), nil, true
					continue
				}
				row.Values = append(row.Values, values[p])
				text += fmt.Sprintf(" %10.4g %s", values[p]/parts[p].Scale, parts[p].Unit)
			}
			if err != nil {
				text = " " + err.Error()
			}
			fmt.Fprintf(o.progress, "round %d of %d: %-30s%s\n", round+1, o.rounds, all[i].row.Name, text)
		}
	}
	for i := range parts {
		parts[i].summarise()
	}
	return parts, nil
}

// summarise takes medians; ratios are of the same round, so that slow drift of
// the machine does not enter.
func (p *Part) summarise() {
	base := p.Rows[p.Base].Values
	for i := range p.Rows {
		row := &p.Rows[i]
		row.Median = measure.Median(row.Values)
		if len(row.Values) == 0 || len(base) != len(row.Values) {
			continue
		}
		ratios := make([]float64, len(base))
		for n := range base {
			ratios[n] = row.Values[n] / base[n]
		}
		row.Ratio = measure.Median(ratios)
	}
}

func (r *Report) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, kernel %s, %d interleaved rounds of %g s, %s\n", r.CPU, r.Kernel, r.Rounds, r.Seconds,
		r.Taken.Format(time.DateOnly))
	for _, p := range r.Parts {
		fmt.Fprintf(w, "\n%s\n", p.Title)
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintf(t, "\t%s\tmin–max\tto %s\t95 %%\tpackage\n", p.Unit, p.Rows[p.Base].Name)
		for _, row := range p.Rows {
			if row.Failed != "" {
				fmt.Fprintf(t, "%s %s\t–\t\t\t\t%s\t%s\n", row.Name, row.Version, row.Package, row.Failed)
				continue
			}
			fmt.Fprintf(t, "%s %s\t%.4g\t%.4g–%.4g\t%.3f\t%.3f–%.3f\t%s\t\n", row.Name, row.Version,
				row.Median.Value/p.Scale,
				slices.Min(row.Values)/p.Scale, slices.Max(row.Values)/p.Scale, row.Ratio.Value, row.Ratio.Lo,
				row.Ratio.Hi,
				row.Package)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	return nil
}
