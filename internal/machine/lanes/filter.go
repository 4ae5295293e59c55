package lanes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Before Linux 6.6 there is no tcx: the programs are filters of the queue discipline clsact (4.5 and later), with
// direct action. The kernel keeps them by itself. tc shows them by their name.

func (p Program) filterName() string { return "mpps-" + version + ":" + p.NIC.Name }

// namePrefix begins the names of the filters of every version, for any NIC.
const namePrefix = "mpps-" + versionPrefix

// ofNIC reports whether a filter is one of the NIC's programs, of whatever version.
func (p Program) ofNIC(f netlink.Filter) bool {
	b, is := f.(*netlink.BpfFilter)
	return is && strings.HasPrefix(b.Name, namePrefix) && strings.HasSuffix(b.Name, ":"+p.NIC.Name)
}

func (s side) parent() uint32 {
	if s == nicSide {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

// filters are those of the NIC's programs at one side of a device, of this version.
func (p Program) filters(d Device, s side) ([]*netlink.BpfFilter, error) {
	all, err := filtersAt(d, s)
	if err != nil {
		return nil, err
	}
	var ours []*netlink.BpfFilter
	for _, f := range all {
		if b, is := f.(*netlink.BpfFilter); is && b.Name == p.filterName() {
			ours = append(ours, b)
		}
	}
	return ours, nil
}

// filtersAt are all filters at one side of a device, of clsact and, at the ingress, of the queue discipline ingress.
func filtersAt(d Device, s side) ([]netlink.Filter, error) {
	if d.Index < 1 { // a NIC that is gone
		return nil, nil
	}
	l := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: d.Index, Name: d.Name}}
	all, err := netlink.FilterList(l, s.parent())
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOENT),
		errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil // no such queue discipline, device or support for one
	case err != nil:
		return nil, fmt.Errorf("filters of %s: %w", d.Name, err)
	}
	return all, nil
}

// addFilter attaches a program as a filter, with the queue discipline where there is none. That one stays when the
// filter goes: empty it changes nothing, but the kernel stops a device's transmit queues for a moment, and drops what
// comes, whenever clsact is put on or taken off (net/sched/sch_api.c, qdisc_graft calls dev_deactivate for ingress too;
// measured: some 2,000 frames of a veth).
func (p Program) addFilter(program *ebpf.Program, d Device, s side) error {
	if err := onlyClsact(d, s); err != nil {
		return err
	}
	attrs := netlink.QdiscAttrs{LinkIndex: d.Index, Handle: netlink.MakeHandle(0xffff, 0),
		Parent: netlink.HANDLE_CLSACT}
	if err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("queue discipline clsact on %s (Linux 4.5 and later; NET_SCH_INGRESS): %w", d.Name, err)
	}
	err := netlink.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: d.Index, Parent: s.parent(), Protocol: unix.ETH_P_ALL,
			Priority: first},
		Fd: program.FD(), Name: p.filterName(), DirectAction: true,
	})
	if err != nil {
		if kind, _ := p.before(d, s); kind != "" {
			return &inFront{device: d.Name, kind: kind, side: s}
		}
		return fmt.Errorf("filter on %s: %w", d.Name, err)
	}
	return nil
}

// first is the preference of what runs before all others. Of several filters of one kind with the same, the newest runs
// first (net/sched/cls_bpf.c, cls_bpf_change); another kind cannot have the same.
const first = 1

// before is the kind of the first filter at one side of a device, where that is none of the NIC's programs: one that
// answers "ok" keeps the programs from being run. Filters are listed in the order in which they run.
func (p Program) before(d Device, s side) (kind string, err error) {
	all, err := filtersAt(d, s)
	if err != nil || len(all) == 0 || p.ofNIC(all[0]) {
		return "", err
	}
	return all[0].Type(), nil
}

// inFront says that a filter of somebody else's runs before those of mpps.
type inFront struct {
	device, kind string
	side         side
}

func (e *inFront) Error() string {
	return fmt.Sprintf("%s has a filter of somebody else's (%s) with pref %d: expected none that runs before the one "+
		"of mpps", e.device, e.kind, first)
}

// Hint says how to see it.
func (e *inFront) Hint() string {
	return fmt.Sprintf("tc filter show dev %s %s; with a higher pref it runs behind", e.device,
		map[side]string{tapSide: "ingress", nicSide: "egress"}[e.side])
}

// onlyClsact refuses a NIC that has the queue discipline ingress: it stands where clsact would, the kernel answers
// "exists" to that, and puts a filter for the egress among those of the ingress (net/sched/sch_ingress.c,
// ingress_tcf_block knows one block only). At a tap, where the ingress is meant, that is the right place.
func onlyClsact(d Device, s side) error {
	if s == tapSide {
		return nil
	}
	all, err := netlink.QdiscList(&netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: d.Index, Name: d.Name}})
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("queue disciplines of %s: %w", d.Name, err)
	}
	for _, q := range all {
		if q.Attrs().LinkIndex == d.Index && q.Type() == "ingress" {
			return fmt.Errorf("%s has the queue discipline ingress: expected clsact or none, which filters at the "+
				"egress need; 'tc qdisc del dev %s ingress' takes it off, with its filters", d.Name, d.Name)
		}
	}
	return nil
}

// dropFilters takes the NIC's filters off a device: those of every version or, with spare, all but that of this one.
func (p Program) dropFilters(d Device, s side, spare bool) error {
	all, err := filtersAt(d, s)
	if err != nil {
		return err
	}
	for _, f := range all {
		if b, is := f.(*netlink.BpfFilter); !p.ofNIC(f) || spare && is && b.Name == p.filterName() {
			continue
		}
		if err := netlink.FilterDel(f); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove the filter of %s: %w", d.Name, err)
		}
	}
	return nil
}

// dropOthers takes the taps' filters away from all devices but those that are to have them, and from these those of
// other versions.
func (p Program) dropOthers(keep map[int]bool) error {
	links, err := netlink.LinkList()
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return fmt.Errorf("network devices: %w", err)
	}
	var problems []error
	for _, l := range links {
		d := Device{Name: l.Attrs().Name, Index: l.Attrs().Index}
		problems = append(problems, p.dropFilters(d, tapSide, keep[d.Index]))
	}
	return errors.Join(problems...)
}
