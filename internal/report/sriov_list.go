package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/report/words"
	"mpps/internal/sriov"
)

// wideFunctions is from how many columns on every attribute of a function has a column of its own.
const wideFunctions = 150

// SRIOVList draws virtual functions below their physical ones. Where there is little room, what is as usual is left out;
// --json has all of it.
func SRIOVList(t *Text, l sriov.List) {
	total := sriov.Port{}
	for i, p := range l.PFs {
		if i > 0 {
			t.Blank()
		}
		total.VFs, total.Used, total.Free = total.VFs+p.VFs, total.Used+p.Used, total.Free+p.Free
		t.Wrapped(t.In(Bold, p.PF)+"  ", portText(p))
		var own []*sriov.Function
		for i := range l.VFs {
			if l.VFs[i].PF == p.PF {
				own = append(own, &l.VFs[i])
			}
		}
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

// portText is the line of a physical function.
func portText(p sriov.Port) string {
	link := words.If(p.Carrier != "up", "link %s", p.Carrier) + words.If(p.Carrier == "up" && p.Speed > 0, "link %d Mb/s", p.Speed)
	if !p.Up {
		link = "down"
	}
	return words.Join(", ", cmp.Or(p.Driver, "no driver"), p.PCI, words.If(p.Node >= 0, "node %d", p.Node), link) +
		fmt.Sprintf(": %d of %s", p.VFs, words.Count(p.Most, "VF")) + words.If(p.Seen < p.VFs, " (%d seen)", p.Seen) +
		words.If(p.VFs > 0, ", %d used, %d free", p.Used, p.Free) + words.If(len(p.Guests) > 0, "; %s", shares(p.Guests)) +
		words.If(len(p.Pooled) > 0, "; of the pool at their start: %s", shares(p.Pooled))
}

func shares(all []sriov.Share) string {
	var parts []string
	for _, s := range all[:min(len(all), 12)] {
		parts = append(parts, fmt.Sprintf("%s %d", s.Guest, s.VFs))
	}
	return words.Join(", ", append(parts, words.If(len(all) > 12, "and %d more guests", len(all)-12))...)
}

// holder says who has a function. Two definitions that name the same one are marked: their guests cannot run at a time.
func holder(f *sriov.Function) string {
	text := "free"
	switch f.Holding {
	case sriov.Running:
		text = f.Guest
	case sriov.Defined:
		text = f.Guest + " (off)"
	case sriov.Reserved:
		text = f.Guest + " (reserved)"
	case sriov.Host:
		text = "host"
	case sriov.Opened:
		text = "process"
	case sriov.Bound:
		text = "? " + f.Driver
	case sriov.Pooled:
		text = "pool " + f.Pool
	}
	return words.Or(text + words.If(len(f.Guests) > 1, " !+%d", len(f.Guests)-1))
}

// head are the heads of columns.
func head(t *Text, names string) []string {
	head := strings.Split(names, "|")
	for i := range head {
		head[i] = t.In(Faint, head[i])
	}
	return head
}

// narrowRows has what a reader looks for first in columns, and the rest in words.
func narrowRows(t *Text, own []*sriov.Function) [][]string {
	domain := "0000:"
	for _, f := range own {
		if !strings.HasPrefix(f.PCI, domain) {
			domain = ""
		}
	}
	rows := [][]string{head(t, "VF|PCI|GUEST|MAC|SETTINGS")}
	for _, f := range own {
		rows = append(rows, []string{fmt.Sprintf("%3d", f.Index), cmp.Or(strings.TrimPrefix(f.PCI, domain), "–"), Cut(holder(f), 20),
			macText(f.MAC), settings(f)})
	}
	return rows
}

// settings are a function's settings as far as they differ from a new one's.
func settings(f *sriov.Function) string {
	number := func(name string, n *int) string {
		if n == nil || *n == 0 {
			return ""
		}
		return fmt.Sprintf("%s=%d", name, *n)
	}
	odd := strings.Join(notes(f), "; ")
	return words.Join(" ", f.Driver, words.If(f.Group >= 0, "group=%d", f.Group), number("vlan", f.VLAN), number("qos", f.QoS),
		number("max", f.MaxTxRate), number("min", f.MinTxRate), words.If(f.SpoofChk != nil && !*f.SpoofChk, "spoofchk=off"),
		words.If(f.Trust != nil && *f.Trust, "trust=on"), words.If(f.LinkState != "" && f.LinkState != "auto", "link=%s", f.LinkState),
		number("queues", &f.Queues), traffic(f.Traffic), words.If(odd != "", "(%s)", odd))
}

// notes are what is odd about who has a function.
func notes(f *sriov.Function) []string {
	var notes []string
	for _, note := range []string{f.Uses, f.Process, words.If(f.Shared(), "named by %s", strings.Join(f.Guests, " and "))} {
		if note != "" {
			notes = append(notes, note)
		}
	}
	if r := f.Reservation; r != nil && r.Guest != f.Guest {
		notes = append(notes, "reserved for "+r.Guest)
	}
	return notes
}

// wideRows has each attribute in a column.
func wideRows(t *Text, own []*sriov.Function) [][]string {
	number := func(n int, known bool) string { return cmp.Or(words.If(known, "%d", n), "–") }
	rows := [][]string{head(t, "VF|PCI|GROUP|DRIVER|NIC|GUEST|MAC|VLAN|QOS|MAX|MIN|SPOOFCHK|TRUST|LINK|QUEUES|TRAFFIC AND NOTES")}
	for _, f := range own {
		last := words.Join(", ", traffic(f.Traffic), strings.Join(notes(f), ", "))
		rows = append(rows, []string{fmt.Sprintf("%3d", f.Index), cmp.Or(f.PCI, "–"), number(f.Group, f.Group >= 0), cmp.Or(f.Driver, "none"),
			cmp.Or(f.NIC, "–"), Cut(holder(f), 24), macText(f.MAC), numberText(f.VLAN), numberText(f.QoS), rateText(f.MaxTxRate),
			rateText(f.MinTxRate), onOff(f.SpoofChk), onOff(f.Trust), cmp.Or(f.LinkState, "?"), number(f.Queues, f.Queues > 0), last})
	}
	return rows
}

// macText is a function's address: "none" where nobody set one, a question mark where it is not known.
func macText(mac string) string {
	switch {
	case mac == "":
		return "?"
	case facts.NoAddress(mac):
		return "none"
	}
	return mac
}

func numberText(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// rateText is a rate in Mb/s, of which 0 is no limit.
func rateText(n *int) string {
	if n != nil && *n == 0 {
		return "–"
	}
	return numberText(n)
}

func onOff(b *bool) string {
	switch {
	case b == nil:
		return "?"
	case *b:
		return "on"
	}
	return "off"
}

// traffic is what a function carried: packets and bytes to the guest and from it.
func traffic(c *facts.VFTraffic) string {
	if c == nil {
		return ""
	}
	size := func(n uint64) string { return strings.ReplaceAll(words.Bytes(n), " ", "") }
	lost := c.RxDropped + c.TxDropped
	return fmt.Sprintf("rx=%s/%s tx=%s/%s", packets(c.RxPackets), size(c.RxBytes), packets(c.TxPackets), size(c.TxBytes)) +
		words.If(lost > 0, " dropped=%s", packets(lost))
}

// packets is a count in at most four digits and a letter: powers of ten.
func packets(n uint64) string {
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
