package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"mpps/internal/facts"
	"mpps/internal/measure"
)

//go:embed page.html.tmpl
var pageTemplate string

//go:embed page.css
var pageStyle string

var page = template.Must(template.New("page").Parse(pageTemplate))

// HTML writes a document as one file that needs no network and no script: the style and the drawings are inline, and
// the document itself is embedded as JSON.
func HTML(w io.Writer, d *Document) error {
	data, err := json.Marshal(facts.Whole(d)) // escapes <, > and &: safe inside a script element
	if err != nil {
		return fmt.Errorf("embed the result in the page: %w", err)
	}
	view := pageView{
		Document: d,
		Style:    template.CSS(pageStyle),
		Data:     template.JS(data),
		Verdict:  verdict(d),
		Stops:    stops(d.Path),
		Modes:    modeCharts(d),
		Rates:    rateCharts(d),
		Charts:   charts(d),
		Numbers:  numbers(d.runs(measure.PPS)),
		Talks:    talks(d.runs("")),
		Split:    cpuSplit(d.runs("")),
		Threads:  threads(d.runs("")),
		Delays:   delays(append(d.runs(""), d.wakeupRuns()...)),
		Awake:    wakeupCharts(d),
		Wakes:    wakeupViews(d),
		Losses:   losses(d.runs(measure.PPS)),
		Facts:    environment(d),
		Groups:   groupRows(d.Changes),
		Date:     d.Made.UTC().Format("2 January 2006, 15:04 MST"),
	}
	if d.Rollback != nil {
		view.Rollback = &rollbackView{RollbackRow: d.Rollback, Took: seconds(d.Rollback.Seconds)}
	}
	return page.Execute(w, view)
}

// pageView is a document with everything that the template needs worked out.
type pageView struct {
	*Document
	Style    template.CSS
	Data     template.JS
	Verdict  verdictView
	Stops    []stopView
	Modes    []chart
	Rates    []chart
	Charts   []chart
	Numbers  []numberRow
	Talks    []talkRow
	Split    []partRow
	Threads  []threadRow
	Delays   *delayTable
	Awake    []chart
	Wakes    []wakeupView
	Losses   []lossRow
	Facts    []factRow
	Groups   []changeGroup
	Rollback *rollbackView
	Date     string
}

type rollbackView struct {
	*RollbackRow
	Took string
}

// changeGroup is a row of changes that follow each other and differ only in address, values and reason.
type changeGroup struct {
	ChangeRow // the first
	All       []ChangeRow
	Reasons   []string
}

func groupRows(all []ChangeRow) []changeGroup {
	var groups []changeGroup
	for _, c := range all {
		n := len(groups)
		if n == 0 || groups[n-1].ID != c.ID || groups[n-1].Risk != c.Risk || groups[n-1].Needs != c.Needs || groups[n-1].Lasts != c.Lasts {
			groups = append(groups, changeGroup{ChangeRow: c})
			n++
		}
		g := &groups[n-1]
		g.All = append(g.All, c)
		if !slices.Contains(g.Reasons, c.Because) {
			g.Reasons = append(g.Reasons, c.Because)
		}
	}
	return groups
}

type factRow struct{ Name, Value string }

type stopView struct {
	Stop
	Width int
	Loss  string
}

// stops gives each station the width of the line that leads on from it: what is left of the packets after its loss.
func stops(path []Stop) []stopView {
	var views []stopView
	share := 1.0
	var entered float64
	for _, s := range path {
		v := stopView{Stop: s}
		if entered == 0 {
			entered = float64(s.Packets)
		}
		if s.Lost > 0 && entered > 0 {
			share = math.Max(0, share-float64(s.Lost)/entered)
			v.Loss = fmt.Sprintf("%s of %s packets were lost here", grouped(s.Lost), grouped(uint64(entered)))
		}
		v.Width = 3 + int(math.Round(share*9))
		views = append(views, v)
	}
	return views
}

func seconds(s float64) string {
	switch {
	case s < 10:
		return strconv.FormatFloat(s, 'f', 1, 64) + " s"
	case s < 120:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// grouped writes a count with thin spaces between groups of three digits.
func grouped(n uint64) string {
	text := strconv.FormatUint(n, 10)
	var out []byte
	for i := range len(text) {
		if i > 0 && (len(text)-i)%3 == 0 {
			out = append(out, "\u2009"...)
		}
		out = append(out, text[i])
	}
	return string(out)
}
