package gallery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mpps/internal/advise/audit"
	"mpps/internal/golden"
	"mpps/internal/must"
)

// columns are the goals of the table, with what stands above them.
var columns = []struct{ flags, title string }{
	{"", "no goal named"}, {"--pps 1.8M", "1.8 Mpps"}, {"--nic vf", "a VF"}, {"--latency 20us", "20 µs"},
}

// titles are the folders' headings.
var titles = map[string]string{
	"guests": "Guests and their places", "kernels": "Kernels", "load": "Watched under load", "nics": "NICs",
	"paths": "Paths", "platforms": "Platforms", "processors": "Processors", "recorded": "Recorded machines",
	"tuned": "Tuned by a guide",
}

// TestTable writes the tables of hosts in docs/hosts.md, one for each folder.
func TestTable(t *testing.T) {
	var b strings.Builder
	folder := ""
	for _, s := range allHosts(t) {
		if s.Folder != folder {
			folder = s.Folder
			b.WriteString(heading(folder))
		}
		all, err := judged(s)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		m := must.Get(s.build())(t)
		fmt.Fprintf(&b, "| [%s](../test/gallery/hosts/%s/%s.yaml) | %s | %s | %s |", s.Title, s.Folder, s.Name,
			cmp.Or(m.Kernel.Release, "unknown"), strings.Join(s.drivers(), ", "), pathsInWords(m.Host))
		for _, c := range columns {
			i := slices.IndexFunc(all, func(v verdict) bool { return v.flags == c.flags })
			fmt.Fprintf(&b, " %s |", all[i].inWords())
		}
		b.WriteString("\n")
	}
	golden.Part(t, "../../docs/hosts.md", "hosts", b.String())
}

// heading returns the heading of a folder and of the columns.
func heading(folder string) string {
	text := "\n## " + cmp.Or(titles[folder], folder) + "\n\n| host | kernel | NICs | path |"
	for _, c := range columns {
		text += " " + c.title + " |"
	}
	return text + "\n|---|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n"
}

// drivers returns the drivers of the NICs of a host that can be read, each once.
func (s *Spec) drivers() []string {
	all := []string{}
	for _, name := range sorted(s.NICs) {
		if driver := s.NICs[name].Driver; !s.Unread && !slices.Contains(all, driver) {
			all = append(all, driver)
		}
	}
	slices.Sort(all)
	return all
}

// inWords says which families of knobs a plan changes. Without changes it says whether anything was judged.
func (v *verdict) inWords() string {
	var families []string
	for _, c := range v.plan.Changes {
		family, _, _ := strings.Cut(c.ID, ".")
		if !slices.Contains(families, family) {
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
