// Package report is the only package that prints: it renders values of other packages as text for a terminal and as
// JSON for programs. Its subpackages render what also has a page.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"mpps/internal/model/facts"
	"mpps/internal/outcome"
)

// Options say how to print.
type Options struct {
	JSON    bool
	Quiet   bool
	NoColor bool
	Verbose bool
	Version string
	Gone    func() // called once a stream has lost its reader; may be nil
}

// Printer prints answers to standard output, progress and errors to standard error.
type Printer struct {
	out, err io.Writer
	opts     Options
	color    bool
	chinese  bool // what there is in Chinese is printed so
	live     bool // standard error is a terminal: progress may be drawn
	width    int  // columns of the terminal, 80 if there is none
	drawn    bool // an unfinished progress line is on the terminal

	logged time.Time // without a terminal: when progress began, or was last logged
}

// NewPrinter makes a printer for two streams. Colour and progress appear only on terminals.
func NewPrinter(out, err io.Writer, opts Options) *Printer {
	p := &Printer{out: out, err: err, opts: opts, width: 80}
	p.color = !opts.NoColor && os.Getenv("NO_COLOR") == "" && Redraws(out)
	p.chinese = chinese(os.Getenv)
	p.live = !opts.Quiet && Redraws(err)
	if w := columns(out); w >= 40 {
		p.width = w
	}
	return p
}

// chinese reports whether the locale for messages is a Chinese one (locale(7): LC_ALL, LC_MESSAGES, LANG).
func chinese(getenv func(string) string) bool {
	return strings.HasPrefix(cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG")), "zh")
}

// Chinese reports whether what there is in Chinese is printed so: the reader's locale is a Chinese one.
func (p *Printer) Chinese() bool { return p.chinese }

// columns returns the width of the terminal that a stream leads to, 0 if it is none.
func columns(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return 80
	}
	return int(size.Col)
}

// Redraws reports whether a stream leads to a terminal that knows escape sequences.
func Redraws(stream any) bool { return columns(stream) > 0 && os.Getenv("TERM") != "dumb" }

// IsTerminal reports whether a file is a terminal.
func IsTerminal(f *os.File) bool { return columns(f) > 0 }

// Warning is a caveat that belongs to an answer, as data.
type Warning = outcome.Warning

// Caveat is a warning as encoded in answers and documents: its hint is present even if empty.
type Caveat struct {
	Warning
	Hint string `json:"hint"` // what to do about it; empty if nothing is to be done
}

// envelope is the shape of every JSON answer.
type envelope struct {
	Schema   string   `json:"schema"` // mpps.VERB/1
	Version  string   `json:"mpps"`
	Host     string   `json:"host"`
	Result   any      `json:"result"`
	Warnings []Caveat `json:"warnings"`
}

// Answer is a command's answer: a value for programs and a view of the same value for people.
type Answer struct {
	Verb     string // inspect, audit, "bench-pps" …: names the schema
	Host     string
	Result   any
	Warnings []Warning
	Text     func(*Text) // draws the result; warnings are drawn after it
}

// Answer prints an answer as JSON or text.
func (p *Printer) Answer(a Answer) error {
	if p.opts.JSON {
		warnings := []Caveat{} // never null
		for _, w := range a.Warnings {
			warnings = append(warnings, Caveat{w, w.Hint})
		}
		return p.json("  ", envelope{"mpps." + a.Verb + "/1", p.opts.Version, a.Host, facts.NonNil(a.Result), warnings})
	}
	t := p.text()
	a.Text(t)
	for _, w := range a.Warnings {
		t.Warning(w)
	}
	return p.write(strings.TrimRight(t.b.String(), "\n") + "\n")
}

// json prints a value as JSON.
func (p *Printer) json(indent string, value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	p.clear()
	return p.send(p.out, string(TameJSON(text.Bytes())))
}

// TameJSON returns JSON of the same meaning in which no character steers a terminal. Those that encoding/json leaves as
// they are (DEL, C1 controls, Unicode's format characters) stand in strings only, and become escapes.
func TameJSON(text []byte) []byte {
	wild := func(r rune) bool { return r >= 0x7f && steers(r) }
	if bytes.IndexFunc(text, wild) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !wild(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

func (p *Printer) write(text string) error {
	p.clear()
	return p.send(p.out, text)
}

// send writes to one of the streams.
func (p *Printer) send(to io.Writer, text string) error {
	_, err := io.WriteString(Read{to, p.opts.Gone}, text)
	return err
}

// Read is a stream that says when it has lost its reader.
type Read struct {
	io.Writer
	Gone func() // may be nil
}

func (r Read) Write(text []byte) (int, error) {
	n, err := r.Writer.Write(text)
	if errors.Is(err, unix.EPIPE) && r.Gone != nil {
		r.Gone()
	}
	return n, err
}

// View prints one of a sequence of views.
func (p *Printer) View(view func(*Text)) error {
	t := p.text()
	view(t)
	return p.write(t.b.String())
}

// Line prints one of a sequence of answers: a line of JSON or of text.
func (p *Printer) Line(value any, text string) error {
	if p.opts.JSON {
		return p.json("", facts.NonNil(value))
	}
	return p.write(text + "\n")
}

// Raw prints an answer in another program's format, which has no place for warnings: they go to standard error.
// Characters that would steer a terminal are question marks.
func (p *Printer) Raw(text []byte, warnings []Warning) error {
	lines := strings.Split(string(text), "\r\n") // of CSV
	for i, line := range lines {
		lines[i] = strings.Map(func(r rune) rune {
			if r != '\n' && r != '\t' && steers(r) {
				return '?'
			}
			return r
		}, line)
	}
	if err := p.write(strings.Join(lines, "\r\n")); err != nil || p.opts.Quiet {
		return err
	}
	t := &Text{Color: p.color && columns(p.err) > 0, Width: p.width}
	for _, w := range warnings {
		t.Warning(w)
	}
	return p.send(p.err, t.b.String())
}

// Step prints a finished step of long work to standard error, on a terminal or not, unless quiet.
func (p *Printer) Step(format string, args ...any) {
	if p.opts.Quiet {
		return
	}
	p.clear()
	_ = p.send(p.err, tame(fmt.Sprintf(format, args...))+"\n")
}

// Failure prints an error on one line, lowercase as it comes, and its hint on another.
func (p *Printer) Failure(err error, hint string) {
	p.clear()
	fmt.Fprintf(p.err, "mpps: error: %s\n", tame(err.Error()))
	if hint != "" {
		fmt.Fprintf(p.err, "hint: %s\n", sanitize(hint, false))
	}
}

// tame returns text whose lines cannot steer a terminal, all but the first indented.
func tame(text string) string {
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, sanitize(strings.TrimRight(line, "\r\n"), false))
	}
	return strings.Join(lines, "\n  ")
}
