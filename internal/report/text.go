package report

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text collects the lines of a view for a terminal.
type Text struct {
	b     strings.Builder
	color bool
	Width int // columns that a line may have
}

func (p *Printer) text() *Text { return &Text{color: p.color, Width: p.width} }

// Style is a way to set a piece of text off; it never carries meaning alone.
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

// In returns the text in a style, or plain where there is no colour.
func (t *Text) In(s Style, text string) string {
	if !t.color || text == "" || s == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Line adds a formatted line. What stands in it may come from anywhere: see tame.
func (t *Text) Line(format string, args ...any) {
	t.b.WriteString(tame(fmt.Sprintf(format, args...), t.color))
	t.b.WriteByte('\n')
}

// Value adds a line with a value behind a prefix, such as "- " in a diff, cut where it leaves the width: --json has all
// of it.
func (t *Text) Value(s Style, prefix, value string) {
	value = tame(value, false)
	if room := t.Width - visible(prefix); visible(value) > room {
		value = string([]rune(value)[:max(room-1, 0)]) + "…"
	}
	t.Line("%s", t.In(s, prefix+value))
}

// tame replaces what would steer a terminal or break a line by a question mark. Values come from files that anybody may
// have written. Styles stay where there is colour.
func tame(text string, colour bool) string {
	if !strings.ContainsFunc(text, unicode.IsControl) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		if style := ownStyle.FindString(text); style != "" && colour {
			b.WriteString(style)
			text = text[len(style):]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\t':
			b.WriteByte(' ')
		case unicode.IsControl(r) || r == utf8.RuneError && size == 1:
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// ownStyle is a sequence that sets a style: it colours, and can do nothing else.
var ownStyle = regexp.MustCompile(`^\x1b\[[0-9;]{1,4}m`)

// Blank adds an empty line.
func (t *Text) Blank() { t.b.WriteByte('\n') }

// Heading adds a line that names what follows.
func (t *Text) Heading(text string) { t.Line("%s", t.In(Bold, text)) }

// Wrapped adds text broken at spaces to the width, the first line behind a prefix, the others indented as far. A prefix
// that leaves too little room stands alone, and the text follows indented by four.
func (t *Text) Wrapped(prefix, text string) {
	indent := strings.Repeat(" ", visible(prefix))
	line, used, fresh := prefix, visible(prefix), true
	if used > t.Width*2/3 {
		if lead := prefix[:len(prefix)-len(strings.TrimLeft(prefix, " "))]; used > t.Width && len(lead) < t.Width/2 {
			t.Wrapped(lead, prefix)
		} else {
			t.Line("%s", strings.TrimRight(prefix, " "))
		}
		indent = "    "
		line, used = indent, visible(indent)
	}
	for _, word := range strings.Fields(text) {
		n := visible(word)
		if fresh && used+n > t.Width && strings.TrimSpace(line) != "" { // not beside its prefix
			t.Line("%s", strings.TrimRight(line, " "))
			indent = "    "
			line, used = indent, visible(indent)
		}
		if !fresh && used+1+n > t.Width {
			t.Line("%s", line)
			line, used, fresh = indent, visible(indent), true
		}
		if !fresh {
			line += " "
			used++
		}
		line += word
		used += n
		fresh = false
	}
	t.Line("%s", strings.TrimRight(line, " "))
}

// Table adds rows whose columns are padded to the widest cell; the last column is wrapped where it leaves the width.
func (t *Text) Table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], visible(cell))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		last := len(row) - 1
		for i, cell := range row[:max(last, 0)] {
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-visible(cell)+2))
		}
		switch {
		case last < 0 || visible(b.String())+visible(row[last]) <= t.Width:
			t.Line("%s", strings.TrimRight(b.String()+strings.Join(row[max(last, 0):], ""), " "))
		default:
			t.Wrapped(b.String(), row[last])
		}
	}
}

// Warning adds a caveat with its hint.
func (t *Text) Warning(w Warning) {
	t.Wrapped(t.In(Yellow, "warning: "), w.Text)
	if w.Hint != "" {
		t.Wrapped("hint: ", w.Hint)
	}
}

// visible is the number of columns that text takes, colour sequences left out.
func visible(text string) int {
	n, escape := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n++
		}
	}
	return n
}

// Draw is what a view draws on a terminal of so many columns, without colour.
func Draw(columns int, view func(*Text)) string {
	t := &Text{Width: columns}
	view(t)
	return t.b.String()
}
