package sriov

import (
	"fmt"
	"slices"

	"mpps/internal/model/domain"
	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Pinned is the memory that VFIO pins when a guest starts with a device: all of the guest's memory at once
// (drivers/vfio/vfio_iommu_type1.c, vfio_pin_map_dma), since the device could write anywhere. If it does not fit, the
// start fails, or the host swaps and kills processes.
type Pinned struct {
	Needs    uint64         `json:"needs_bytes"` // of the guest
	Nodes    setting.CPUSet `json:"nodes"`       // that it must come from; empty: any
	PageSize uint64         `json:"page_size_bytes,omitempty"`
	Room     uint64         `json:"room_bytes"`     // available on these nodes
	Promised uint64         `json:"promised_bytes"` // of Room, for other guests with devices that are off now
}

// part is memory of a guest from one set of nodes and of one page size.
type part struct {
	bytes uint64
	nodes setting.CPUSet // empty: any
	page  uint64         // 0: ordinary pages
}

// parts splits the memory of a guest by its definition.
func parts(h *facts.Host, g *facts.Guest) []part {
	all := part{bytes: g.Memory}
	if g.Hugepages {
		all.page = defaultPage(h)
	}
	doc, err := domain.Parse([]byte(g.Definition))
	if err != nil {
		return []part{all}
	}
	d := doc.Guest()
	strict := func(mode, nodes string) setting.CPUSet {
		set, err := domain.ParseSet(nodes)
		if err != nil || mode != "" && mode != "strict" && mode != "restrictive" {
			return nil // preferred and interleave fall back to other nodes
		}
		return setting.CPUs(set...)
	}
	all.nodes = strict(d.NUMA.Mode, d.NUMA.Nodes)
	size := func(cell int) uint64 {
		page := all.page
		for _, p := range d.Backing.Pages {
			cells, err := domain.ParseSet(p.Cells)
			if p.KiB > 0 && err == nil && (p.Cells == "" || slices.Contains(cells, cell)) {
				page = p.KiB << 10
			}
		}
		return page
	}
	if len(d.CPU.Cells) == 0 {
		all.page = size(0)
		return []part{all}
	}
	var list []part
	for _, cell := range d.CPU.Cells {
		one := part{bytes: cell.KiB << 10, nodes: all.nodes, page: size(cell.ID)}
		for _, n := range d.NUMA.Cells {
			if n.Cell == cell.ID {
				one.nodes = strict(n.Mode, n.Nodes)
			}
		}
		at := slices.IndexFunc(list, func(p part) bool { return p.page == one.page && p.nodes.Equal(one.nodes) })
		if at < 0 {
			list = append(list, one)
		} else {
			list[at].bytes += one.bytes
		}
	}
	return list
}

// defaultPage returns the page size that libvirt uses if a definition has none: the kernel's default, 2 MiB unless
// default_hugepagesz changes it. On a host that only has pages of another size it is that size.
func defaultPage(h *facts.Host) uint64 {
	const usual = 2 << 20
	var other uint64
	for _, p := range h.Topology.Hugepages {
		if p.Total == 0 {
			continue
		}
		if p.Size == usual {
			return usual
		}
		other = p.Size
	}
	return words.Either(other > 0, other, usual)
}

// room returns the bytes that are free for a part of a guest's memory now, and at most.
func room(h *facts.Host, one part) (now, most uint64) {
	for _, n := range h.Topology.Nodes {
		if len(one.nodes) > 0 && !one.nodes.Has(n.ID) {
			continue
		}
		if one.page == 0 {
			free := max(n.Available, n.Free)
			var pools uint64
			for _, pool := range n.Hugepages {
				pools += pool.Size * pool.Total
			}
			now, most = now+free, most+n.Memory-min(pools, n.Memory)
			continue
		}
		for _, pool := range n.Hugepages {
			if pool.Size == one.page {
				now, most = now+pool.Size*pool.Free, most+pool.Size*pool.Total
			}
		}
	}
	return now, most
}

// checkMemory refuses a guest whose memory cannot be pinned, or adds a note with --force.
func (g *Gift) checkMemory(h *facts.Host) (Pinned, error) {
	total := Pinned{Needs: g.guest.Memory}
	if g.guest.Active() && len(g.guest.Functions) > 0 {
		return total, nil // pinned with its first device
	}
	for _, one := range parts(h, g.guest) {
		now, most := room(h, one)
		if _, known := room(h, part{nodes: one.nodes}); known == 0 {
			continue // the size of the memory is unknown
		}
		switch { // a restart frees what the guest has now
		case g.guest.Active() && one.page == 0:
			now += min(g.guest.Resident, one.bytes)
		case g.guest.Active():
			now += one.bytes
		}
		promised := min(reservedMemory(h, g.Guest, one), now)
		total.Nodes, total.PageSize = total.Nodes.Or(one.nodes), max(total.PageSize, one.page)
		total.Room, total.Promised = total.Room+now, total.Promised+promised
		why := fmt.Sprintf("guest %s needs %s of %s, all of it pinned when it starts with a virtual function; %s",
			g.Guest, mib(one.bytes), one.kind(), one.place())
		if one.bytes > most {
			return total, refuse("give it less, or a place that has it: 'mpps domain tune', numatune",
				"%s has %s in all", why, mib(most))
		}
		if one.bytes <= now-promised {
			continue
		}
		why += fmt.Sprintf(" has %s free", mib(now))
		if promised > 0 {
			why += fmt.Sprintf(", of which %s is for other guests with functions that are off now", mib(promised))
		}
		if !g.request.Force {
			return total, refuse("stop what uses it, or give the guest less; --force where it will be free when the "+
				"guest starts", "%s", why)
		}
		g.note("memory", why, "free it before the guest starts")
	}
	return total, nil
}

// reservedMemory returns the bytes that guests other than but will pin in the same place when they start.
func reservedMemory(h *facts.Host, but string, one part) uint64 {
	var sum uint64
	for o := range facts.Each(h.Guests) {
		if o.Name == but || o.Active() || countFunctions(h, o) == 0 {
			continue
		}
		for _, other := range parts(h, o) {
			if other.page == one.page && (len(one.nodes) == 0 || len(other.nodes.And(one.nodes)) > 0) {
				sum += other.bytes
			}
		}
	}
	return sum
}

func (p part) kind() string {
	return words.Either(p.page == 0, "memory", "huge pages of "+size(p.page))
}

func (p part) place() string {
	switch len(p.nodes) {
	case 0:
		return "this host"
	case 1:
		return "node " + p.nodes.String()
	}
	return "nodes " + p.nodes.String() + " together"
}

func mib(bytes uint64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

func size(bytes uint64) string {
	if bytes>>30 > 0 && bytes%(1<<30) == 0 {
		return fmt.Sprintf("%d GiB", bytes>>30)
	}
	return words.Either(bytes < 1<<20, fmt.Sprintf("%d KiB", bytes>>10), mib(bytes))
}
