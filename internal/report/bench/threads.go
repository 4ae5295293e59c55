package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/measure"
	"mpps/internal/model/goal"
	"mpps/internal/report"
	"mpps/internal/words"
)

// mostThreads is how many groups of threads are shown: those that cost most.
const mostThreads = 8

// drawThreads draws what each packet, transaction or byte cost, by the columns of /proc/stat and by threads.
func drawThreads(t *report.Text, r *measure.Run) {
	unit := singular(r.Kind)
	if parts := r.CPUParts(); len(parts) > 0 {
		texts := words.Each(parts, func(p measure.CPUPart) string {
			return p.Name + " " + goal.FormatRate(p.Each.Value)
		})
		t.Wrap("  CPU ns/"+unit+" of this host: ", strings.Join(texts, " "))
	}
	costs := r.ThreadCosts()
	if len(costs) == 0 {
		return
	}
	left := max(0, len(costs)-mostThreads)
	slices.SortStableFunc(costs, func(a, b measure.ThreadCost) int { return cmp.Compare(b.CPUs.Value, a.CPUs.Value) })
	rows := [][]string{{"  threads", "ns/" + unit, "CPUs", "waiting", "busiest"}}
	for _, c := range costs[:len(costs)-left] {
		busiest := words.Either(c.Threads > 1, fmt.Sprintf("%.2f of %d", c.Busiest.Value, c.Threads), "-")
		waited := fmt.Sprintf("%.2f", c.Waited.Value)
		if c.Role == measure.Ourselves {
			waited = "-" // its clock does not say
		}
		rows = append(rows, []string{"  " + threadsName(c), goal.FormatRate(c.Each.Value),
			fmt.Sprintf("%.2f", c.CPUs.Value), waited, busiest})
	}
	t.Table(rows)
	t.Wrap("  ", words.If(left > 0, "%d more used less. ", left)+"Medians; the last three columns in CPUs (1 = one "+
		"full CPU). Thread time includes guest time, and softirqs handled on it")
}

// threadsName returns a group's role and guest, short enough for a narrow table.
func threadsName(c measure.ThreadCost) string {
	return report.Cut(string(c.Role)+words.If(c.Guest != "", " of %s", c.Guest), 32)
}
