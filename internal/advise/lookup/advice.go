package lookup

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"mpps/docs/advice"
)

// Entry is advice that is no knob of the catalogue.
type Entry struct {
	ID      string   `json:"id"`       // "advice." and a name
	Title   string   `json:"title"`    //
	Names   []string `json:"names"`    // what it is called and how it is written
	Does    string   `json:"does"`     // what it does
	For     string   `json:"for"`      // for whom it is right
	NotHere string   `json:"not_here"` // why mpps has no knob of it
	Instead string   `json:"instead"`  // what to do instead

	Markdown string `json:"-"` // the section of its page
}

// advicePrefix begins the IDs of advice.
const advicePrefix = "advice."

// Advice returns all advice that is no knob. TestAdvice checks that the pages parse.
var Advice = sync.OnceValue(func() []Entry {
	var all []Entry
	for _, page := range advice.Pages() {
		entries, _ := parseAdvice(page)
		all = append(all, entries...)
	}
	return all
})

// EntryOf returns the advice with an ID, nil if there is none.
func EntryOf(id string) *Entry {
	for _, e := range Advice() {
		if e.ID == id {
			return &e
		}
	}
	return nil
}

//go:embed chinese.txt
var chineseText string

// Chinese returns the title in Chinese and what to do in one sentence; empty if there are none.
func (e *Entry) Chinese() (title, answer string) {
	_, line, _ := strings.Cut(chineseText, "\n"+e.ID+": ")
	line, _, _ = strings.Cut(line, "\n")
	title, answer, _ = strings.Cut(line, " | ")
	return title, answer
}

// parseAdvice reads a page: sections that begin with "## advice.NAME", then a paragraph for each of the five fields,
// "Field: text".
func parseAdvice(page string) ([]Entry, error) {
	var all []Entry
	_, page, _ = strings.Cut(page, "\n## ")
	for section := range strings.SplitSeq(page, "\n## ") {
		paragraphs := strings.Split(strings.TrimSpace(section), "\n\n")
		e := Entry{ID: paragraphs[0], Markdown: "## " + strings.TrimSpace(section) + "\n"}
		if len(paragraphs) != 7 {
			return nil, fmt.Errorf("%s: %d paragraphs, expected an ID, a title and five fields", e.ID, len(paragraphs))
		}
		e.Title = plain(paragraphs[1])
		var names string
		for i, field := range []struct {
			name string
			to   *string
		}{
			{"Also:", &names}, {"Does:", &e.Does}, {"For:", &e.For}, {"Not here:", &e.NotHere},
			{"Instead:", &e.Instead},
		} {
			text, found := strings.CutPrefix(plain(paragraphs[i+2]), field.name+" ")
			if !found {
				return nil, fmt.Errorf("%s: paragraph %d does not begin with %q", e.ID, i+3, field.name)
			}
			*field.to = text
		}
		e.Names = strings.Split(names, "; ")
		all = append(all, e)
	}
	return all, nil
}

// plain returns a paragraph as one line, without the marks of `code`.
func plain(paragraph string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(paragraph), " "), "`", "")
}

//go:embed names.txt
var nameText string

// knobNames returns names of knobs that are not on their pages, by ID.
func knobNames() map[string][]string {
	names := map[string][]string{}
	id := ""
	for line := range strings.Lines(nameText) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "#") || line == "":
		case line[0] != ' ':
			id = line
		default:
			names[id] = append(names[id], strings.Split(strings.TrimSpace(line), "; ")...)
		}
	}
	return names
}
