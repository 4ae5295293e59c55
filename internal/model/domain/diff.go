package domain

import (
	"slices"
	"strings"
)

// Difference is one path whose value two documents do not share.
type Difference struct {
	Path    string `json:"path"`
	From    string `json:"from"`
	To      string `json:"to"`
	HasFrom bool   `json:"has_from"` // false: absent in the first document
	HasTo   bool   `json:"has_to"`   // false: absent in the second
}

// Diff lists the known paths whose values differ between two documents, in the order of Paths. A value that cannot be
// read is compared as written.
func Diff(a, b *Doc) []Difference {
	paths := a.Paths()
	in := map[string]bool{}
	for _, p := range paths {
		in[p] = true
	}
	for _, p := range b.Paths() {
		if !in[p] {
			paths = append(paths, p)
		}
	}
	slices.SortStableFunc(paths, func(x, y string) int { return ruleIndex(x) - ruleIndex(y) })
	var out []Difference
	for _, path := range paths {
		d := Difference{Path: path}
		d.From, d.HasFrom = a.shown(path)
		d.To, d.HasTo = b.shown(path)
		if d.From != d.To || d.HasFrom != d.HasTo {
			out = append(out, d)
		}
	}
	return out
}

// Pending lists what a guest's next start will change: the differences from what it runs with (virsh dumpxml) to what
// is defined (virsh dumpxml --inactive). Two differences are left out since libvirt makes them itself when a guest
// starts: CPU mode host-model becomes the custom model that it stood for, and an interface of type network shows the
// type that the network gave it and what goes with that (src/conf/domain_conf.c, virDomainNetDefFormat, publicActual);
// and a function of the host shows the driver that passes it through.
func Pending(live, defined *Doc) []Difference {
	all := Diff(live, defined)
	resolved := map[string]bool{} // interfaces that a network has made functions of the host
	for _, d := range all {
		if nic, is := strings.CutSuffix(d.Path, "/type"); is && d.From == "hostdev" && d.To == "network" {
			resolved[nic] = true
		}
	}
	return slices.DeleteFunc(all, func(d Difference) bool {
		r, key := match(d.Path)
		fromPool := resolved["interface/"+key]
		switch r.path {
		case "cpu/mode":
			return strings.HasPrefix(d.From, "custom") && d.To == "host-model"
		case "interface/*/type":
			return d.HasFrom && d.To == "network"
		case "interface/*/source.pci", "interface/*/managed", "interface/*/model", "interface/*/vlan":
			return fromPool
		case "interface/*/driver.name":
			return fromPool || d.From == "vfio" && !d.HasTo
		}
		return false
	})
}

func (d *Doc) shown(path string) (string, bool) {
	v, present, err := d.Get(path)
	if err != nil && present {
		if p, perr := d.find(path); perr == nil {
			return d.raw(p), true
		}
	}
	return v, present
}

func ruleIndex(path string) int {
	r, _ := match(path)
	for i := range rules {
		if &rules[i] == r {
			return i
		}
	}
	return len(rules)
}
