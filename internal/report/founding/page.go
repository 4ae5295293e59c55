package founding

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"mpps/internal/measure/acceptance"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/report/svg"
	"mpps/internal/words"
)

//go:embed founding.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{
	"commands": commands, "drivers": driverNames, "original": original, "state": stateText, "then": thenText,
	"value": value, "verdict": verdictText,
})

// HTML writes the report as a page.
func HTML(w io.Writer, p *acceptance.Report) error {
	b := body{Report: p}
	last := map[string]*acceptance.Run{}
	for _, r := range p.Runs {
		if before := last[r.Name]; before != nil {
			b.Earlier = append(b.Earlier, before)
		}
		last[r.Name] = r
	}
	reached, judged, comparable := 0, 0, 0
	for _, name := range acceptance.Names() {
		if last[name] == nil {
			continue
		}
		r := runOf(last[name])
		b.Runs = append(b.Runs, r)
		b.Emulated = b.Emulated || r.Emulated
		judged, reached, comparable = judged+len(r.Figures), reached+r.Reached, comparable+r.Reached+r.Short
		if r.Run.State != acceptance.Done && b.Waiting == "" {
			b.Waiting = r.Name + ": " + stateText(r.Run.State)
		}
	}
	out := page.Page{Title: "mpps acceptance", Body: b, Version: p.Version, Data: p,
		Verdict: "Nothing was measured yet"}
	switch {
	case comparable > 0:
		out.Verdict = fmt.Sprintf("%d of %s reached", reached, words.Count(comparable, "comparable figure"))
	case judged > 0:
		out.Verdict = "No figure that can be compared"
	}
	if m := p.Machine; m != nil {
		out.Heading = out.Title + " · " + m.CPU
	}
	return write(w, out)
}

type body struct {
	*acceptance.Report
	Runs     []runView         // the last of each experiment
	Earlier  []*acceptance.Run // the others
	Waiting  string            // what is not done
	Emulated bool
}

// driverNames returns the drivers of the NICs on the path.
func driverNames(m *acceptance.Machine) string {
	return words.Join(", ", report.Distinct(m.OnPath(), func(n acceptance.NIC) string { return n.Driver })...)
}

// value returns what was measured, with its spread.
func value(j acceptance.Judged) string {
	value, spread := measuredText(j)
	return words.Join(" ", value, spread)
}

// runView is a run with its figures by whether they were measured.
type runView struct {
	*acceptance.Run
	Emulated       bool
	Reached, Short int
	Sum            string
	Missing        []acceptance.Check
	Figures        []figureView
	Unmeasured     []string
	Rows           []acceptance.Judged // all figures in the order of the founding table, if there are more than a few
}

// fewFigures is how many figures need no table beside their cards.
const fewFigures = 5

// original returns the founding figure; a dash if none was recorded.
func original(j acceptance.Judged) string {
	if j.Founding == nil {
		return "–"
	}
	return figureText(*j.Founding, j.Unit, 0)
}

type figureView struct {
	acceptance.Judged
	Class, Mark, Value, Spread string
	Picture                    template.HTML
}

func runOf(r *acceptance.Run) runView {
	v := runView{Run: r, Emulated: r.Machine != nil && r.Machine.Emulated}
	if len(r.Figures) > fewFigures {
		v.Rows = r.Figures
	}
	incomparable := 0
	for _, j := range r.Figures {
		if j.State == acceptance.NotMeasured {
			v.Unmeasured = append(v.Unmeasured, j.What+words.If(j.Founding != nil, " (%s)", thenText(j)))
			continue
		}
		f := figureView{Judged: j, Picture: picture(j)}
		f.Value, f.Spread = measuredText(j)
		switch j.State {
		case acceptance.Reached:
			f.Class, f.Mark = "good", "✓"
			v.Reached++
		case acceptance.Short:
			f.Class, f.Mark = "bad", "▼"
			v.Short++
		default:
			f.Mark = "○"
			incomparable++
		}
		v.Figures = append(v.Figures, f)
	}
	number := func(n int, word string) string { return words.If(n > 0, "%d %s", n, word) }
	v.Sum = words.Join(", ", number(v.Reached, "reached"), number(v.Short, "short"),
		number(incomparable, "not comparable"), number(len(v.Unmeasured), "not measured"))
	v.Missing = slices.DeleteFunc(slices.Clone(r.Checks), func(c acceptance.Check) bool { return c.OK })
	return v
}

// commands returns the commands of a step, split into words: the page breaks lines only between words.
func commands(s acceptance.StepDone) [][]string {
	lines := s.Ran
	if len(lines) == 0 {
		lines = commandLines(s.Step)
	}
	var all [][]string
	for _, line := range lines {
		all = append(all, strings.Fields(line))
	}
	return all
}

// picture draws what was measured with its interval, and a line where the founding figure is.
func picture(j acceptance.Judged) template.HTML {
	m := j.Measured
	if m == nil || m.None != "" || j.Founding == nil {
		return ""
	}
	most := max(m.Value, m.Hi, *j.Founding)
	if most <= 0 {
		return ""
	}
	d := svg.New(12, 12)
	x := d.Span(min(m.Value, *j.Founding), most, 30)
	if m.Hi > m.Lo {
		d.Line("within", x.At(m.Lo), 20, x.At(m.Hi), 20)
	}
	d.Dot("dot s1", x.At(m.Value), 20, 6, value(j))
	d.Y = 36
	d.Rule("then", x.At(*j.Founding), 2)
	d.AxisX(x, 6, strings.Replace(j.Unit, "packet/s", "packets/s", 1)+" · dashed: then", words.Tick)
	return d.HTML(fmt.Sprintf("%s: %s, then %s", j.What, value(j), figureText(*j.Founding, j.Unit, 0)))
}
