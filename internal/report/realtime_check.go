package report

import (
	"fmt"
	"strings"

	"mpps/internal/knob"
	"mpps/internal/realtime"
)

// ranShown is how many threads that ran are drawn without verbose.
const ranShown = 12

// RealtimeCheck draws what contradicts that CPUs are set aside, worst first, then what ran on them, then what could not be judged.
func RealtimeCheck(t *Text, r *realtime.Report, verbose bool) {
	t.Wrapped("", t.In(Bold, r.Verdict))
	if r.State == realtime.NotIsolated {
		t.Wrapped("", "Name CPUs with --cpus, or plan to set some aside: mpps plan --latency 20us --cpus LIST")
		return
	}
	line := "the host keeps " + CPUs(r.House)
	if len(r.Guests) > 0 {
		line += "; guests " + strings.Join(r.Guests, ", ")
	}
	if r.Seconds > 0 {
		line += fmt.Sprintf("; watched for %.1f s, which took %.0f ms of a CPU", r.Seconds, r.Watching)
	}
	t.Wrapped("", line)
	for rest := r.Findings; len(rest) > 0; {
		n := alikeFindings(rest)
		realtimeFindings(t, rest[:n], verbose)
		rest = rest[n:]
	}
	ranThere(t, r, verbose)
	if len(r.Unjudged) > 0 {
		t.Blank()
		t.Heading("could not be judged")
		for _, u := range r.Unjudged {
			t.Wrapped("  ", t.In(Bold, u.What)+": "+u.Why)
		}
	}
}

// alikeFindings is how many findings at the head of a list are of one kind and equally bad.
func alikeFindings(list []realtime.Finding) int {
	n := 1
	for n < len(list) && list[n].ID == list[0].ID && list[n].Severity == list[0].Severity && list[n].Why == list[0].Why && list[n].Mendable == list[0].Mendable {
		n++
	}
	return n
}

// objectsShown is how many findings of one kind are drawn without verbose.
const objectsShown = 4

// realtimeFindings draws findings of one kind: how bad, of each object what was found, then why it matters and what to do.
func realtimeFindings(t *Text, list []realtime.Finding, verbose bool) {
	f := list[0]
	mark := fmt.Sprintf("%-8s", f.Severity)
	switch {
	case f.Severity >= knob.High:
		mark = t.In(RedBold, mark)
	case f.Severity == knob.Medium:
		mark = t.In(Yellow, mark)
	}
	t.Blank()
	shown := list
	if !verbose && len(shown) > objectsShown {
		shown = shown[:objectsShown]
	}
	for i, each := range shown {
		lead := "         "
		if i == 0 {
			lead = mark + " "
		}
		t.Wrapped(lead, t.In(Bold, each.Object)+": "+each.Found)
	}
	if rest := len(list) - len(shown); rest > 0 {
		t.Line("         and %d more like these (-v shows them)", rest)
	}
	t.Wrapped("         ", f.Why)
	do := "do: "
	if !f.Mendable {
		do = ""
	}
	t.Wrapped("         ", do+f.Do)
	id := f.ID
	if f.Knob != "" {
		id += "; mpps explain " + f.Knob
	}
	t.Line("         %s", t.In(Faint, "("+id+")"))
}

// ranThere draws what ran on the CPUs, longest first.
func ranThere(t *Text, r *realtime.Report, verbose bool) {
	if r.Seconds == 0 {
		return
	}
	t.Blank()
	if len(r.Ran) == 0 {
		t.Line("no thread ran on %s", CPUs(r.Scope.CPUs))
		return
	}
	t.Heading("what ran there")
	shown := r.Ran
	if !verbose && len(shown) > ranShown {
		shown = shown[:ranShown]
	}
	rows := [][]string{{"", "thread", "of", "cpu", "ms", "turns", "policy"}}
	for _, ran := range shown {
		mark := "!"
		if ran.Expected {
			mark = ""
		}
		rows = append(rows, []string{
			mark, ran.Thread, ran.Of, fmt.Sprint(ran.CPU), fmt.Sprintf("%.1f", ran.RunMS), fmt.Sprint(ran.Switches), strings.TrimPrefix(ran.Policy, "SCHED_"),
		})
	}
	t.Table(rows)
	if rest := len(r.Ran) - len(shown); rest > 0 {
		t.Line("and %d more (-v shows them)", rest)
	}
}
