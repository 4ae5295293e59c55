package domain

import (
	"errors"
	"slices"
	"strings"
)

// Difference is a path whose value differs between two documents.
type Difference struct {
	Path    string `json:"path"`
	From    string `json:"from"`
	To      string `json:"to"`
	HasFrom bool   `json:"has_from"` // false if the first document does not have it
	HasTo   bool   `json:"has_to"`   // false if the second document does not have it
}

// Diff lists the paths whose values differ, in the order of Paths. An unreadable value is compared as written.
func Diff(a, b *Doc) []Difference {
	paths := append(a.Paths(), b.Paths()...)
	slices.SortStableFunc(paths, func(x, y string) int { return ruleIndex(x) - ruleIndex(y) })
	seen := map[string]bool{}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		again := seen[p]
		seen[p] = true
		return again
	})
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

// Pending lists what a guest's next start will change: the differences between the running XML (virsh dumpxml) and the
// definition (virsh dumpxml --inactive). It leaves out what libvirt itself changes when a guest starts: CPU mode
// host-model becomes the custom model it stood for; an interface of type network shows the type that the network gave
// it and what goes with that (src/conf/domain_conf.c, virDomainNetDefFormat, publicActual); and a host function shows
// the driver that passes it through.
func Pending(live, defined *Doc) []Difference {
	all := Diff(live, defined)
	resolved := map[string]bool{} // interfaces that got a host function from a network
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
	var bad *ValueError
	if errors.As(err, &bad) {
		return bad.Found, true
	}
	return v, present
}

func ruleIndex(path string) int {
	r, _ := match(path)
	return slices.IndexFunc(rules, func(other rule) bool { return other.path == r.path })
}
