package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/docs/knobs"
)

// Doc returns the prose of the knob's page. Pages are compiled in, and TestPages checks that they parse.
func (k *Knob) Doc() Doc {
	doc, _ := parsePage(k.ID, knobs.Page(k.ID))
	return doc
}

// Headings of a page. What stands above the first of them follows from the definition of the knob: TestKnobPages of
// cmd/mpps compares and writes it.
const (
	headingWant    = "## What it should be"
	headingWhy     = "## Why"
	headingCost    = "## What it costs"
	headingVerify  = "## How to see that it worked"
	headingTraps   = "## Traps"
	headingSources = "## Sources"
	pageEnd        = "[All knobs](README.md)"
)

// parsePage reads docs/knobs/ID.md: a section under each heading, in this order. A section is one paragraph; traps and
// sources are lists, and a source is "FACT: WHERE".
func parsePage(id, text string) (Doc, error) {
	p := &page{name: "docs/knobs/" + id + ".md", lines: strings.Split(text, "\n")}
	p.head(id)
	doc := Doc{
		Want:   p.paragraph(headingWant),
		Why:    p.paragraph(headingWhy),
		Cost:   p.paragraph(headingCost),
		Verify: p.paragraph(headingVerify),
		Traps:  p.list(headingTraps),
	}
	for _, item := range p.list(headingSources) {
		fact, where, found := strings.Cut(item, ": ")
		if !found {
			p.fail("source %q is not FACT: WHERE", item)
		}
		doc.Sources = append(doc.Sources, Source{fact, where})
	}
	p.expect(pageEnd)
	p.expect("")
	if p.at < len(p.lines) {
		p.fail("text after %q", pageEnd)
	}
	return doc, p.err
}

// page is a page being read line by line.
type page struct {
	name  string
	lines []string
	at    int   // number of the last line read
	err   error // the first one
}

func (p *page) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s:%d: %s", p.name, p.at, fmt.Sprintf(format, args...))
	}
}

// next returns the next line, "" after the last one.
func (p *page) next() string {
	p.at++
	if p.at > len(p.lines) {
		return ""
	}
	return p.lines[p.at-1]
}

func (p *page) expect(want string) {
	if line := p.next(); line != want {
		p.fail("found %q, expected %q", line, want)
	}
}

// head skips everything above the first section.
func (p *page) head(id string) {
	p.expect("# " + id)
	p.expect("")
	if first := slices.Index(p.lines, headingWant); first >= p.at {
		p.at = first
	}
}

// paragraph returns a section of one paragraph, as one line.
func (p *page) paragraph(heading string) string {
	p.expect(heading)
	p.expect("")
	var lines []string
	for line := p.next(); line != ""; line = p.next() {
		lines = append(lines, p.plain(line))
	}
	if len(lines) == 0 {
		p.fail("nothing under %q", heading)
	}
	return strings.Join(lines, " ")
}

// list returns the items of a section, each as one line.
func (p *page) list(heading string) []string {
	p.expect(heading)
	p.expect("")
	var items []string
	for line := p.next(); line != ""; line = p.next() {
		first, isFirst := strings.CutPrefix(line, "- ")
		more, isMore := strings.CutPrefix(line, "  ")
		switch {
		case isFirst:
			items = append(items, p.plain(first))
		case isMore && len(items) > 0:
			items[len(items)-1] += " " + p.plain(more)
		default:
			p.fail("found %q, expected \"- \" and an item, or its next line, indented by two", line)
		}
	}
	if len(items) == 0 {
		p.fail("nothing under %q", heading)
	}
	return items
}

// plain returns a line without the marks of `code`. All other Markdown is an error: mpps explain shows plain text.
func (p *page) plain(line string) string {
	first, _, _ := strings.Cut(line, " ")
	number := strings.TrimLeft(first, "0123456789")
	if strings.Trim(first, "-+*#=~|>") == "" || number != first && (number == "." || number == ")") {
		p.fail("at the beginning of a line %q is not plain text in Markdown", first)
	}
	parts := strings.Split(line, "`")
	if len(parts)%2 == 0 {
		p.fail("a ` without a second one on the line")
	}
	for i := 0; i < len(parts); i += 2 {
		text := strings.ReplaceAll(parts[i], " * ", "")
		if strings.ContainsAny(text, `<\*`) || strings.Contains(text, "](") {
			p.fail("%q is not plain text: code goes between two `", parts[i])
		}
	}
	return strings.Join(parts, "")
}
