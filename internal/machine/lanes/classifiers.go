package lanes

import (
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Classifiers are the kinds of tc filters at a device's ingress that are not of mpps, each once. They run behind the
// programs of tcx, and whichever answers "ok" writes its class into tc_index, where the lane stands, also where it has
// no class (net/core/dev.c, tc_run; net/sched/cls_bpf.c sets the class to the filter's own before it runs). What a
// filter answers cannot be read.
func Classifiers(d Device) ([]string, error) { return classifiers(d, tapSide) }

// ClassifiersOut are those at a device's egress. They do the same there, to what passes a tunnel, a VLAN or a bond on
// its way to the NIC.
func ClassifiersOut(d Device) ([]string, error) { return classifiers(d, nicSide) }

func classifiers(d Device, s side) ([]string, error) {
	all, err := filtersAt(d, s)
	if err != nil {
		return nil, err
	}
	var kinds []string
	for _, f := range all {
		if b, is := f.(*netlink.BpfFilter); is && strings.HasPrefix(b.Name, namePrefix) {
			continue
		}
		if !slices.Contains(kinds, f.Type()) {
			kinds = append(kinds, f.Type())
		}
	}
	slices.Sort(kinds)
	return kinds, nil
}

// erased reports whether a classifier at a tap, or at a device between it and the NIC, takes the lane off what passes.
// known spares looking twice at a device that several taps send through.
func (p Program) erased(tap Device, known map[int]bool) (bool, error) {
	others, err := Classifiers(tap)
	if len(others) > 0 || err != nil || p.Between == nil {
		return len(others) > 0, err
	}
	for _, d := range p.Between(tap) {
		erases, seen := known[d.Index]
		if !seen {
			others, err := ClassifiersOut(d)
			if err != nil {
				return false, err
			}
			erases = len(others) > 0
			known[d.Index] = erases
		}
		if erases {
			return true, nil
		}
	}
	return false, nil
}
