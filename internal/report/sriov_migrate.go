package report

import (
	"strings"

	"mpps/internal/sriov"
)

// Migration draws how a guest gets to another host: why not as it is, what stands in the way, and the commands. These are for
// pasting, so they are never wrapped.
func Migration(t *Text, m *sriov.Migration) {
	t.Wrapped(t.In(Bold, m.Guest)+"  ", m.State+" on "+m.From+", to go to "+m.To)
	word, style := "refused: ", RedBold
	if m.Live {
		word, style = "possible: ", Green
	}
	t.Wrapped(t.In(style, word), m.Why)
	for _, n := range m.Notes {
		t.Wrapped("note: ", n)
	}
	for _, never := range m.Never {
		t.Wrapped(t.In(Red, "never: "), never.Command)
		t.Wrapped("       ", never.Why)
	}
	t.Blank()
	t.Heading("checks")
	on := ""
	for _, c := range m.Checks {
		if c.On != on {
			on = c.On
			t.Line("  on %s", t.In(Bold, on))
		}
		migrateCheck(t, c)
	}
	for i, w := range m.Ways {
		t.Blank()
		title := w.What
		if i > 0 {
			title = "or: " + title
		}
		migrateWay(t, title, w)
	}
}

func migrateCheck(t *Text, c sriov.MigrateCheck) {
	word := map[sriov.MigrateState]string{
		sriov.MigrateOK: t.In(Green, "ok"), sriov.MigrateMissing: t.In(RedBold, "MISSING"), sriov.MigrateUnknown: t.In(Yellow, "to check"),
	}[c.State]
	t.Wrapped("  "+word+strings.Repeat(" ", max(9-visible(word), 1)), c.What+": "+c.Found)
	if c.State != sriov.MigrateOK && c.Command != "" {
		t.Line("             %s", c.Command)
	}
}

func migrateWay(t *Text, title string, w sriov.MigrateWay) {
	t.Wrapped("", t.In(Bold, title))
	t.Wrapped("  traffic: ", w.Traffic)
	for _, n := range w.Needs {
		t.Wrapped("  needs: ", n)
	}
	for i, x := range w.XML {
		if i == 0 {
			t.Line("  in the definition:")
		}
		pasted(t, "    ", x)
	}
	for i, s := range w.Steps {
		t.Blank()
		t.Wrapped(t.In(Bold, number(i+1)), t.In(Cyan, "on "+s.On)+": "+s.What)
		for _, c := range s.Commands {
			pasted(t, "", c)
		}
		if s.Traffic != "" {
			t.Wrapped("   traffic: ", s.Traffic)
		}
		for n, c := range s.Undo {
			if n == 0 {
				t.Line("%s", t.In(Faint, "   undo, on "+s.On+":"))
			}
			pasted(t, "", c)
		}
	}
}

func number(n int) string {
	if n < 10 {
		return " " + string(rune('0'+n)) + " "
	}
	return string(rune('0'+n/10)) + string(rune('0'+n%10)) + " "
}

// pasted adds lines as they are to be pasted: not indented, because what ends a text that a command reads stands at the beginning
// of its line.
func pasted(t *Text, indent, text string) {
	for line := range strings.Lines(text) {
		t.Line("%s%s", indent, strings.TrimRight(line, "\n"))
	}
}
