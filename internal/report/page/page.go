// Package page writes results as pages: one file each that needs no network and no script, for light, dark and print,
// with the result itself embedded as JSON.
package page

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"mpps/internal/facts"
	"mpps/internal/report/words"
)

//go:embed page.html.tmpl parts.html.tmpl page.css
var files embed.FS

// functions are what all templates may call.
var functions = template.FuncMap{
	"bytes": words.Bytes, "count": words.Count, "cpus": words.CPUs, "date": date, "duration": func(ns uint64) string { return words.Duration(float64(ns)) },
	"grouped": words.Grouped, "join": strings.Join, "loss": words.Loss, "percent": words.Percent,
	"number": func(i int) int { return i + 1 }, "seconds": words.Seconds, "sentence": words.Sentence, "share": words.Share, "si": words.SI,
}

func date(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 MST") }

// Page is what every page has. Body is for the template of its kind.
type Page struct {
	Title, Heading string // of the window, and on the page where it is another one
	Verdict, Lead  string
	Lines          []string // more of the verdict
	Body           any
	Warnings       any // a list of values with Text and Hint
	Version        string
	Made           time.Time
	Data           any // embedded
}

// Chart is a drawing with its title.
type Chart struct {
	Title, Note string
	Picture     template.HTML // empty: there is nothing to draw
}

// Drawn are the charts that have something to show.
func Drawn(all ...Chart) []Chart {
	return slices.DeleteFunc(all, func(c Chart) bool { return c.Picture == "" })
}

// Cell is a value, and below it something smaller, such as its interval.
type Cell struct{ Value, Small string }

// New makes a kind of page of templates, of which one defines "body", a style.css where it has any, and what they call. It
// returns what writes such a page.
func New(own fs.FS, calls template.FuncMap) func(io.Writer, Page) error {
	parse := sync.OnceValue(func() *template.Template {
		t := template.New("page.html.tmpl").Funcs(functions).Funcs(maps.Clone(calls))
		return template.Must(template.Must(t.ParseFS(files, "*")).ParseFS(own, "*"))
	})
	return func(w io.Writer, p Page) error {
		data, err := json.Marshal(facts.Whole(p.Data)) // escapes <, > and &: safe inside a script element
		if err != nil {
			return fmt.Errorf("embed the result in the page: %w", err)
		}
		return parse().Execute(w, struct {
			Page
			JSON template.JS
		}{p, template.JS(data)})
	}
}
