package gallery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/golden"
)

// columns are the goals of the table, with what stands above them.
var columns = []struct{ flags, title string }{
	{"--pps 200k", "200 kpps"}, {"--pps 1.8M", "1.8 Mpps"}, {"--nic vf", "a VF"}, {"--latency 20us", "20 µs"},
}

// TestTable writes the table of hosts in docs/hosts.md.
func TestTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| host | path of its guests' packets |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, s := range allHosts(t) {
		all, err := judged(s)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		m, err := s.Machine()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "| [%s](../test/gallery/hosts/%s.yaml) | %s |", s.Title, s.Name, pathsInWords(m.Host))
		for _, c := range columns {
			i := slices.IndexFunc(all, func(v verdict) bool { return v.flags == c.flags })
			fmt.Fprintf(&b, " %s |", all[i].inWords())
		}
		b.WriteString("\n")
	}
	golden.Part(t, "../../docs/hosts.md", "hosts", b.String())
}

// inWords says which families of knobs a plan changes. Without changes it says whether anything was judged.
func (v *verdict) inWords() string {
	var families []string
	for _, c := range v.plan.Changes {
		family, _, _ := strings.Cut(c.ID, ".")
		if !contains(families, family) {
			families = append(families, family)
		}
	}
	switch {
	case len(families) > 0:
		slices.Sort(families)
		return strings.Join(families, ", ")
	case v.report.Counts[audit.OK]+v.report.Counts[audit.Off] == 0:
		return "not judged"
	}
	return "nothing"
}
