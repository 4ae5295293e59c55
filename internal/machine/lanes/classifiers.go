package lanes

import (
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
)

// Classifiers returns the kinds of tc filters at a device's ingress that are not of mpps, sorted. They run after the
// tcx programs. A filter that returns "ok" overwrites tc_index, which holds the lane, with its class, even if it has
// none (net/core/dev.c, tc_run; net/sched/cls_bpf.c sets the class to the filter's own before it runs). What a filter
// will return cannot be known.
func Classifiers(d Device) ([]string, error) { return classifiers(d, tapSide) }

// Redirects returns the indices of the devices that tc filters at a device's ingress send its packets out by (mirred),
// and of those that they let them arrive at, sorted: so a tap reaches the wire without a bridge.
func Redirects(d Device) (out, in []int, err error) {
	all, err := filtersAt(d, tapSide)
	for _, f := range all {
		for _, action := range actionsOf(f) {
			switch m, is := action.(*netlink.MirredAction); {
			case is && m.MirredAction == netlink.TCA_EGRESS_REDIR:
				out = append(out, m.Ifindex)
			case is && m.MirredAction == netlink.TCA_INGRESS_REDIR:
				in = append(in, m.Ifindex)
			}
		}
	}
	slices.Sort(out)
	slices.Sort(in)
	return slices.Compact(out), slices.Compact(in), err
}

// actionsOf returns a filter's actions, as far as the library reads those of its kind.
func actionsOf(f netlink.Filter) []netlink.Action {
	switch f := f.(type) {
	case *netlink.U32:
		return f.Actions
	case *netlink.MatchAll:
		return f.Actions
	case *netlink.Flower:
		return f.Actions
	}
	return nil
}

// HasPrograms reports whether BPF programs are at a device's ingress that are not of mpps: filters, or tcx
// programs (Linux
// 6.6 and later). It is for devices that mpps attaches none to.
func HasPrograms(d Device) bool {
	kinds, _ := Classifiers(d)
	programs, err := link.QueryPrograms(link.QueryOptions{Target: d.Index, Attach: ebpf.AttachTCXIngress})
	return slices.Contains(kinds, "bpf") || err == nil && len(programs.Programs) > 0
}

// ClassifiersOut returns those at a device's egress. They do the same to packets that pass a tunnel, a VLAN or a bond
// on their way to the NIC.
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

// erased reports whether a classifier at a tap, or at a device between it and the NIC, may erase the lane of its
// packets. known caches the answer for devices that several taps send through.
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
