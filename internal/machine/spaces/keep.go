package spaces

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/link"
	"mpps/internal/model/facts"
	"mpps/internal/model/reach"
)

// idOf returns the ID of the namespace of a file.
func idOf(file string) (uint64, bool) {
	var st unix.Stat_t
	err := unix.Stat(file, &st)
	return st.Ino, err == nil
}

// nameOf returns the name of a namespace's file; empty for that of a process.
func nameOf(file string) string {
	if strings.HasPrefix(file, "/proc/") {
		return ""
	}
	return path.Base(file)
}

// keep drops the namespaces that guests' packets do not pass, and notes at the host's links to them that they lead no
// further: a snapshot of a node has its guests' pods, not its hundred others.
func (f *finder) keep() {
	paths := reach.Of(f.h)
	kept := map[uint64]bool{}
	for _, g := range f.h.Guests {
		kept[g.Namespace] = true
		for _, i := range g.NICs() {
			kept[i.TapNamespace] = true
		}
	}
	for n := range facts.Each(f.h.Namespaces) {
		if kept[n.ID] = kept[n.ID] || paths.Passes(n.ID); !kept[n.ID] {
			continue
		}
		for d := range facts.Each(n.Devices) {
			if d.Beyond != nil {
				kept[d.Beyond.Namespace] = true
			}
		}
	}
	dead := map[string]bool{}
	for n := range facts.Each(f.h.Namespaces) {
		for d := range facts.Each(n.Devices) {
			if !kept[n.ID] && !n.Cut && n.Routing != nil && d.Beyond != nil && d.Beyond.Namespace == 0 {
				dead[d.Beyond.Device] = true
			}
		}
	}
	f.h.Namespaces = facts.Where(f.h.Namespaces, func(n facts.Namespace) bool { return kept[n.ID] })
	for l := range facts.Each(f.h.Links) {
		l.DeadEnd = dead[l.Name] && l.Elsewhere
	}
}

// findPrograms finds the BPF programs at the host's ends of pairs that guests' packets leave their namespaces by.
func (f *finder) findPrograms() {
	ends := map[string]bool{}
	for n := range facts.Each(f.h.Namespaces) {
		for d := range facts.Each(n.Devices) {
			if d.Beyond != nil && d.Beyond.Namespace == 0 && (d.Kind == "veth" || d.Kind == "netkit") {
				ends[d.Beyond.Device] = true
			}
		}
	}
	there := map[string]link.Device{}
	for _, d := range f.table {
		if ends[d.Name] {
			there[d.Name] = d
		}
	}
	for l := range facts.Each(f.h.Links) {
		if d, is := there[l.Name]; is {
			l.Programs = link.Programs(d)
		}
	}
}
