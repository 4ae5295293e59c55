// Package sheet writes a page about a host, to be sent to a colleague or a customer: its packet paths, what limits them
// and what a plan would change.
package sheet

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/bottleneck"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/model/facts"
	"mpps/internal/outcome"
	"mpps/internal/report"
	"mpps/internal/report/page"
	"mpps/internal/words"
)

//go:embed sheet.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{"more": few, "bad": bad, "evidence": report.Evidence,
	"confidence": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }})

func few(names []string) string { return report.Few(names, 6) }

// Sheet is a host and what is known about it; what is nil is left out. Data is the result that the page is about.
type Sheet struct {
	Host      *facts.Host
	Audit     *audit.Report
	Plan      *plan.Plan
	Diagnosis *bottleneck.Diagnosis
	Warnings  []outcome.Warning
	Data      any
	Chinese   bool // the settings are named in Chinese too
}

// Brief returns what a setting is about in Chinese, if that is asked for and there is a text; otherwise nil.
func (s Sheet) Brief(id string) *knob.Brief {
	if k := knob.Find(id); k != nil && s.Chinese {
		if brief, found := k.Chinese(); found {
			return &brief
		}
	}
	return nil
}

// HTML writes a sheet as a page.
func HTML(w io.Writer, s Sheet, version string, made time.Time) error {
	b := body{Sheet: s, Chips: chips(s.Host)}
	b.Ways, _ = report.Ways(s.Host, false)
	if s.Audit != nil {
		off := s.Audit.InState(audit.Off)
		b.Lead = words.Sentence(s.Audit.Why) + ". " + words.Sentence(s.Audit.Verdict) + "."
		b.Findings = findings(off)
		b.Unknown = causes(s.Audit.InState(audit.Unknown))
		b.Next = words.If(len(off) > 0, "mpps plan %s -o plan.json", s.Audit.Goal.Flags())
	}
	if s.Plan != nil {
		for _, all := range report.Runs(s.Plan.Changes, report.SameTerms) {
			n := min(len(all), mostPlaces)
			b.Changes = append(b.Changes, changes{all[:n], all[n:], report.Needs(all)})
		}
		b.Lead = s.Plan.Why
		b.Next = words.If(!s.Plan.Empty(), "mpps apply plan.json")
	}
	name := cmp.Or(s.Host.Name, "host")
	return write(w, page.Page{Title: name + " · " + made.UTC().Format("2 January 2006") + " · mpps",
		Heading: name + ": " + b.subject(), Verdict: b.verdict(), Body: b, Warnings: s.Warnings, Version: version,
		Made: made, Data: s.Data})
}

type body struct {
	Sheet
	Chips    []string
	Ways     []report.Way
	Findings []finding
	Unknown  []cause
	Changes  []changes
	Lead     string
	Next     string // the command that goes on; empty: none
}

// subject says what kind of page it is.
func (b *body) subject() string {
	switch {
	case b.Plan != nil:
		return "what would change"
	case b.Audit != nil:
		return "what limits its packets"
	case b.Diagnosis != nil:
		return "what limits its packets now"
	}
	return "how packets reach its guests"
}

// verdict is the headline: the answer of the command.
func (b *body) verdict() string {
	switch {
	case b.Plan != nil:
		return words.Either(b.Plan.Empty(), "Nothing to change", words.Count(len(b.Plan.Changes), "change")+" planned")
	case b.Audit != nil:
		n := len(b.Audit.AtLeast(knob.Low))
		return words.Either(n > 0, words.Count(n, "setting limits", "settings limit")+" the target",
			"No setting limits the target")
	case b.Diagnosis != nil:
		return words.Sentence(b.Diagnosis.Why)
	}
	return words.Count(len(b.Host.Guests), "guest") + ", " + words.Count(len(b.Host.NICs), "NIC")
}

func chips(h *facts.Host) []string {
	c := h.Topology.Counts
	return slices.DeleteFunc([]string{
		words.If(h.Kernel.Release != "", "Linux %s", h.Kernel.Release), h.Topology.Model,
		words.Count(c.CPUsOnline, "CPU"), words.Count(c.NUMANodes, "NUMA node"),
		words.If(h.Emulated, "emulated: rates and times prove nothing"),
		words.If(h.Virtual != "" && !h.Emulated, "a guest of %s", h.Virtual),
	}, func(text string) bool { return text == "" })
}

// changes are changes that differ in place and values alone: those that are shown, and the rest.
type changes struct {
	Shown, Rest []plan.Change
	Needs       string // what must happen before they take effect
}

// finding is what is off with one setting, at one or several places.
type finding struct {
	audit.Finding
	Places []audit.Finding // at most mostPlaces
	More   int
}

const mostPlaces = 4

func findings(all []audit.Finding) []finding {
	type key struct {
		id       string
		severity knob.Severity
	}
	var rows []finding
	for _, group := range report.Group(all, func(f audit.Finding) key { return key{f.ID, f.Severity} }) {
		n := min(len(group), mostPlaces)
		rows = append(rows, finding{group[0], group[:n], len(group) - n})
	}
	return rows
}

// cause is why some settings could not be judged.
type cause struct {
	Why string
	N   int
	IDs []string
}

func causes(all []audit.Finding) []cause {
	var rows []cause
	for _, group := range report.Group(all, func(f audit.Finding) string { return f.Why }) {
		ids := report.Distinct(group, func(f audit.Finding) string { return f.ID })
		rows = append(rows, cause{group[0].Why, len(group), ids})
	}
	slices.SortStableFunc(rows, func(a, b cause) int { return b.N - a.N })
	return rows
}

// bad reports whether a finding deserves the colour of alarm.
func bad(s knob.Severity) bool { return s >= knob.High }
