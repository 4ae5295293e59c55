// Package page writes results as pages: one file each that needs no network and no script, for light, dark and print,
// with the result itself embedded as JSON.
package page

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

//go:embed page.html.tmpl parts.html.tmpl page.css
var files embed.FS

// functions are what all templates may call.
var functions = template.FuncMap{
	"bytes": words.Bytes, "count": words.Count, "grouped": words.Grouped,
	"join": strings.Join, "loss": words.Loss, "percent": words.Percent, "seconds": words.Seconds,
	"sentence": words.Sentence, "share": words.Share, "si": words.SI, "times": words.Times, "upper": strings.ToUpper,
	"card":     func(title, note string, picture template.HTML) Card { return Card{title, note, picture} },
	"date":     func(at time.Time) string { return at.UTC().Format("2 January 2006, 15:04 MST") },
	"duration": func(ns uint64) string { return words.Duration(float64(ns)) },
	"number":   func(i int) int { return i + 1 },
	"some":     func(n int, noun string) string { return words.Count(max(n, 1), noun) },
}

// Page is common to all pages. Body is for the template of its kind.
type Page struct {
	Title, Heading string // of the window, and on the page if that differs
	Verdict        string
	Lines          []string // more of the verdict
	Body           any
	Warnings       any // a list of values with Text and Hint
	Version        string
	Made           time.Time
	Data           any // embedded
}

// Card is a drawing with its title; without a drawing it does not appear.
type Card struct {
	Title, Note string
	Picture     template.HTML
}

// Cell is a value, and below it something smaller, such as its interval.
type Cell struct{ Value, Small string }

// New returns a function that writes a kind of page. own holds its templates, one of which defines "body", and
// optionally a style.css; calls are the functions that the templates call.
func New(own fs.FS, calls template.FuncMap) func(io.Writer, Page) error {
	parse := sync.OnceValue(func() *template.Template {
		t := template.New("page.html.tmpl").Funcs(functions).Funcs(maps.Clone(calls))
		return template.Must(template.Must(t.ParseFS(files, "*")).ParseFS(own, "*"))
	})
	return func(w io.Writer, p Page) error {
		data, err := json.Marshal(facts.NonNil(p.Data)) // escapes <, > and &: safe inside a script element
		if err != nil {
			return fmt.Errorf("embed the result in the page: %w", err)
		}
		return Execute(parse(), w, struct {
			Page
			JSON template.JS
		}{p, template.JS(data)})
	}
}

// Execute writes what a template makes of data. Escaping leaves control characters and Unicode's unseen formats as they
// are: they are replaced by question marks, since a page may be printed on a terminal, and XML allows few of them.
func Execute(t *template.Template, w io.Writer, data any) error {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return err
	}
	_, err := w.Write(bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '?'
		}
		return r
	}, b.Bytes()))
	return err
}
