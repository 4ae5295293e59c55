package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/knob"
	"mpps/internal/advise/sriov"
	"mpps/internal/change/apply"
	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// AssignResult draws what a guest was given, and what that means.
func AssignResult(t *Text, g *sriov.Gift, r apply.Result, dryRun, verbose bool) {
	what := words.Either(g.Form == facts.ByNetwork, fmt.Sprintf("one function of pool %s (%s)", g.Network, g.PF),
		fmt.Sprintf("function %d of %s (%s)", g.Index, g.PF, g.PCI))
	gets := words.Either(dryRun, "would get", "gets")
	t.Wrap(t.In(Bold, "guest "+g.Guest)+" ", fmt.Sprintf("%s %s as %s, MAC %s", gets, what, g.Form, g.MAC)+
		words.If(g.Node >= 0, ", card on node %d", g.Node)+
		words.If(g.Node >= 0 && len(g.GuestNodes) > 0, ", guest on node %s", g.GuestNodes))
	ApplyResult(t, r, dryRun, verbose)
	t.Blank()
	t.Line("what it means:")
	t.Each("  - ", g.Means)
	t.Line("in the guest:")
	t.Each("  - ", g.Inside)
}

// ReleaseResult draws what was taken back.
func ReleaseResult(t *Text, b *sriov.Returned, r apply.Result, dryRun, verbose bool) {
	what := words.Either(b.Network != "", "interface "+b.MAC+" of pool "+b.Network,
		fmt.Sprintf("function %d of %s (%s)", b.Index, b.PF, b.PCI))
	t.Wrap(t.In(Bold, what)+" ", words.Either(dryRun, "would be", "is")+" taken back from guest "+b.Guest)
	ApplyResult(t, r, dryRun, verbose)
	t.Each("later: ", b.Left)
}

// SRIOVCheck draws a check as a list to go through: of the host, then of each physical function. What is known of a
// driver is drawn for verbose.
func SRIOVCheck(t *Text, c sriov.Check, verbose bool) {
	t.Wrap("", t.In(Bold, c.Verdict))
	hidden := false
	for _, object := range Runs(c.Points, func(a, b sriov.Point) bool { return a.Object == b.Object }) {
		t.Section(cmp.Or(object[0].Object, "host"))
		for _, p := range object {
			t.Wrap("  "+stateMark(t, p)+"  ", fmt.Sprintf("%s: %s", p.Title, Cut(words.Or(p.Found), 160)))
			t.Field("       ", words.Either(p.State != sriov.OK, p.Why, ""))
			t.Field("       do: ", words.Either(p.State != sriov.OK, p.Do, ""))
			t.Each("       - ", words.Either(verbose, p.Traps, nil))
			hidden = hidden || len(p.Traps) > 0 && !verbose
		}
	}
	t.Blank()
	t.Wrap("", fmt.Sprintf("%d ok, %d not, %d could not be determined", c.Counts[sriov.OK], c.Counts[sriov.NotOK],
		c.Counts[sriov.Unknown])+words.If(hidden, "; -v shows what is known of the drivers"))
}

// stateMark returns the word before a point, three columns wide.
func stateMark(t *Text, p sriov.Point) string {
	switch {
	case p.State == sriov.OK:
		return t.In(Green, "ok ")
	case p.State == sriov.Unknown:
		return t.In(Faint, "?  ")
	}
	return t.In(words.Either(p.Severity >= knob.High, RedBold, Yellow), "not")
}

// SRIOVRecover draws what was looked at of a function, in order, and what became of it.
func SRIOVRecover(t *Text, r sriov.Recovery, dryRun bool) {
	t.Heading(fmt.Sprintf("%s (%s)", r.Function, r.PCI))
	for _, s := range r.Steps {
		mark := words.Either(s.State != "ok", t.In(words.Either(s.State == "taken", RedBold, Yellow), "not"),
			t.In(Green, "ok "))
		t.Wrap("  "+mark+"  ", s.What+": "+s.Found)
		t.Field("       ", s.Do)
	}
	t.Field("  reset: ", r.WasReset)
	switch {
	case r.Verdict == sriov.Well:
		t.Line("nothing is the matter with it")
	case r.Verdict == sriov.Taken:
		t.Line("nothing was done: somebody has it")
	case dryRun:
		t.Wrap("dry run: ", words.If(r.Reset, "the function would be reset; ")+
			fmt.Sprintf("values that would be written: %d; nothing was done", len(r.Changes)))
	default:
		t.Line("%s", words.Either(r.After == sriov.Well, t.In(Green, "mended"), t.In(Yellow, "not all is mended")))
	}
	t.LineIf(r.Transaction != "", "'mpps rollback %s' puts the values back", r.Transaction)
	t.Field("", words.Either(r.After != sriov.Well, r.LastResort, ""))
}

// GuestSide draws a guest's virtual functions as seen from the host and from inside.
func GuestSide(t *Text, g *sriov.GuestSide) {
	t.Wrap(t.In(Bold, g.Guest)+"  ", joinDistinct(g.State, words.Count(g.VCPUs, "vCPU"), g.System, "irqbalance "+
		g.IRQBalance))
	t.Field(t.In(Yellow, "not seen inside: "), words.Either(!g.Seen, g.Why, ""))
	for _, f := range g.Functions {
		t.Blank()
		t.Wrap("  ", fmt.Sprintf("%s VF %d, %s, %s", f.PF, f.Index, f.PCI, f.MAC))
		t.Wrap("    queues      ", words.Either(f.Offers > 0,
			words.Count(f.Offers, "queue pair")+" offered by its port's driver", "not known for its port's driver"))
		inside := joinDistinct(f.Name, "driver "+words.Or(f.Driver), words.Either(f.Name != "", f.MACInside, ""))
		t.Wrap("    inside      ", joinDistinct(inside,
			words.If(f.Wants != "" && f.Driver != f.Wants, "needs %s (Linux)", f.Wants)))
		for _, i := range f.Interrupts {
			on := words.Either(len(i.VCPUs) == 1, "vCPU", "vCPUs")
			t.Wrap("    interrupt   ", fmt.Sprintf("%s on %s %s", i.Name, on, words.Or(i.VCPUs.String())))
		}
		style := map[string]Style{"ok": Green, "off": RedBold, "unknown": Yellow}[f.State]
		t.Wrap("    "+t.In(style, f.State)+"  ", f.Because)
		t.Each("    hint: ", f.Advice)
	}
	for _, n := range g.Notes {
		t.Blank()
		t.Wrap("note: ", n)
	}
}

// Migration draws the plan of a guest's migration: why live migration is refused, the checks, and the commands, which
// are never wrapped, so that they can be pasted.
func Migration(t *Text, m *sriov.Migration) {
	t.Wrap(t.In(Bold, m.Guest)+"  ", m.State+" on "+m.From+", to go to "+m.To)
	t.Wrap(words.Either(m.Live, t.In(Green, "possible: "), t.In(RedBold, "refused: ")), m.Why)
	t.Each("note: ", m.Notes)
	for _, never := range m.Never {
		t.Wrap(t.In(Red, "never: "), never.Command)
		t.Wrap("       ", never.Why)
	}
	t.Section("checks")
	marks := map[sriov.MigrateState]string{sriov.MigrateOK: t.In(Green, "ok"),
		sriov.MigrateMissing: t.In(RedBold, "MISSING"), sriov.MigrateUnknown: t.In(Yellow, "to check")}
	on := ""
	for _, c := range m.Checks {
		t.LineIf(c.On != on, "  on %s", t.In(Bold, c.On))
		on = c.On
		t.Wrap("  "+Pad(marks[c.State], 9), c.What+": "+c.Found)
		t.LineIf(c.State != sriov.MigrateOK && c.Command != "", "             %s", c.Command)
	}
	for i, w := range m.Ways {
		t.Blank()
		drawMigrateWay(t, words.If(i > 0, "or: ")+w.What, w)
	}
}

func drawMigrateWay(t *Text, title string, w sriov.MigrateWay) {
	t.Wrap("", t.In(Bold, title))
	t.Wrap("  traffic: ", w.Traffic)
	t.Each("  needs: ", w.Needs)
	t.LineIf(len(w.XML) > 0, "  in the definition:")
	paste(t, "    ", w.XML)
	for i, s := range w.Steps {
		t.Blank()
		t.Wrap(t.In(Bold, fmt.Sprintf("%2d ", i+1)), t.In(Cyan, "on "+s.On)+": "+s.What)
		paste(t, "", s.Commands)
		t.Field("   traffic: ", s.Traffic)
		t.LineIf(len(s.Undo) > 0, "%s", t.In(Faint, "   undo, on "+s.On+":"))
		paste(t, "", s.Undo)
	}
}

// paste adds lines unwrapped, for pasting. Commands are not indented: the end of a here-document must be at the start
// of its line.
func paste(t *Text, indent string, texts []string) {
	for _, text := range texts {
		for line := range strings.Lines(text) {
			t.Line("%s%s", indent, strings.TrimRight(line, "\n"))
		}
	}
}

// wideFunctions is the terminal width, in columns, from which on every attribute of a VF has its own column.
const wideFunctions = 150

// SRIOVList draws virtual functions below their physical ones. Where there is little room, what is as usual is left
// out; --json has all of it.
func SRIOVList(t *Text, l sriov.List) {
	total := sriov.Port{}
	for i, p := range l.PFs {
		if i > 0 {
			t.Blank()
		}
		total.VFs, total.Used, total.Free = total.VFs+p.VFs, total.Used+p.Used, total.Free+p.Free
		t.Wrap(t.In(Bold, p.PF)+"  ", portText(p))
		own := slices.DeleteFunc(slices.Clone(l.VFs), func(f sriov.Function) bool { return f.PF != p.PF })
		switch {
		case len(own) == 0 && p.Seen > 0:
			t.Line("  none that is asked for")
		case len(own) > 0 && t.Width >= wideFunctions:
			t.Table(wideRows(t, own))
		case len(own) > 0:
			t.Table(narrowRows(t, own))
		}
	}
	switch n := len(l.PFs); {
	case n == 0:
		t.Line("no NIC of this host can have virtual functions: 'mpps sriov check' says what to look at")
	case n > 1:
		t.Blank()
		t.Line("%s of %s: %d used, %d free", words.Count(total.VFs, "VF"), words.Count(n, "PF"), total.Used, total.Free)
	}
}

// portText returns the line of a physical function.
func portText(p sriov.Port) string {
	link := words.Either(p.Carrier == "up", words.If(p.Speed > 0, "link %d Mb/s", p.Speed), "link "+p.Carrier)
	port := words.Join(", ", cmp.Or(p.Driver, "no driver"), p.PCI, words.If(p.Node >= 0, "node %d", p.Node),
		words.Either(p.Up, link, "down"))
	functions := fmt.Sprintf("%d of %s", p.VFs, words.Count(p.Most, "VF")) +
		words.If(p.Seen < p.VFs, " (%d seen)", p.Seen) + words.If(p.VFs > 0, ", %d used, %d free", p.Used, p.Free)
	return port + ": " + words.Join("; ", functions, shareText(p.Guests),
		words.If(len(p.Pooled) > 0, "of the pool at their start: %s", shareText(p.Pooled)))
}

func shareText(all []sriov.Share) string {
	parts := words.Each(all[:min(len(all), 12)],
		func(s sriov.Share) string { return fmt.Sprintf("%s %d", s.Guest, s.VFs) })
	return words.Join(", ", append(parts, words.If(len(all) > 12, "and %d more guests", len(all)-12))...)
}

// holderText says who has a function. Two definitions that name the same one are marked: their guests cannot run at a
// time.
func holderText(f *sriov.Function) string {
	text := map[sriov.Holding]string{
		sriov.Running: f.Guest, sriov.Defined: f.Guest + " (off)", sriov.Reserved: f.Guest + " (reserved)",
		sriov.Host: "host", sriov.Opened: "process", sriov.Bound: "? " + f.Driver, sriov.Pooled: "pool " + f.Pool,
		sriov.Free: "free",
	}[f.Holding]
	return words.Or(text + words.If(len(f.Guests) > 1, " !+%d", len(f.Guests)-1))
}

// headings returns the heads of columns.
func headings(t *Text, names string) []string {
	return words.Each(strings.Split(names, "|"), func(name string) string { return t.In(Faint, name) })
}

// narrowRows has what a reader looks for first in columns, and the rest in words.
func narrowRows(t *Text, own []sriov.Function) [][]string {
	domain := "0000:"
	if slices.ContainsFunc(own, func(f sriov.Function) bool { return !strings.HasPrefix(f.PCI, domain) }) {
		domain = ""
	}
	rows := [][]string{headings(t, "VF|PCI|GUEST|MAC|SETTINGS")}
	for _, f := range own {
		rows = append(rows, []string{fmt.Sprintf("%3d", f.Index), cmp.Or(strings.TrimPrefix(f.PCI, domain), "–"),
			Cut(holderText(&f), 20), macText(f.MAC), settingsText(&f)})
	}
	return rows
}

// settingsText returns a function's settings as far as they differ from a new one's.
func settingsText(f *sriov.Function) string {
	number := func(name string, n *int) string {
		if n == nil || *n == 0 {
			return ""
		}
		return fmt.Sprintf("%s=%d", name, *n)
	}
	odd := notesText(f, "; ")
	return words.Join(" ", f.Driver, words.If(f.Group >= 0, "group=%d", f.Group), number("vlan", f.VLAN),
		number("qos", f.QoS), number("max", f.MaxTxRate), number("min", f.MinTxRate),
		words.If(f.SpoofChk != nil && !*f.SpoofChk, "spoofchk=off"), words.If(f.Trust != nil && *f.Trust, "trust=on"),
		words.If(f.LinkState != "" && f.LinkState != "auto", "link=%s", f.LinkState), number("queues", &f.Queues),
		trafficText(f.Traffic), words.If(odd != "", "(%s)", odd))
}

// notesText returns what is odd about who has a function.
func notesText(f *sriov.Function, separator string) string {
	reserved := ""
	if r := f.Reservation; r != nil && r.Guest != f.Guest {
		reserved = "reserved for " + r.Guest
	}
	return words.Join(separator, f.Uses, f.Process, words.If(f.Shared(), "named by %s",
		strings.Join(f.Guests, " and ")), reserved)
}

// wideRows has each attribute in a column.
func wideRows(t *Text, own []sriov.Function) [][]string {
	number := func(n int, known bool) string { return cmp.Or(words.If(known, "%d", n), "–") }
	rows := [][]string{
		headings(t, "VF|PCI|GROUP|DRIVER|NIC|GUEST|MAC|VLAN|QOS|MAX|MIN|SPOOFCHK|TRUST|LINK|QUEUES|TRAFFIC AND NOTES"),
	}
	for _, f := range own {
		last := words.Join(", ", trafficText(f.Traffic), notesText(&f, ", "))
		rows = append(rows, []string{fmt.Sprintf("%3d", f.Index), cmp.Or(f.PCI, "–"), number(f.Group, f.Group >= 0),
			cmp.Or(f.Driver, "none"), cmp.Or(f.NIC, "–"), Cut(holderText(&f), 24), macText(f.MAC), numberText(f.VLAN),
			numberText(f.QoS), rateText(f.MaxTxRate), rateText(f.MinTxRate), onOff(f.SpoofChk), onOff(f.Trust),
			cmp.Or(f.LinkState, "?"), number(f.Queues, f.Queues > 0), last})
	}
	return rows
}

// macText returns a function's address: "none" if nobody set one, a question mark if it is not known.
func macText(mac string) string {
	return words.Either(mac != "" && facts.NoAddress(mac), "none", cmp.Or(mac, "?"))
}

func numberText(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// rateText returns a rate in Mb/s, of which 0 is no limit.
func rateText(n *int) string {
	if n != nil && *n == 0 {
		return "–"
	}
	return numberText(n)
}

func onOff(b *bool) string {
	if b == nil {
		return "?"
	}
	return words.Either(*b, "on", "off")
}

// trafficText returns what a function carried: packets and bytes to the guest and from it.
func trafficText(c *facts.VFTraffic) string {
	if c == nil {
		return ""
	}
	size := func(n uint64) string { return strings.ReplaceAll(words.Bytes(n), " ", "") }
	lost := c.RxDropped + c.TxDropped
	return fmt.Sprintf("rx=%s/%s tx=%s/%s", shortCount(c.RxPackets), size(c.RxBytes), shortCount(c.TxPackets),
		size(c.TxBytes)) + words.If(lost > 0, " dropped=%s", shortCount(lost))
}

// shortCount returns a count in at most four digits and a letter: powers of ten.
func shortCount(n uint64) string {
	switch v := float64(n); {
	case n >= 1e12:
		return fmt.Sprintf("%.3gT", v/1e12)
	case n >= 1e9:
		return fmt.Sprintf("%.3gG", v/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3gM", v/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.3gk", v/1e3)
	}
	return strconv.FormatUint(n, 10)
}
