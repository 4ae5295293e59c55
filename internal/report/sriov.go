package report

import (
	"fmt"
	"strings"

	"mpps/internal/apply"
	"mpps/internal/facts"
	"mpps/internal/knob"
	"mpps/internal/report/words"
	"mpps/internal/sriov"
)

// Assigned draws what a guest was given, and what that means.
func Assigned(t *Text, g *sriov.Gift, r apply.Result, dryRun, verbose bool) {
	what := fmt.Sprintf("function %d of %s (%s)", g.Index, g.PF, g.PCI)
	if g.Form == facts.ByNetwork {
		what = "one function of pool " + g.Network + " (" + g.PF + ")"
	}
	gets := "gets"
	if dryRun {
		gets = "would get"
	}
	t.Wrapped(t.In(Bold, "guest "+g.Guest)+" ", fmt.Sprintf("%s %s as %s, MAC %s", gets, what, g.Form, g.MAC)+
		words.If(g.Node >= 0, ", card on node %d", g.Node)+
		words.If(g.Node >= 0 && len(g.GuestNodes) > 0, ", guest on node %s", g.GuestNodes))
	Applied(t, r, dryRun, verbose)
	t.Blank()
	t.Line("what it means:")
	t.Each("  - ", g.Means)
	t.Line("in the guest:")
	t.Each("  - ", g.Inside)
}

// Released draws what was taken back.
func Released(t *Text, b *sriov.Returned, r apply.Result, dryRun, verbose bool) {
	what := fmt.Sprintf("function %d of %s (%s)", b.Index, b.PF, b.PCI)
	if b.Network != "" {
		what = "interface " + b.MAC + " of pool " + b.Network
	}
	back := "is taken back"
	if dryRun {
		back = "would be taken back"
	}
	t.Wrapped(t.In(Bold, what)+" ", back+" from guest "+b.Guest)
	Applied(t, r, dryRun, verbose)
	t.Each("later: ", b.Left)
}

// SRIOVCheck draws a check as a list to go through: of the host, then of each physical function. What is known of a driver
// is drawn for verbose.
func SRIOVCheck(t *Text, c sriov.Check, verbose bool) {
	t.Wrapped("", t.In(Bold, c.Verdict))
	hidden := false
	for _, object := range Runs(c.Points, func(a, b sriov.Point) bool { return a.Object == b.Object }) {
		name := object[0].Object
		if name == "" {
			name = "host"
		}
		t.Section(name)
		for _, p := range object {
			t.Wrapped("  "+stateMark(t, p)+"  ", fmt.Sprintf("%s: %s", p.Title, Cut(words.Or(p.Found), 160)))
			if p.State != sriov.OK {
				t.Field("       ", p.Why)
				t.Field("       do: ", p.Do)
			}
			if verbose {
				t.Each("       - ", p.Traps)
			}
			hidden = hidden || len(p.Traps) > 0 && !verbose
		}
	}
	t.Blank()
	t.Wrapped("", fmt.Sprintf("%d ok, %d not, %d could not be told", c.Counts[sriov.OK], c.Counts[sriov.NotOK], c.Counts[sriov.Unknown])+
		words.If(hidden, "; -v shows what is known of the drivers"))
}

// stateMark is the word before a point, three columns wide.
func stateMark(t *Text, p sriov.Point) string {
	switch {
	case p.State == sriov.OK:
		return t.In(Green, "ok ")
	case p.State == sriov.Unknown:
		return t.In(Faint, "?  ")
	case p.Severity >= knob.High:
		return t.In(RedBold, "not")
	}
	return t.In(Yellow, "not")
}

// SRIOVRecover draws what was looked at of a function, in order, and what became of it.
func SRIOVRecover(t *Text, r sriov.Recovery, dryRun bool) {
	t.Heading(fmt.Sprintf("%s (%s)", r.Function, r.PCI))
	for _, s := range r.Steps {
		mark := t.In(Yellow, "not")
		switch s.State {
		case "ok":
			mark = t.In(Green, "ok ")
		case "taken":
			mark = t.In(RedBold, "not")
		}
		t.Wrapped("  "+mark+"  ", s.What+": "+s.Found)
		t.Field("       ", s.Do)
	}
	t.Field("  reset: ", r.WasReset)
	switch {
	case r.Verdict == sriov.Well:
		t.Line("nothing is the matter with it")
	case r.Verdict == sriov.Taken:
		t.Line("nothing was done: somebody has it")
	case dryRun:
		t.Wrapped("dry run: ", words.If(r.Reset, "the function would be reset; ")+
			fmt.Sprintf("values that would be written: %d; nothing was done", len(r.Changes)))
	case r.After == sriov.Well:
		t.Line("%s", t.In(Green, "mended"))
	default:
		t.Line("%s", t.In(Yellow, "not all is mended"))
	}
	if r.Transaction != "" {
		t.Line("'mpps rollback %s' puts the values back", r.Transaction)
	}
	if r.After != sriov.Well {
		t.Field("", r.LastResort)
	}
}

// GuestSide draws what a guest makes of its virtual functions.
func GuestSide(t *Text, g *sriov.GuestSide) {
	t.Wrapped(t.In(Bold, g.Guest)+"  ", join(g.State, words.Count(g.VCPUs, "vCPU"), g.System, "irqbalance "+g.IRQBalance))
	if !g.Seen {
		t.Wrapped(t.In(Yellow, "not seen inside: "), g.Why)
	}
	for _, f := range g.Functions {
		t.Blank()
		t.Wrapped("  ", fmt.Sprintf("%s VF %d, %s, %s", f.PF, f.Index, f.PCI, f.MAC))
		offers := "not known for its port's driver"
		if f.Offers > 0 {
			offers = words.Count(f.Offers, "queue pair") + " offered by its port's driver"
		}
		t.Wrapped("    queues      ", offers)
		inside := "driver " + words.Or(f.Driver)
		if f.Name != "" {
			inside = join(f.Name, inside, f.MACInside)
		}
		t.Wrapped("    inside      ", join(inside, words.If(f.Wants != "" && f.Driver != f.Wants, "needs %s (Linux)", f.Wants)))
		for _, i := range f.Interrupts {
			on := "vCPU"
			if len(i.VCPUs) != 1 {
				on = "vCPUs"
			}
			t.Wrapped("    interrupt   ", fmt.Sprintf("%s on %s %s", i.Name, on, words.Or(i.VCPUs.String())))
		}
		style := map[string]Style{"ok": Green, "off": RedBold, "unknown": Yellow}[f.State]
		t.Wrapped("    "+t.In(style, f.State)+"  ", f.Because)
		t.Each("    hint: ", f.Advice)
	}
	for _, n := range g.Notes {
		t.Blank()
		t.Wrapped("note: ", n)
	}
}

// Migration draws how a guest gets to another host: why not as it is, what stands in the way, and the commands. These are
// for pasting, so they are never wrapped.
func Migration(t *Text, m *sriov.Migration) {
	t.Wrapped(t.In(Bold, m.Guest)+"  ", m.State+" on "+m.From+", to go to "+m.To)
	word, style := "refused: ", RedBold
	if m.Live {
		word, style = "possible: ", Green
	}
	t.Wrapped(t.In(style, word), m.Why)
	t.Each("note: ", m.Notes)
	for _, never := range m.Never {
		t.Wrapped(t.In(Red, "never: "), never.Command)
		t.Wrapped("       ", never.Why)
	}
	t.Section("checks")
	on := ""
	for _, c := range m.Checks {
		if c.On != on {
			on = c.On
			t.Line("  on %s", t.In(Bold, on))
		}
		word := map[sriov.MigrateState]string{
			sriov.MigrateOK: t.In(Green, "ok"), sriov.MigrateMissing: t.In(RedBold, "MISSING"), sriov.MigrateUnknown: t.In(Yellow, "to check"),
		}[c.State]
		t.Wrapped("  "+Padded(word, 9), c.What+": "+c.Found)
		if c.State != sriov.MigrateOK && c.Command != "" {
			t.Line("             %s", c.Command)
		}
	}
	for i, w := range m.Ways {
		t.Blank()
		migrateWay(t, words.If(i > 0, "or: ")+w.What, w)
	}
}

func migrateWay(t *Text, title string, w sriov.MigrateWay) {
	t.Wrapped("", t.In(Bold, title))
	t.Wrapped("  traffic: ", w.Traffic)
	t.Each("  needs: ", w.Needs)
	if len(w.XML) > 0 {
		t.Line("  in the definition:")
	}
	paste(t, "    ", w.XML)
	for i, s := range w.Steps {
		t.Blank()
		t.Wrapped(t.In(Bold, fmt.Sprintf("%2d ", i+1)), t.In(Cyan, "on "+s.On)+": "+s.What)
		paste(t, "", s.Commands)
		t.Field("   traffic: ", s.Traffic)
		if len(s.Undo) > 0 {
			t.Line("%s", t.In(Faint, "   undo, on "+s.On+":"))
		}
		paste(t, "", s.Undo)
	}
}

// paste adds lines as they are to be pasted: not indented, because what ends a text that a command reads stands at the
// beginning of its line.
func paste(t *Text, indent string, texts []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			t.Line("%s%s", indent, strings.TrimRight(line, "\n"))
		}
	}
}
