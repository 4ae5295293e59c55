package fleet

import (
	"embed"
	"html/template"
	"io"
	"strings"
	"time"

	"mpps/internal/advise/fleet"
	"mpps/internal/advise/knob"
	"mpps/internal/report/page"
	"mpps/internal/words"
)

//go:embed fleet.html.tmpl style.css
var files embed.FS

var write = page.New(files, template.FuncMap{"class": classText, "names": func(all []string) string {
	return strings.Join(all, ", ")
}, "bad": func(s knob.Severity) bool { return s >= knob.High }})

// HTML writes a comparison as a page.
func HTML(w io.Writer, r *fleet.Report, version string, made time.Time) error {
	return write(w, page.Page{Title: words.Count(len(r.Hosts), "host") + " on one table",
		Verdict: words.Sentence(headline(r)), Body: r, Version: version, Made: made, Data: r})
}
