package report

import (
	"fmt"
	"strings"

	"mpps/internal/advise/realtime"
	"mpps/internal/words"
)

// RealtimeCheck draws what contradicts that CPUs are isolated, worst first, then what ran on them, then what could not
// be judged.
func RealtimeCheck(t *Text, r *realtime.Report, verbose bool) {
	t.Wrap("", t.In(Bold, r.Verdict))
	if r.State == realtime.NotIsolated {
		t.Wrap("", "Name CPUs with --cpus, or plan to set some aside: mpps plan --latency 20us --cpus LIST")
		return
	}
	guests := words.If(len(r.Guests) > 0, "guests %s", strings.Join(r.Guests, ", "))
	watched := words.If(r.Seconds > 0, "watched for %.1f s, which took %.0f ms of a CPU", r.Seconds, r.Watching)
	t.Wrap("", words.Join("; ", "the host keeps "+r.House.Words(), guests, watched))
	alike := func(a, b realtime.Finding) bool {
		return a.ID == b.ID && a.Severity == b.Severity && a.Why == b.Why && a.Mendable == b.Mendable
	}
	for _, group := range Runs(r.Findings, alike) {
		drawRealtimeFindings(t, group, verbose)
	}
	drawThreads(t, r, verbose)
	if len(r.Unjudged) > 0 {
		t.Section("could not be judged")
		for _, u := range r.Unjudged {
			t.Wrap("  ", t.In(Bold, u.What)+": "+u.Why)
		}
	}
}

// firstOf returns the first values of a list, all of them for verbose, and how many are left.
func firstOf[T any](list []T, n int, verbose bool) (shown []T, rest int) {
	n = min(words.Either(verbose, len(list), n), len(list))
	return list[:n], len(list) - n
}

// drawRealtimeFindings draws findings of one kind: severity, what was found per object, why it matters and what to do.
func drawRealtimeFindings(t *Text, list []realtime.Finding, verbose bool) {
	const under = "         "
	f := list[0]
	t.Blank()
	shown, rest := firstOf(list, 4, verbose)
	t.List(severity(t, f.Severity)+" ", words.Each(shown, func(f realtime.Finding) string {
		return t.In(Bold, f.Object) + ": " + f.Found
	}))
	t.LineIf(rest > 0, under+"and %d more like these (-v shows them)", rest)
	t.Wrap(under, f.Why)
	t.Wrap(under, words.If(f.Mendable, "do: ")+f.Do)
	t.Line(under+"%s", t.In(Faint, "("+f.ID+words.If(f.Knob != "", "; mpps explain %s", f.Knob)+")"))
}

// drawThreads draws what ran on the CPUs, longest first.
func drawThreads(t *Text, r *realtime.Report, verbose bool) {
	if r.Seconds == 0 {
		return
	}
	t.Blank()
	if len(r.Ran) == 0 {
		t.Line("no thread ran on %s", r.Scope.CPUs.Words())
		return
	}
	t.Heading("what ran there")
	shown, rest := firstOf(r.Ran, 12, verbose)
	rows := [][]string{{"", "thread", "of", "cpu", "ms", "turns", "policy"}}
	for _, thread := range shown {
		rows = append(rows, []string{words.If(!thread.Expected, "!"), thread.Thread, thread.Of, fmt.Sprint(thread.CPU),
			fmt.Sprintf("%.1f", thread.RunMS), fmt.Sprint(thread.Switches),
			strings.TrimPrefix(thread.Policy, "SCHED_")})
	}
	t.Table(rows)
	t.LineIf(rest > 0, "and %d more (-v shows them)", rest)
}
