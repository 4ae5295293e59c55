// Package fleet draws a comparison of many hosts, as text and as a page.
package fleet

import (
	"fmt"
	"strings"

	"mpps/internal/advise/fleet"
	"mpps/internal/report"
	"mpps/internal/words"
)

// few is how many names, values and rows of each kind are shown where not all are asked for.
const few = 20

// Draw draws a comparison: what differs from its class first, then what limits the target on how many hosts.
func Draw(t *report.Text, r *fleet.Report, verbose bool) {
	t.Wrap("", t.In(report.Bold, headline(r)))
	for _, c := range r.Classes {
		t.Wrap(fmt.Sprintf("class %d: ", c.ID), classText(c))
	}
	drawOutliers(t, r)
	drawSplit(t, r, verbose)
	drawFindings(t, r, verbose)
	if len(r.Refused) > 0 {
		t.Section("not read")
		for _, f := range r.Refused {
			t.Wrap("  "+report.Cut(f.File, 60)+": ", f.Why)
		}
	}
}

// headline says how many hosts are alike.
func headline(r *fleet.Report) string {
	hosts := map[string]bool{}
	for _, o := range r.Outliers {
		for _, h := range o.Hosts {
			hosts[h] = true
		}
	}
	text := fmt.Sprintf("%s in %s: ", words.Count(len(r.Hosts), "host"),
		words.Count(len(r.Classes), "class", "classes"))
	switch {
	case len(r.Outliers) == 0 && len(r.Split) == 0:
		text += fmt.Sprintf("alike in all %s", words.Count(r.Compared, "value"))
	case len(r.Outliers) == 0:
		text += "no outlier"
	default:
		text += fmt.Sprintf("%s on %s", words.Count(len(r.Outliers), "outlier"), words.Count(len(hosts), "host"))
	}
	return text + words.If(len(r.Refused) > 0, "; %s not read", words.Count(len(r.Refused), "file"))
}

func classText(c fleet.Class) string {
	return fmt.Sprintf("%s, %s, NICs: %s, Linux %s, %s", words.Count(c.Hosts, "host"), c.CPU, c.NICs, c.Kernel, c.Role)
}

func drawOutliers(t *report.Text, r *fleet.Report) {
	if len(r.Outliers) == 0 {
		return
	}
	t.Section("differs from its class")
	for _, o := range r.Outliers {
		t.Wrap("  "+o.Address+"  ", report.Cut(o.Value, 60)+words.If(o.Places > 1, " (%d alike)", o.Places))
		t.Wrap("      ", fmt.Sprintf("%d of %d in class %d; the others: %s", o.Count, o.Of, o.Class,
			report.Cut(o.Majority, 60)))
		t.Wrap("      ", "on "+some(o.Hosts))
	}
}

func drawSplit(t *report.Text, r *fleet.Report, verbose bool) {
	if len(r.Split) == 0 {
		return
	}
	t.Section(words.Count(len(r.Split), "value") + " without a majority")
	n := words.Either(verbose, len(r.Split), min(len(r.Split), few))
	for _, s := range r.Split[:n] {
		var values []string
		for _, v := range s.Values {
			values = append(values, fmt.Sprintf("%s (%s)", report.Cut(v.Value, 40),
				words.Either(len(v.Hosts) > 3, words.Count(len(v.Hosts), "host"), strings.Join(v.Hosts, ", "))))
		}
		t.Wrap("  "+s.Address+"  ", strings.Join(values, "; ")+
			words.If(s.Count > len(s.Values), "; and %d more values", s.Count-len(s.Values)))
	}
	t.LineIf(n < len(r.Split), "  and %d more: -v shows all", len(r.Split)-n)
}

func drawFindings(t *report.Text, r *fleet.Report, verbose bool) {
	if len(r.Findings) == 0 {
		return
	}
	t.Section("limits the target")
	n := words.Either(verbose, len(r.Findings), min(len(r.Findings), few))
	rows := [][]string{}
	for _, f := range r.Findings[:n] {
		where := words.Either(len(f.Hosts) < len(r.Hosts), words.Count(len(f.Hosts), "host")+": "+some(f.Hosts),
			"all hosts")
		rows = append(rows, []string{"  " + f.Severity.String(), f.ID, where})
	}
	t.Table(rows)
	t.LineIf(n < len(r.Findings), "  and %d more settings: -v shows all", len(r.Findings)-n)
	t.Blank()
	t.Line("'mpps explain ID' says more; 'mpps audit --snapshot FILE' judges one host")
}

// some returns the first of many names, and how many more there are.
func some(hosts []string) string {
	n := min(len(hosts), few)
	shown := make([]string, n)
	for i, h := range hosts[:n] {
		shown[i] = report.Cut(h, 60)
	}
	return strings.Join(shown, ", ") + words.If(n < len(hosts), " and %d more", len(hosts)-n)
}
