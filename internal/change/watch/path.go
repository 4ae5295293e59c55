package watch

import (
	"cmp"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// Path is what a look saw of the packet path: for metrics only, never a finding.
type Path struct {
	Guests  []GuestPath
	NICs    []NICLoss
	Softnet *SoftnetLoss // nil: not read
	Unseen  int          // parts of the inventory that could not be read
	// Limit is what holds the path back now; nil if nothing does. Judged is false if nobody looked.
	Limit  *Limit
	Judged bool
}

// GuestPath is a running guest and its packets.
type GuestPath struct {
	Name, Platform, ID string
	Places             []PlaceCount // at most two: taps and functions
}

// PlaceCount are totals of all devices of a guest in one place, since these were made. ToGuest packets that the guest
// does not fetch in time are dropped at its tap.
type PlaceCount struct {
	Place                            string // tap or vf
	ToGuest, FromGuest               uint64
	ToGuestDropped, FromGuestDropped uint64
}

// NICLoss are the packets that a NIC lost since boot, by the kernel's counter.
type NICLoss struct {
	Name   string
	Counts []Count
}

// Count is a counter.
type Count struct {
	Name  string
	Value uint64
}

// SoftnetLoss are totals over all CPUs since boot (/proc/net/softnet_stat).
type SoftnetLoss struct{ Dropped, Squeezed uint64 }

// Limit is a bottleneck by its names.
type Limit struct{ Stage, Kind, Object string }

// lossCounters are the counters of NICs that are shown (include/uapi/linux/if_link.h, struct rtnl_link_stats64).
var lossCounters = []string{"rx_dropped", "rx_fifo_errors", "rx_missed_errors", "tx_dropped"}

// maxGuests is how many guests have their own metrics: a scrape of 1000 has 10,000 series.
const maxGuests = 1000

// PathOf returns what an inventory says of the packet path.
func PathOf(h *facts.Host) Path {
	p := Path{Unseen: len(h.Unseen)}
	for g := range facts.Each(h.Guests) {
		if g.Active() && len(p.Guests) < maxGuests {
			p.Guests = append(p.Guests, guestPath(h, g))
		}
	}
	for n := range facts.Each(h.NICs) {
		if n.PhysFn != "" || n.Representor() {
			continue
		}
		loss := NICLoss{Name: n.Name}
		for _, name := range lossCounters {
			if value, counted := n.Stats[name]; counted {
				loss.Counts = append(loss.Counts, Count{name, value})
			}
		}
		p.NICs = append(p.NICs, loss)
	}
	if len(h.Softnet) > 0 {
		p.Softnet = &SoftnetLoss{}
		for _, s := range h.Softnet {
			p.Softnet.Dropped += s.Dropped
			p.Softnet.Squeezed += s.Squeezed
		}
	}
	return p
}

func guestPath(h *facts.Host, g *facts.Guest) GuestPath {
	p := GuestPath{Name: g.Name, Platform: string(g.Platform()), ID: g.UUID}
	if g.Owner != nil {
		p.ID = cmp.Or(g.Owner.ID, g.UUID)
	}
	tap, vf := PlaceCount{Place: "tap"}, PlaceCount{Place: "vf"}
	taps, vfs := false, false
	for _, t := range h.Taps {
		if t.Guest == g.Name && t.Stats != nil {
			taps = true
			tap.ToGuest += t.Stats["tx_packets"] // what the host sends through a tap, the guest receives
			tap.FromGuest += t.Stats["rx_packets"]
			tap.ToGuestDropped += t.Stats["tx_dropped"]
			tap.FromGuestDropped += t.Stats["rx_dropped"]
		}
	}
	for _, v := range h.VFs {
		if v.Guest == g.Name && v.Traffic != nil {
			vfs = true
			vf.ToGuest += v.Traffic.RxPackets
			vf.FromGuest += v.Traffic.TxPackets
			vf.ToGuestDropped += v.Traffic.RxDropped
			vf.FromGuestDropped += v.Traffic.TxDropped
		}
	}
	if taps {
		p.Places = append(p.Places, tap)
	}
	if vfs {
		p.Places = append(p.Places, vf)
	}
	return p
}

// label returns a text as the value of a label, in quotes: the text format knows the escapes of backslash, quote and
// line feed alone. Guests' names may hold anything.
func label(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200])
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// unique returns guests by name, each name once: two of one name would be two series with the same labels, which no
// scraper accepts.
func unique(all []GuestPath) []GuestPath {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b GuestPath) int { return cmp.Compare(label(a.Name), label(b.Name)) })
	return slices.CompactFunc(all, func(a, b GuestPath) bool { return label(a.Name) == label(b.Name) })
}
