package report

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"mpps/internal/facts"
	"mpps/internal/sriov"
)

// wideFunctions is from how many columns on every attribute of a function has a column of its own.
const wideFunctions = 150

// SRIOVList draws virtual functions below their physical ones. Where there is little room, what is as usual is left out; --json
// has all of it.
func SRIOVList(t *Text, l sriov.List) {
	for i, p := range l.PFs {
		if i > 0 {
			t.Blank()
		}
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
			narrowRows(t, own)
		}
	}
	if len(l.PFs) == 0 {
		t.Line("no NIC of this host can have virtual functions: 'mpps sriov check' says what to look at")
		return
	}
	if len(l.PFs) > 1 {
		total := sriov.Port{}
		for _, p := range l.PFs {
			total.VFs, total.Used, total.Free = total.VFs+p.VFs, total.Used+p.Used, total.Free+p.Free
		}
		t.Blank()
		t.Line("%s of %s: %d used, %d free", count(total.VFs, "VF"), count(len(l.PFs), "PF"), total.Used, total.Free)
	}
}

// portText is the line of a physical function.
func portText(p sriov.Port) string {
	words := []string{cmp.Or(p.Driver, "no driver")}
	if p.PCI != "" {
		words = append(words, p.PCI)
	}
	if p.Node >= 0 {
		words = append(words, fmt.Sprintf("node %d", p.Node))
	}
	switch {
	case !p.Up:
		words = append(words, "down")
	case p.Carrier == "up" && p.Speed > 0:
		words = append(words, fmt.Sprintf("link %d Mb/s", p.Speed))
	case p.Carrier != "up":
		words = append(words, "link "+p.Carrier)
	}
	text := strings.Join(words, ", ") + fmt.Sprintf(": %d of %s", p.VFs, count(p.Most, "VF"))
	if p.Seen < p.VFs {
		text += fmt.Sprintf(" (%d seen)", p.Seen)
	}
	if p.VFs > 0 {
		text += fmt.Sprintf(", %d used, %d free", p.Used, p.Free)
	}
	if len(p.Guests) > 0 {
		text += "; " + shares(p.Guests)
	}
	if len(p.Pooled) > 0 {
		text += "; of the pool at their start: " + shares(p.Pooled)
	}
	return text
}

func shares(all []sriov.Share) string {
	var words []string
	for _, s := range all[:min(len(all), 12)] {
		words = append(words, fmt.Sprintf("%s %d", s.Guest, s.VFs))
	}
	if rest := len(all) - len(words); rest > 0 {
		words = append(words, fmt.Sprintf("and %d more guests", rest))
	}
	return strings.Join(words, ", ")
}

// whose says who has a function. Two definitions that name the same one are marked: their guests cannot run at a time.
func whose(f *sriov.Function) string {
	var text string
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
	default:
		text = "free"
	}
	if others := len(f.Guests) - 1; others > 0 {
		text += fmt.Sprintf(" !+%d", others)
	}
	return text
}

// narrowRows draws what a reader looks for first in columns, and the rest in words.
func narrowRows(t *Text, own []*sriov.Function) {
	domain := "0000:"
	for _, f := range own {
		if !strings.HasPrefix(f.PCI, domain) {
			domain = ""
		}
	}
	rows := [][]string{{t.In(Faint, "VF"), t.In(Faint, "PCI"), t.In(Faint, "GUEST"), t.In(Faint, "MAC"), t.In(Faint, "SETTINGS")}}
	for _, f := range own {
		rows = append(rows, []string{
			fmt.Sprintf("%3d", f.Index), cmp.Or(strings.TrimPrefix(f.PCI, domain), "–"), cut(shown(whose(f)), 20), macText(f.MAC), strings.Join(settingWords(f), " "),
		})
	}
	t.Table(rows)
}

// settingWords are a function's settings as far as they are not what a new one has, none of which breaks at the end of a line.
func settingWords(f *sriov.Function) []string {
	var words []string
	if f.Driver != "" {
		words = append(words, f.Driver)
	}
	number := func(name string, n *int) {
		if n != nil && *n != 0 {
			words = append(words, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	if f.Group >= 0 {
		words = append(words, fmt.Sprintf("group=%d", f.Group))
	}
	number("vlan", f.VLAN)
	number("qos", f.QoS)
	number("max", f.MaxTxRate)
	number("min", f.MinTxRate)
	if f.SpoofChk != nil && !*f.SpoofChk {
		words = append(words, "spoofchk=off")
	}
	if f.Trust != nil && *f.Trust {
		words = append(words, "trust=on")
	}
	if f.LinkState != "" && f.LinkState != "auto" {
		words = append(words, "link="+f.LinkState)
	}
	number("queues", &f.Queues)
	if f.Traffic != nil {
		words = append(words, traffic(f.Traffic))
	}
	odd := notes(f)
	if len(odd) > 0 {
		words = append(words, "("+strings.Join(odd, "; ")+")")
	}
	return words
}

// notes are what is odd about who has a function.
func notes(f *sriov.Function) []string {
	var words []string
	for _, word := range []string{f.Uses, f.Process} {
		if word != "" {
			words = append(words, word)
		}
	}
	if f.Shared() {
		words = append(words, "named by "+strings.Join(f.Guests, " and "))
	}
	if r := f.Reservation; r != nil && r.Guest != f.Guest {
		words = append(words, "reserved for "+r.Guest)
	}
	return words
}

// wideRows draws each attribute in a column.
func wideRows(t *Text, own []*sriov.Function) [][]string {
	head := []string{"VF", "PCI", "GROUP", "DRIVER", "NIC", "GUEST", "MAC", "VLAN", "QOS", "MAX", "MIN", "SPOOFCHK", "TRUST", "LINK", "QUEUES", "TRAFFIC AND NOTES"}
	for i := range head {
		head[i] = t.In(Faint, head[i])
	}
	rows := [][]string{head}
	for _, f := range own {
		group, queues := "–", "–"
		if f.Group >= 0 {
			group = strconv.Itoa(f.Group)
		}
		if f.Queues > 0 {
			queues = strconv.Itoa(f.Queues)
		}
		var last []string
		if f.Traffic != nil {
			last = append(last, traffic(f.Traffic))
		}
		rows = append(rows, []string{
			fmt.Sprintf("%3d", f.Index), cmp.Or(f.PCI, "–"), group, cmp.Or(f.Driver, "none"), cmp.Or(f.NIC, "–"), cut(shown(whose(f)), 24), macText(f.MAC),
			numberText(f.VLAN), numberText(f.QoS), rateText(f.MaxTxRate), rateText(f.MinTxRate), onOff(f.SpoofChk), onOff(f.Trust), cmp.Or(f.LinkState, "?"), queues,
			strings.Join(append(last, notes(f)...), ", "),
		})
	}
	return rows
}

// macText is a function's address: "none" where nobody set one, a question mark where it was not told.
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
	size := func(n uint64) string { return strings.ReplaceAll(Bytes(n), " ", "") }
	text := fmt.Sprintf("rx=%s/%s tx=%s/%s", packets(c.RxPackets), size(c.RxBytes), packets(c.TxPackets), size(c.TxBytes))
	if lost := c.RxDropped + c.TxDropped; lost > 0 {
		text += " dropped=" + packets(lost)
	}
	return text
}

// packets is a count in at most four digits and a letter: powers of ten.
func packets(n uint64) string {
	for _, unit := range []struct {
		of     uint64
		letter string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}} {
		if n >= unit.of {
			if unit.letter == "k" {
				return fmt.Sprintf("%.3gk", float64(n)/1e3)
			}
			return fmt.Sprintf("%.3g%s", float64(n)/float64(unit.of), unit.letter)
		}
	}
	return strconv.FormatUint(n, 10)
}
