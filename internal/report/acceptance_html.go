package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"mpps/internal/acceptance"
	"mpps/internal/facts"
)

//go:embed acceptance.html.tmpl
var acceptanceTemplate string

//go:embed acceptance.css
var acceptanceStyle string

var acceptancePage = template.Must(template.New("acceptance").Parse(acceptanceTemplate))

// AcceptanceHTML writes the report as one file that needs no network and no script.
func AcceptanceHTML(w io.Writer, p *acceptance.Report) error {
	data, err := json.Marshal(facts.Whole(p)) // escapes <, > and &: safe inside a script element
	if err != nil {
		return fmt.Errorf("embed the report in the page: %w", err)
	}
	v := acceptanceView{
		Report: p, Style: template.CSS(pageStyle + acceptanceStyle), Data: template.JS(data), Stopped: "It stopped here:",
		Method: []string{
			"A figure of the founding experiment is orientation: it was measured on other hardware, and says what can be had, not what this machine must have. Reached means no worse, within the spread.",
			"Short by a share means that the measured figure is worse than the founding one by that share of it; the commands behind it tell more of this machine.",
			"Not comparable means that nothing follows from the comparison: other hardware, an emulated host, a generator or receiver that was the limit, or a figure that nobody wrote down. By how much the two differ is told all the same.",
			"In brackets stands the interval of the median at 95 % where there are six samples or more, and for searches the lower and upper bound of the rate.",
		},
	}
	last := map[string]*acceptance.Run{}
	for _, r := range p.Runs {
		if before := last[r.Name]; before != nil {
			v.earlier(before)
		}
		last[r.Name] = r
	}
	for _, name := range acceptance.Names() {
		if r := last[name]; r != nil {
			v.Runs = append(v.Runs, runOf(r))
		}
	}
	v.sumUp()
	if p.Machine != nil {
		v.Facts = machineFacts(p.Machine)
	}
	return acceptancePage.Execute(w, v)
}

type acceptanceView struct {
	*acceptance.Report
	Style          template.CSS
	Data           template.JS
	Headline, Lead string
	Stopped        string
	Chips          []chip
	Runs           []runView
	Earlier        []earlierRow
	Facts          []factRow
	Method         []string
}

type runView struct {
	*acceptance.Run
	Emulated                      bool
	Reached, Short, NotComparable int
	Chips                         []chip
	Stands, Sum                   string
	Missing                       []acceptance.Check
	Figures                       []figureView
	Unmeasured                    []string
	Steps                         []stepView
}

type figureView struct {
	acceptance.Judged
	Class, Mark, Word, Value, Spread, Then string
	Picture                                template.HTML
}

type stepView struct {
	State, Does, Outcome, Problem string
	Commands                      [][]string // by word: a line is not broken within one
	Answer                        []string
}

type earlierRow struct{ Run, What, Measured, Word string }

// sumUp says in one sentence how everything stands.
func (v *acceptanceView) sumUp() {
	reached, judged, comparable, waiting, emulated := 0, 0, 0, "", false
	for _, r := range v.Runs {
		judged += len(r.Figures)
		reached += r.Reached
		comparable += r.Reached + r.Short
		emulated = emulated || r.Emulated
		if r.Run.State != acceptance.Done && waiting == "" {
			waiting = r.Name + ": " + standsAs(r.Run.State)
		}
	}
	switch {
	case comparable > 0:
		v.Headline = fmt.Sprintf("%d of %s reached", reached, count(comparable, "comparable figure"))
	case judged > 0:
		v.Headline = "No figure that can be compared"
	default:
		v.Headline = "Nothing was measured yet"
	}
	v.Lead = "The founding experiments, repeated on this machine. Their figures are orientation, not a standard that it must meet."
	if emulated {
		v.Lead = "EMULATION. This shows that the protocol works from end to end; no rate or time in it says anything about hardware."
		v.Chips = append(v.Chips, chip{Text: "EMULATION", Class: "bad"})
	}
	if waiting != "" {
		v.Chips = append(v.Chips, chip{Text: waiting, Class: "warn"})
	}
	if m := v.Machine; m != nil {
		v.Chips = append(v.Chips, chip{Text: count(m.CPUs, "CPU") + ", " + count(m.Nodes, "node")}, chip{Text: "Linux " + m.Kernel})
		var nics []string
		for _, n := range m.OnPath() {
			if !slices.Contains(nics, n.Driver) && n.Driver != "" {
				nics = append(nics, n.Driver)
			}
		}
		if len(nics) > 0 {
			v.Chips = append(v.Chips, chip{Text: "NIC: " + strings.Join(nics, ", ")})
		}
	}
}

// standsAs is how a run stands, in words.
func standsAs(s acceptance.RunState) string {
	return map[acceptance.RunState]string{
		acceptance.Running: "is under way, or was killed", acceptance.Waiting: "waits for you", acceptance.Done: "done",
		acceptance.Failed: "ended early", acceptance.Lacking: "not run: something is missing",
	}[s]
}

func (v *acceptanceView) earlier(r *acceptance.Run) {
	when := r.Name + ", " + r.Started.UTC().Format("2 January 2006, 15:04")
	for _, j := range r.Figures {
		v.Earlier = append(v.Earlier, earlierRow{when, j.What, measuredText(j), verdictWord(j)})
	}
	if len(r.Figures) == 0 {
		v.Earlier = append(v.Earlier, earlierRow{when, "–", "–", standsAs(r.State)})
	}
}

func runOf(r *acceptance.Run) runView {
	v := runView{Run: r, Emulated: r.Machine != nil && r.Machine.Emulated}
	for _, j := range r.Figures {
		if j.State == acceptance.NotMeasured {
			what := j.What
			if j.Founding != nil {
				what += " (" + then(j) + ")"
			}
			v.Unmeasured = append(v.Unmeasured, what)
			continue
		}
		f := figureView{Judged: j, Word: verdictWord(j), Picture: figurePicture(j), Mark: "○"}
		f.Value, f.Spread = valueAndSpread(j)
		switch j.State {
		case acceptance.Reached:
			f.Class, f.Mark = "good", "✓"
			v.Reached++
		case acceptance.Short:
			f.Class, f.Mark = "bad", "▼"
			v.Short++
		default:
			v.NotComparable++
		}
		if j.Founding != nil {
			f.Then = then(j)
		}
		v.Figures = append(v.Figures, f)
	}
	var sum []string
	for _, part := range []struct {
		n    int
		word string
	}{{v.Reached, "reached"}, {v.Short, "short"}, {v.NotComparable, "not comparable"}, {len(v.Unmeasured), "not measured"}} {
		if part.n > 0 {
			sum = append(sum, fmt.Sprintf("%d %s", part.n, part.word))
		}
	}
	v.Stands, v.Sum = standsAs(r.State), strings.Join(sum, ", ")
	for _, c := range r.Checks {
		if !c.OK {
			v.Missing = append(v.Missing, c)
		}
	}
	class := map[acceptance.RunState]string{acceptance.Done: "good", acceptance.Failed: "bad", acceptance.Waiting: "warn", acceptance.Lacking: "warn"}[r.State]
	v.Chips = []chip{{Text: standsAs(r.State), Class: class}, {Text: r.Started.UTC().Format("2 January 2006, 15:04 MST")}}
	if r.Seconds > 0 {
		v.Chips = append(v.Chips, chip{Text: seconds(r.Seconds) + " of steps"})
	}
	if v.Emulated {
		v.Chips = append(v.Chips, chip{Text: "EMULATION", Class: "bad"})
	}
	if r.Inputs.Short {
		v.Chips = append(v.Chips, chip{Text: "short form", Class: "warn"})
	}
	for _, s := range r.Steps {
		v.Steps = append(v.Steps, stepOf(s))
	}
	return v
}

func stepOf(s acceptance.StepDone) stepView {
	v := stepView{State: string(s.State), Does: s.Does, Answer: s.Answer, Problem: s.Problem}
	lines := s.Ran
	if len(lines) == 0 {
		lines = commandLines(s.Step)
	}
	for _, line := range lines {
		v.Commands = append(v.Commands, strings.Fields(line))
	}
	switch s.State {
	case acceptance.Ended:
		v.Outcome = seconds(s.Seconds)
		if s.For != "" {
			v.Outcome = "it happened"
		}
	case acceptance.Skipped:
		v.Outcome = "not needed"
	case acceptance.Broke:
		v.Outcome = "failed after " + seconds(s.Seconds)
	case acceptance.Pending:
		v.Outcome = "not run"
		if s.Waited != nil {
			v.Outcome = "waits for this"
		}
	}
	return v
}

func machineFacts(m *acceptance.Machine) []factRow {
	rows := []factRow{
		{"CPU", fmt.Sprintf("%s; %s, %s, %s, %s", m.CPU, count(m.Packages, "package"), count(m.Cores, "core"), count(m.CPUs, "CPU"), count(m.Nodes, "NUMA node"))},
		{"Memory", fmt.Sprintf("%.0f GiB", float64(m.Memory)/(1<<30))},
		{"Kernel", m.Kernel + map[bool]string{true: ", PREEMPT_RT"}[m.Realtime]},
		{"Command line", m.CommandLine},
	}
	if m.QEMU != "" || m.Libvirt != "" {
		rows = append(rows, factRow{"QEMU, libvirt", m.QEMU + ", " + m.Libvirt})
	}
	if m.Emulated {
		rows = append(rows, factRow{"Emulated", "yes: EMULATION"})
	}
	for _, n := range m.NICs {
		text := fmt.Sprintf("%s, %s", n.Driver, count(n.Queues, "queue"))
		if n.Mbps > 0 {
			text += fmt.Sprintf(", %d Mb/s", n.Mbps)
		}
		if n.PCIe != "" {
			text += ", PCIe " + n.PCIe
		}
		if n.Node >= 0 {
			text += fmt.Sprintf(", node %d", n.Node)
		}
		if n.Firmware != "" {
			text += ", firmware " + n.Firmware
		}
		if n.VFs > 0 {
			text += ", up to " + count(n.VFs, "virtual function")
		}
		if n.Path {
			text += " · on the path"
		}
		rows = append(rows, factRow{"NIC " + n.Name, text})
	}
	if g := m.Guest; g != nil {
		text := fmt.Sprintf("%s, %.4g GiB, NIC %s %s with %s", count(g.VCPUs, "vCPU"), float64(g.Memory)/(1<<30), g.Model, g.Backend, count(g.Queues, "queue"))
		if g.Pinned {
			text += ", pinned"
		}
		if g.Huge {
			text += ", huge pages"
		}
		rows = append(rows, factRow{"Guest", text})
	}
	if len(m.Tunnels) > 0 {
		rows = append(rows, factRow{"Tunnels", strings.Join(m.Tunnels, ", ")})
	}
	if len(m.Attested) > 0 {
		rows = append(rows, factRow{"Attested", strings.Join(m.Attested, ", ")})
	}
	return rows
}
