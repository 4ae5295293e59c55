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

// Pending lists what a guest's next start will change: the differences from what it runs with (virsh dumpxml) to what is
// defined (virsh dumpxml --inactive). Two differences are left out since libvirt makes them itself when a guest starts:
// CPU mode host-model becomes the custom model that it stood for, and an interface of type network shows the type that
// the network gave it (src/conf/domain_conf.c, virDomainNetDefFormat, publicActual).
func Pending(live, defined *Doc) []Difference {
	return slices.DeleteFunc(Diff(live, defined), func(d Difference) bool {
		switch r, _ := match(d.Path); r.path {
		case "cpu/mode":
			return strings.HasPrefix(d.From, "custom") && d.To == "host-model"
		case "interface/*/type":
			return d.HasFrom && d.To == "network"
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
