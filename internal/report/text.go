package report

import (
	"fmt"
	"strings"
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
	if !t.color || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Line adds a formatted line.
func (t *Text) Line(format string, args ...any) {
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

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
		t.Line("%s", strings.TrimRight(prefix, " "))
		indent = "    "
		line, used = indent, visible(indent)
	}
	for _, word := range strings.Fields(text) {
		n := visible(word)
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

// Table adds rows whose columns are padded to the widest cell; the last column is cut where it leaves the width.
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
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(cell)
				break
			}
			b.WriteString(cell)
			b.WriteString(strings.Repeat(" ", widths[i]-visible(cell)+2))
		}
		t.Line("%s", strings.TrimRight(b.String(), " "))
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
