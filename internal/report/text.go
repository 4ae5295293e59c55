package report

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Text collects the lines of a view for a terminal.
type Text struct {
	Color bool // styles are drawn
	Width int  // columns that a line may have

	// Chinese has titles, values and reasons of knobs in Chinese.
	Chinese bool

	b strings.Builder
}

func (p *Printer) text() *Text { return &Text{Color: p.color, Width: p.width, Chinese: p.chinese} }

// Draw returns what a view draws on a terminal of so many columns, without colour.
func Draw(columns int, view func(*Text)) string {
	t := &Text{Width: columns}
	view(t)
	return t.b.String()
}

// Part returns the lines of a view, drawn with the same width and colours.
func (t *Text) Part(view func(*Text)) []string {
	part := &Text{Color: t.Color, Width: t.Width, Chinese: t.Chinese}
	view(part)
	if part.b.Len() == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(part.b.String(), "\n"), "\n")
}

// Append adds text unchanged, such as lines from Part.
func (t *Text) Append(text string) { t.b.WriteString(text) }

// String returns the text so far.
func (t *Text) String() string { return t.b.String() }

// Style is a terminal style (SGR parameters); it never carries meaning alone.
type Style string

// The styles.
const (
	Bold    Style = "1"
	Faint   Style = "2"
	Red     Style = "31"
	Green   Style = "32"
	Yellow  Style = "33"
	Cyan    Style = "36"
	RedBold Style = "1;31"
)

// In returns the text in a style, or plain if there is no colour.
func (t *Text) In(s Style, text string) string {
	if !t.Color || text == "" || s == "" {
		return text
	}
	return styleMark + string(s) + "m" + text + styleMark + "0m"
}

// styleMark begins a style until the line is written. No text from elsewhere can contain it: what looks like a style
// there is shown as plain characters.
var styleMark = "\x1b" + hex.EncodeToString([]byte(rand.Text()))

// Line adds a formatted line. Its values may come from untrusted files: see sanitize.
func (t *Text) Line(format string, args ...any) {
	t.b.WriteString(sanitize(fmt.Sprintf(format, args...), t.Color) + "\n")
}

// LineIf adds a formatted line where it holds.
func (t *Text) LineIf(holds bool, format string, args ...any) {
	if holds {
		t.Line(format, args...)
	}
}

// Blank adds an empty line.
func (t *Text) Blank() { t.b.WriteByte('\n') }

// Heading adds a line that names what follows.
func (t *Text) Heading(text string) { t.Line("%s", t.In(Bold, text)) }

// Section adds a heading after an empty line.
func (t *Text) Section(text string) {
	t.Blank()
	t.Heading(text)
}

// Value adds a line with a prefix, such as "- " in a diff, and a value, cut at the width: --json has all of it.
func (t *Text) Value(s Style, prefix, value string) {
	t.Line("%s", t.In(s, prefix+Cut(value, t.Width-Visible(prefix))))
}

// Diff adds two lines: the old value and the new one.
func (t *Text) Diff(indent, from, to string) {
	t.Value(Red, indent+"- ", from)
	t.Value(Green, indent+"+ ", to)
}

// Field adds a text after its name, if there is a text.
func (t *Text) Field(name, text string) {
	if text != "" {
		t.Wrap(name, text)
	}
}

// Row adds two texts, on one line if it is wide enough.
func (t *Text) Row(name, text string) {
	if Visible(name+text) <= t.Width {
		t.Line("%s", name+text)
		return
	}
	t.Wrap(name, text)
}

// WrapIf adds a formatted text after a prefix where it holds.
func (t *Text) WrapIf(holds bool, prefix, format string, args ...any) {
	if holds {
		t.Wrap(prefix, fmt.Sprintf(format, args...))
	}
}

// Each adds texts, each after the same prefix.
func (t *Text) Each(prefix string, texts []string) {
	for _, text := range texts {
		t.Wrap(prefix, text)
	}
}

// SavedFiles adds the files that hold a result.
func (t *Text) SavedFiles(files []string) {
	for _, file := range files {
		t.Line("  saved as %s", file)
	}
}

// List adds texts below each other, the first after a common name.
func (t *Text) List(name string, texts []string) {
	for _, text := range texts {
		t.Wrap(name, text)
		name = strings.Repeat(" ", Visible(name))
	}
}

// Wrap adds text broken to the width at spaces, but not before a per cent sign, and beside wide characters; the first
// line after a prefix, the others indented as far. A prefix that leaves too little room stands alone, and the text
// follows indented by four.
func (t *Text) Wrap(prefix, text string) {
	const deep = "    "
	line, used, fresh := prefix, Visible(prefix), true
	indent := strings.Repeat(" ", used)
	start := func(with string) { line, used, fresh = with, Visible(with), true }
	if used > t.Width*2/3 {
		if lead := prefix[:len(prefix)-len(strings.TrimLeft(prefix, " "))]; used > t.Width && len(lead) < t.Width/2 {
			t.Wrap(lead, prefix)
		} else {
			t.Line("%s", strings.TrimRight(prefix, " "))
		}
		indent = deep
		start(indent)
	}
	for _, word := range unbroken(text) {
		n, gap := Visible(word.text), words.Either(word.glued, "", " ")
		switch {
		case fresh && used+n > t.Width && strings.TrimSpace(line) != "": // no room after the prefix
			t.Line("%s", strings.TrimRight(line, " "))
			indent = deep
			start(indent)
		case !fresh && used+len(gap)+n > t.Width:
			t.Line("%s", line)
			start(indent)
		case !fresh:
			line, used = line+gap, used+len(gap)
		}
		line, used, fresh = line+word.text, used+n, false
	}
	t.Line("%s", strings.TrimRight(line, " "))
}

// piece is a part of a text that no line break divides.
type piece struct {
	text  string
	glued bool // no space stands between it and the piece before it
}

// unbroken splits a text into pieces that stay on one line: words, with a per cent sign next to its number, and within
// words the parts between wide characters.
func unbroken(text string) []piece {
	var all []piece
	for _, word := range strings.Fields(text) {
		if n := len(all); n > 0 && strings.HasPrefix(word, "%") {
			all[n-1].text += " " + word
			continue
		}
		all = append(all, divided(word)...)
	}
	return all
}

// Punctuation that does not begin a line, and such as does not end one.
const (
	noFirst = "，。；：、！？）》”%…"
	noLast  = "（《“"
)

// divided divides a word beside its wide characters.
func divided(word string) []piece {
	var all []piece
	from, before := 0, rune(0)
	for at, r := range word {
		kept := strings.ContainsRune(noFirst, r) || strings.ContainsRune(noLast, before)
		if at > 0 && (wide(before) || wide(r)) && !kept {
			all = append(all, piece{word[from:at], from > 0})
			from = at
		}
		before = r
	}
	return append(all, piece{word[from:], from > 0})
}

// wide reports whether a character takes two columns (Unicode Standard Annex 11).
func wide(r rune) bool {
	k := width.LookupRune(r).Kind()
	return k == width.EastAsianWide || k == width.EastAsianFullwidth
}

// Table adds rows whose columns are padded to the widest cell; the last column is wrapped at the width.
func (t *Text) Table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Visible(cell))
		}
	}
	for _, row := range rows {
		prefix, n := "", max(len(row)-1, 0)
		for i, cell := range row[:n] {
			prefix += Pad(cell, widths[i]+2)
		}
		last := strings.Join(row[n:], "")
		if Visible(prefix)+Visible(last) <= t.Width {
			t.Line("%s", strings.TrimRight(prefix+last, " "))
		} else {
			t.Wrap(prefix, last)
		}
	}
}

// Warning adds a caveat with its hint.
func (t *Text) Warning(w Warning) {
	t.Wrap(t.In(Yellow, "warning: "), w.Text)
	t.Field("hint: ", w.Hint)
}

// sanitize replaces what would steer a terminal or break a line by a question mark. Values come from files that anybody
// may have written. Styles of In stay if there is colour.
func sanitize(text string, colour bool) string {
	if !strings.ContainsFunc(text, steers) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		if rest, is := strings.CutPrefix(text, styleMark); is && colour {
			style, after, _ := strings.Cut(rest, "m")
			b.WriteString("\x1b[" + style + "m")
			text = after
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case steers(r) || r == utf8.RuneError && size == 1:
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// steers reports whether a character changes how others are shown: controls, formats that are not seen themselves, such
// as those that turn the direction of writing (Unicode, category Cf), and separators of lines and paragraphs.
func steers(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

// Visible returns the number of columns that text takes, colour sequences left out.
func Visible(text string) int {
	n, escape := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case wide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// Pad fills text up with spaces to a width, on the left for a negative one.
func Pad(text string, width int) string {
	if width < 0 {
		return strings.Repeat(" ", max(0, -width-Visible(text))) + text
	}
	return text + strings.Repeat(" ", max(0, width-Visible(text)))
}

// Cut cuts a value at a number of columns.
func Cut(value string, columns int) string {
	value = sanitize(value, false)
	if Visible(value) <= columns {
		return value
	}
	end, used := 0, 1
	for at, r := range value {
		if used += Visible(string(r)); used > columns {
			break
		}
		end = at + utf8.RuneLen(r)
	}
	return value[:end] + "…"
}

// brief returns a value in at most 32 columns; the JSON has all of it.
func brief(value string) string { return Cut(words.Or(value), 32) }

// Group groups values by key. Groups are in the order of their first values.
func Group[T any, K comparable](all []T, key func(T) K) [][]T {
	at := map[K]int{}
	var groups [][]T
	for _, v := range all {
		k := key(v)
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], v)
	}
	return groups
}

// Runs groups consecutive values that are alike.
func Runs[T any](all []T, alike func(a, b T) bool) [][]T {
	var runs [][]T
	for _, v := range all {
		if n := len(runs) - 1; n >= 0 && alike(runs[n][0], v) {
			runs[n] = append(runs[n], v)
			continue
		}
		runs = append(runs, []T{v})
	}
	return runs
}

// Distinct returns the keys of values, each once, in the order of the first of each.
func Distinct[T any, K comparable](all []T, key func(T) K) []K {
	return facts.Map(Group(all, key), func(group []T) K { return key(group[0]) })
}
