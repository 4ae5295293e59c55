package domain

import (
	"slices"
	"strconv"
	"strings"
)

// vCell is one NUMA cell of the guest: its vCPUs ("" for a memory-only cell) and its memory.
type vCell struct {
	cpus string
	kib  uint64
}

// numaCells is the guest's NUMA cells in numerical order, "0-3:4GiB 4-7:4GiB"; "none:1GiB" is a cell without vCPUs.
var numaCells = kind{allowed: "VCPUS:SIZE for each cell, such as 0-3:4GiB 4-7:4GiB",
	canon: func(s string) (string, bool) {
		cells, ok := parseCells(s)
		return formatCells(cells), ok
	}, valid: func(v string) *ValueError {
		cells, _ := parseCells(v)
		seen := map[int]bool{}
		for _, c := range cells {
			set, _ := ParseSet(c.cpus)
			for _, n := range set {
				if seen[n] {
					return refuse("each vCPU in one cell", "vCPU "+strconv.Itoa(n)+" stands in two")
				}
				seen[n] = true
			}
		}
		return nil
	}, validIn: func(v string, _ *element, d *Doc) *ValueError {
		vcpus, known := atoi(d.root.first("vcpu").text())
		cells, _ := parseCells(v)
		var total uint64
		for _, c := range cells {
			total += c.kib
		}
		// src/conf/domain_postparse.c, virDomainDefPostParseMemory: the sum of the cells becomes the guest's memory.
		if has := d.Guest().MemoryKiB; has > 0 && total != has {
			return refuse("cells with "+formatKiB(has)+" together", "the guest has "+formatKiB(has)+
				", and libvirt would make it "+formatKiB(total))
		}
		for _, c := range cells {
			// libvirt refuses more vCPUs in cells than the domain has (src/conf/domain_postparse.c,
			// src/conf/numa_conf.c).
			if set, err := ParseSet(c.cpus); err == nil && known && set[len(set)-1] >= vcpus {
				return refuse("vCPUs 0 to "+strconv.Itoa(vcpus-1), "the domain has "+strconv.Itoa(vcpus)+" vCPUs")
			}
		}
		return nil
	}}

func parseCells(s string) ([]vCell, bool) {
	var cells []vCell
	for _, w := range strings.Fields(s) {
		cpus, size, found := strings.Cut(w, ":")
		kib, ok := ParseSize(size)
		if !found || !ok {
			return nil, false
		}
		c := vCell{kib: kib}
		if cpus != "none" {
			if c.cpus, ok = canonSet(cpus); !ok {
				return nil, false
			}
		}
		cells = append(cells, c)
	}
	return cells, len(cells) > 0
}

func formatCells(cells []vCell) string {
	words := make([]string, len(cells))
	for i, c := range cells {
		words[i] = c.cpus + ":" + formatKiB(c.kib)
		if c.cpus == "" {
			words[i] = "none" + words[i]
		}
	}
	return strings.Join(words, " ")
}

// ParseSize reads an amount of memory with its unit, such as 16GiB or 2M, and returns KiB. A number without a unit is
// refused: libvirt reads KiB, people mean bytes or GiB.
func ParseSize(s string) (kib uint64, ok bool) {
	digits := strings.TrimRight(s, "KMGTPEkmgtpeiBb")
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || digits == s {
		return 0, false
	}
	kib, ok = scaleKiB(n, s[len(digits):])
	return kib, ok && kib > 0
}

// cellsForm is the list of <cell> in <numa>.
type cellsForm struct{}

// ordered returns the cells by number. libvirt numbers cells without an id in document order.
func (cellsForm) ordered(e *element) []*element {
	cells := e.all("cell")
	id := map[*element]int{}
	for i, c := range cells {
		id[c] = i
		if n, ok := atoi(strings.TrimSpace(c.get("id"))); ok {
			id[c] = n
		}
	}
	slices.SortStableFunc(cells, func(a, b *element) int { return id[a] - id[b] })
	return cells
}

func (f cellsForm) get(d *Doc, e *element) string {
	var cells []vCell
	for _, c := range f.ordered(e) {
		cell := vCell{}
		n, err := strconv.ParseUint(strings.TrimSpace(c.get("memory")), 10, 64)
		kib, ok := scaleKiB(n, strings.TrimSpace(c.get("unit")))
		if cell.kib = kib; c.attr("cpus") != nil {
			set, fine := canonSet(c.get("cpus"))
			cell.cpus, ok = set, ok && fine
		}
		if err != nil || !ok {
			return "cell of vCPUs " + c.get("cpus") + " with memory " + c.get("memory") + c.get("unit")
		}
		cells = append(cells, cell)
	}
	return formatCells(cells)
}

// put sets each cell's vCPUs and memory in place, adds missing cells (or brings back parsed ones) and removes surplus
// ones.
func (f cellsForm) put(d *Doc, e *element, v string) {
	wanted, _ := parseCells(v)
	for i, c := range f.ordered(e) {
		if i >= len(wanted) {
			d.remove(c)
		}
	}
	for i, w := range wanted {
		have := f.ordered(e)
		var c *element
		switch {
		case i < len(have):
			c = have[i]
		default:
			if c = f.removedCell(e, i); c == nil {
				c = d.insert(e, "cell", "id", strconv.Itoa(i))
			}
			d.bringBack(c)
		}
		if w.cpus == "" {
			c.removeAttr("cpus")
		} else {
			d.setCanon(c, "cpus", w.cpus, canonSet)
		}
		d.setKiB(c, w.kib)
	}
}

// removedCell returns the parsed cell that had a number and was removed, nil if there is none.
func (cellsForm) removedCell(e *element, number int) *element {
	at := 0
	for _, n := range e.kids {
		if n.el == nil || n.el.name != "cell" || n.el.made {
			continue
		}
		id, ok := atoi(strings.TrimSpace(n.el.get("id")))
		if n.el.gone && (ok && id == number || !ok && at == number) {
			return n.el
		}
		at++
	}
	return nil
}

// setKiB sets the attributes memory and unit. If the parsed amount is the same, its bytes come back.
func (d *Doc) setKiB(e *element, kib uint64) {
	amount := func(value func(*attr) string) (uint64, bool) {
		var memory, unit string
		for _, a := range e.attrs {
			switch {
			case a.name == "memory":
				memory = value(a)
			case a.name == "unit":
				unit = value(a)
			}
		}
		n, err := strconv.ParseUint(strings.TrimSpace(decode(memory)), 10, 64)
		have, ok := scaleKiB(n, strings.TrimSpace(decode(unit)))
		return have, ok && err == nil
	}
	now := func(a *attr) string {
		if a.gone {
			return ""
		}
		return a.raw
	}
	if have, ok := amount(now); ok && have == kib {
		return
	}
	if have, ok := amount(func(a *attr) string { return a.orig }); ok && have == kib && !e.made {
		for _, a := range slices.Clone(e.attrs) {
			switch {
			case a.name != "memory" && a.name != "unit":
			case a.made:
				e.removeAttr(a.name)
			default:
				a.raw, a.gone = a.orig, false
			}
		}
		return
	}
	unit := strings.TrimSpace(e.get("unit"))
	of, ok := scaleKiB(1, unit)
	if !ok || of == 0 || unit == "" || kib%of != 0 || strings.HasPrefix(strings.ToLower(unit), "b") {
		unit, of = "KiB", 1
	}
	d.setAttr(e, "memory", strconv.FormatUint(kib/of, 10), func(string) bool { return false })
	d.setAttr(e, "unit", unit, func(raw string) bool { return strings.TrimSpace(decode(raw)) == unit })
}
