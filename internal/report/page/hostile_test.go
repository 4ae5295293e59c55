package page

import (
	"bytes"
	"html/template"
	"testing"
	"testing/fstest"
	"time"
	"unicode"

	"mpps/internal/must"
)

// TestPagesAreTame: a page that is printed on a terminal does not steer it, whatever its texts hold.
func TestPagesAreTame(t *testing.T) {
	own := fstest.MapFS{"own.html.tmpl": {Data: []byte(`{{define "body"}}<p title="{{.}}">{{.}}</p>{{end}}`)}}
	hostile := "a\x1b[2J\u009b\u202eb\x7f\r"
	var b bytes.Buffer
	must.Do(t, New(own, template.FuncMap{})(&b, Page{Title: hostile, Heading: hostile, Verdict: hostile, Body: hostile,
		Made: time.Unix(0, 0), Data: hostile}))
	for _, r := range b.String() {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) {
			t.Fatalf("%U is on the page", r)
		}
	}
}
