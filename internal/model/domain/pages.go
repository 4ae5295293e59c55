package domain

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// page is one <page> of <hugepages>.
type page struct {
	kib   uint64
	nodes string // canonical set of guest NUMA cells, "" for all
}

// hugePages is "default" for <hugepages/>, or page sizes with the guest cells that use them: "1GiB", "1GiB@0 2MiB@1-3".
var hugePages = kind{allowed: "default, or sizes such as 1GiB or 2MiB@0-1, separated by spaces",
	canon: func(s string) (string, bool) {
		pages, ok := parsePages(s)
		return formatPages(pages), ok
	}, valid: func(v string) *ValueError {
		pages, _ := parsePages(v)
		for _, p := range pages {
			if bits.OnesCount64(p.kib) != 1 || p.kib < 4 {
				return refuse("page sizes that are powers of two", "x86 has 2MiB and 1GiB")
			}
		}
		if len(pages) > 1 && slices.ContainsFunc(pages, func(p page) bool { return p.nodes == "" }) {
			return refuse("at most one size without cells", "write SIZE@CELLS for each")
		}
		return nil
	}, validIn: func(v string, _ *element, d *Doc) *ValueError {
		// libvirt refuses pages for a missing cell; a guest without cells has one, 0.
		cells := max(len(d.root.first("cpu", "numa").all("cell")), 1)
		pages, _ := parsePages(v)
		for _, p := range pages {
			if set, err := ParseSet(p.nodes); err == nil && set[len(set)-1] >= cells {
				return refuse("cells 0 to "+strconv.Itoa(cells-1), "the guest has "+strconv.Itoa(cells)+
					": give it cells of its own first (cpu/numa/cells)")
			}
		}
		return nil
	}}

func parsePages(s string) ([]page, bool) {
	words := strings.Fields(s)
	if len(words) == 1 && (words[0] == "default" || words[0] == "yes") {
		return nil, true
	}
	var pages []page
	for _, w := range words {
		size, nodes, scoped := strings.Cut(w, "@")
		digits := strings.TrimRight(size, "KMGTiB")
		n, err := strconv.ParseUint(digits, 10, 64)
		kib, ok := scaleKiB(n, size[len(digits):])
		if err != nil || !ok || kib == 0 || size == digits {
			return nil, false
		}
		p := page{kib: kib}
		if scoped {
			if p.nodes, ok = canonSet(nodes); !ok {
				return nil, false
			}
		}
		pages = append(pages, p)
	}
	return pages, len(pages) > 0
}

func formatPages(pages []page) string {
	if len(pages) == 0 {
		return "default"
	}
	words := make([]string, len(pages))
	for i, p := range pages {
		words[i] = formatKiB(p.kib)
		if p.nodes != "" {
			words[i] += "@" + p.nodes
		}
	}
	return strings.Join(words, " ")
}

// pagesForm is the list of <page> in <hugepages>.
type pagesForm struct{}

func (f pagesForm) get(d *Doc, e *element) string {
	return f.read(e, func(p *element) bool { return !p.gone })
}

// read returns the <page> children that which selects.
func (pagesForm) read(e *element, which func(*element) bool) string {
	var pages []page
	for _, n := range e.kids {
		if n.el == nil || n.el.name != "page" || !which(n.el) {
			continue
		}
		size, err := strconv.ParseUint(strings.TrimSpace(n.el.get("size")), 10, 64)
		kib, ok := scaleKiB(size, n.el.get("unit"))
		nodes := ""
		if n.el.attr("nodeset") != nil {
			var fine bool
			nodes, fine = canonSet(n.el.get("nodeset"))
			ok = ok && fine
		}
		if err != nil || !ok || kib == 0 {
			return "page size " + n.el.get("size") + n.el.get("unit") + " for cells " + n.el.get("nodeset")
		}
		pages = append(pages, page{kib: kib, nodes: nodes})
	}
	return formatPages(pages)
}

// put replaces the <page> children, or brings back the parsed ones if they mean the same.
func (f pagesForm) put(d *Doc, e *element, v string) {
	if f.get(d, e) == v {
		return
	}
	parsed := func(p *element) bool { return !p.made }
	back := !e.made && f.read(e, parsed) == v
	for _, n := range slices.Clone(e.kids) {
		switch {
		case n.el == nil || n.el.name != "page":
		case n.el.made:
			d.remove(n.el)
		default:
			n.el.gone = !back
		}
	}
	if back {
		return
	}
	pages, _ := parsePages(v)
	for _, p := range pages {
		k := d.insert(e, "page", "", "")
		d.addAttr(k, "size", strconv.FormatUint(p.kib, 10))
		d.addAttr(k, "unit", "KiB")
		if p.nodes != "" {
			d.addAttr(k, "nodeset", p.nodes)
		}
	}
}
