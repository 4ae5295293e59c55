package sheet

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"mpps/internal/advise/bottleneck"
	"mpps/internal/report/page"
	"mpps/internal/words"
)

//go:embed picture.svg.tmpl
var pictureFile embed.FS

var pictureTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.ParseFS(pictureFile, "*"))
})

// The layout of a picture, in pixels.
const (
	pictureWidth = 960
	rowHeight    = 178
	mostInRow    = 8
	radius       = 26
	lineHeight   = 26
)

// picture is what the template places.
type picture struct {
	Width, Height, Radius, Inner int
	Stops                        []stop
	Say                          []label
}

// stop is a stage of the path.
type stop struct {
	X, Y, NextX int // NextX is where the next one in the row is; 0: it is the last
	Name        string
	Object      []label
	Labels      []label // how busy it is, and its rate
	Top, Level  int     // of the part of its circle that is filled
	Limit       bool    // it is the bottleneck
}

type label struct {
	Y    int
	Text string
}

// Picture writes a diagnosis as an SVG file: the stages in path order, how busy each is, and the one that limits. Its
// colours are light or dark as the viewer asks.
func Picture(w io.Writer, d *bottleneck.Diagnosis) error {
	row := min(max(len(d.Stages), 1), mostInRow)
	column := pictureWidth / row
	p := picture{Width: pictureWidth, Radius: radius, Inner: radius - 4}
	for i, s := range d.Stages {
		object := lines(s.Object, column/10)
		one := stop{X: column*(i%row) + column/2, Y: 74 + i/row*rowHeight, Name: s.Name,
			Object: labels(object, 48, 17), Limit: d.Bottleneck != nil && d.Bottleneck.Stage == s.Name}
		if i%row < row-1 && i < len(d.Stages)-1 {
			one.NextX = one.X + column
		}
		var texts []string
		if s.Use >= 0 {
			one.Level = int(min(s.Use, 1) * 2 * radius)
			texts = append(texts, fmt.Sprintf("%.0f %% busy", 100*s.Use))
		}
		if s.PPS > 0 {
			texts = append(texts, words.SI(s.PPS, 3)+"pps")
		}
		one.Top, one.Labels = radius-one.Level, labels(texts, 49+17*len(object), 17)
		p.Stops = append(p.Stops, one)
	}
	below := (len(d.Stages)+row-1)/row*rowHeight + 30
	p.Say = labels(wrapped(words.Sentence(d.Why), 80), below, lineHeight)
	p.Height = below + len(p.Say)*lineHeight
	return page.Execute(pictureTemplate(), w, p)
}

// labels places texts below each other.
func labels(texts []string, y, step int) []label {
	var all []label
	for i, text := range texts {
		all = append(all, label{y + i*step, text})
	}
	return all
}

// wrapped breaks a text into lines of at most so many characters, if its words allow it.
func wrapped(text string, most int) []string {
	var lines []string
	for word := range strings.FieldsSeq(text) {
		if n := len(lines) - 1; n >= 0 && len(lines[n])+1+len(word) <= most {
			lines[n] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// lines returns a text in two lines of at most so many characters, shortened if it is longer.
func lines(text string, most int) []string {
	all := wrapped(text, most)
	if len(all) > 2 {
		all = []string{all[0], strings.Join(all[1:], " ")}
	}
	for i := range all {
		all[i] = shortened(all[i], most)
	}
	return all
}

func shortened(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
