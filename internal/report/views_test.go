package report

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"mpps/internal/advise/audit"
	"mpps/internal/advise/knob"
	"mpps/internal/advise/plan"
	"mpps/internal/change/apply"
	"mpps/internal/change/journal"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
	"mpps/internal/must"
)

// views are the text views of a host and of what is said of it.
func views(t *testing.T, h *facts.Host) map[string]func(*Text) {
	t.Helper()
	g := goal.Unlimited()
	g.Consent = []goal.Risk{goal.Security}
	p := must.Get(plan.Make(h, g, knob.Catalogue(), nil))(t)
	unsure := must.Get(plan.Make(h, goal.Unlimited(), knob.Catalogue(), nil))(t)
	outcomes, rows := []apply.Outcome{}, []apply.Row{}
	for i, c := range p.Changes {
		state := []journal.ChangeState{journal.ChangeDone, journal.ChangeAlready, journal.ChangeFailed,
			journal.ChangeLeft}[i%4]
		outcomes = append(outcomes, apply.Outcome{ID: c.ID, Address: c.Address, From: c.From.String(),
			To: c.To.String(), State: state, Needs: c.Needs, Why: c.Because})
		rows = append(rows, apply.Row{ID: c.ID, Address: c.Address, Wanted: c.To.String(), Found: c.From.String(),
			State: apply.Drifted, Why: "is " + c.From.String() + ", expected " + c.To.String()})
	}
	status := apply.Status{State: apply.IsDrifted, Why: strings.Repeat("a reason ", 20), Rows: rows,
		Counts: map[string]int{"drifted": len(rows)},
		Transactions: []apply.Entry{{TX: "20261120T210912.123456-4711", Kind: journal.Apply, State: journal.Applied,
			Changes: len(rows), Started: time.Unix(0, 0)}}}
	report := audit.Run(h, g, knob.Catalogue())
	other := facts.Scrub(h)
	return map[string]func(*Text){
		"inspect":       func(t *Text) { Inspect(t, h, true) },
		"audit":         func(t *Text) { Audit(t, report, false) },
		"audit -v":      func(t *Text) { Audit(t, report, true) },
		"plan":          func(t *Text) { Plan(t, p) },
		"plan, no yes":  func(t *Text) { Plan(t, unsure) },
		"catalogue":     func(t *Text) { Knobs(t, knob.Catalogue()) },
		"snapshot diff": func(t *Text) { SnapshotDiff(t, len(h.Readings), facts.Diff(h, other), false, true) },
		"apply": func(t *Text) {
			ApplyResult(t, apply.Result{TX: "20261120T210912.123456-4711", Changes: outcomes}, false, true)
		},
		"status":     func(t *Text) { Status(t, status, true) },
		"verify":     func(t *Text) { VerifyResult(t, status, true) },
		"history tx": func(t *Text) { Transaction(t, apply.Detail{Entry: status.Transactions[0], List: outcomes}) },
		"rollback": func(t *Text) {
			RollbackResult(t, []apply.Restored{{Of: "20261120T210912.123456-4711", State: journal.Applied,
				Changes: outcomes}}, false, true)
		},
		"warning": func(t *Text) {
			t.Warning(Warning{Code: "c", Text: strings.Repeat("a caveat ", 30), Hint: strings.Repeat("do this ", 30)})
		},
	}
}

// read fills a host's readings as a machine would have them, some of each kind long.
func read(h *facts.Host) {
	if h.Readings == nil {
		h.Readings = facts.Readings{}
	}
	for i, a := range knob.Addresses(h, knob.Catalogue()) {
		switch i % 5 {
		case 0:
			h.Readings[a] = setting.Value(strings.Repeat("1,", 60) + "1")
		case 1:
			h.Readings[a] = setting.Missing("not here")
		case 2:
			h.Readings[a] = setting.CouldNotTell("needs root: " + strings.Repeat("a long reason ", 12))
		default:
			h.Readings[a] = setting.Value("1")
		}
	}
}

// tooWide are the lines of a text that leave the width although they could be broken at a space. An address or a path
// is one word: a reader copies it.
func tooWide(text string, width int) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestViewsKeepTheWidth(t *testing.T) {
	large := facts.Synthetic(facts.Size{CPUs: 32, NICs: 2, Queues: 16, Guests: 4})
	read(large)
	for name, h := range map[string]*facts.Host{"sample": sample(), "large": large} {
		for what, view := range views(t, h) {
			if lines := tooWide(Draw(80, view), 80); len(lines) > 0 {
				t.Errorf("%s of %s: %d lines are too wide, such as\n%s", what, name, len(lines), lines[0])
			}
		}
	}
	for _, k := range knob.Catalogue() {
		if lines := tooWide(Draw(80, func(t *Text) { Knob(t, k) }), 80); len(lines) > 0 {
			t.Errorf("explain %s: %q", k.ID, lines)
		}
	}
}

// TestViewsAreTame draws a host whose texts hold what steers a terminal.
func TestViewsAreTame(t *testing.T) {
	const hostile = "a\x1b]0;title\x07\x1b[2J\x1b[31mred\r\nnext\x00\u009b5m\xff"
	h := sample()
	read(h)
	for a := range h.Readings {
		h.Readings[a] = setting.Reading{State: setting.Known, Value: hostile, Why: hostile, ReadOnly: true}
	}
	h.Kernel.Release, h.Topology.Model, h.NICs[0].Driver, h.NICs[1].Management = hostile, hostile, hostile, hostile
	h.Guests[0].State, h.Guests[1].Interfaces[0].Model, h.VFs[0].Driver = hostile, hostile, hostile
	h.Topology.Suspect = []string{hostile}
	h.Unverified = []facts.Unverified{{PID: 4711, Comm: hostile, Guest: hostile, Why: hostile}}
	h.Netfilter.Rules[0].Lines = []string{hostile}
	for what, view := range views(t, h) {
		if text := Draw(80, view); !isTame(text) {
			t.Errorf("%s holds a control sequence: %q", what, text)
		}
	}
	var out, problems bytes.Buffer
	p := NewPrinter(&out, &problems, Options{})
	p.Failure(errors.New(hostile), hostile)
	p.Step("%s", hostile)
	must.Hold(t, isTame(problems.String()), "an error holds a control sequence: %q", problems.String())
	in := &Text{Color: true}
	own := in.In(Bold, "x\x1b[31my")
	must.Equal(t, sanitize(own+"\x1b[32mz\x1b[2J", true), "\x1b[1mx?[31my\x1b[0m?[32mz?[2J", "with colour")
}

func isTame(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(strings.ReplaceAll(text, "\n", ""), unicode.IsControl)
}

func TestNoColourWithoutATerminal(t *testing.T) {
	var out, problems bytes.Buffer
	p := NewPrinter(&out, &problems, Options{})
	file := must.Get(os.Create(t.TempDir() + "/out"))(t)
	defer file.Close()
	toFile := NewPrinter(file, &problems, Options{})
	for _, printer := range []*Printer{p, toFile} {
		must.Hold(t, !printer.color && !printer.live && printer.width == 80,
			"colour %v, progress %v, width %d", printer.color, printer.live, printer.width)
		printer.Progress("half way")
	}
	must.Do(t, p.Answer(Answer{Verb: "x", Text: func(t *Text) { t.Heading("title"); t.Blank(); t.Blank() }}))
	must.Hold(t, out.String() == "title\n" && problems.Len() <= 0, "printed %q and %q", out.String(), problems.String())
}

func TestTable(t *testing.T) {
	text := Draw(20, func(t *Text) { t.Table([][]string{{"a", "bb", "c"}, {"aaa", "b", "a text that is too long"}}) })
	must.Equal(t, text, "a    bb  c\naaa  b   a text that\n         is too long\n", "text")
}

// terminal opens a pseudo-terminal (pty(7)) and returns the side that programs write to.
func terminal(t *testing.T, columns uint16) *os.File {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { control.Close() })
	must.Do(t, unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN))(t)
	side, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals: ", err)
	}
	t.Cleanup(func() { side.Close() })
	must.Do(t, unix.IoctlSetWinsize(int(side.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	return side
}

func TestColourOnATerminal(t *testing.T) {
	side := terminal(t, 132)
	for name, c := range map[string]struct {
		environment map[string]string
		options     Options
		color, live bool
	}{
		"as it is":   {color: true, live: true},
		"NO_COLOR":   {environment: map[string]string{"NO_COLOR": "1"}, live: true},
		"--no-color": {options: Options{NoColor: true}, live: true},
		"a dumb one": {environment: map[string]string{"TERM": "dumb"}},
		"--quiet":    {options: Options{Quiet: true}, color: true},
		"empty value": {environment: map[string]string{"NO_COLOR": ""}, color: true,
			live: true}, // no-color.org: when not empty
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			for variable, value := range c.environment {
				t.Setenv(variable, value)
			}
			p := NewPrinter(side, side, c.options)
			must.Hold(t, p.color == c.color && p.live == c.live && p.width == 132 && IsTerminal(side),
				"colour %v, progress %v, width %d", p.color, p.live, p.width)
		})
	}
}

// TestSanitizeFormats: characters that are not seen, and change how others are shown, do not come through.
func TestSanitizeFormats(t *testing.T) {
	for _, r := range "\u202e\u2066\u200b\u200f\u2028\u2029\ufeff\u00ad\U000e0041" {
		must.Equal(t, sanitize("vm"+string(r)+"1", true), "vm?1", "%U", r)
	}
	if got := sanitize("网 ä 🙂", false); got != "网 ä 🙂" {
		t.Errorf("found %q", got)
	}
}
