package lanes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Before Linux 6.6 there is no tcx: the programs are direct-action filters of a clsact qdisc (4.5 and later). They need
// no pin. tc shows their names.

func (p Program) filterName() string { return "mpps-" + version + ":" + p.NIC.Name }

// namePrefix is the prefix of filter names of every version, for any NIC.
const namePrefix = "mpps-" + versionPrefix

// ofNIC reports whether a filter is one of the NIC's programs, of any version.
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

// filters returns the NIC's filters of this version at one side of a device.
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

// filtersAt returns all filters at one side of a device: of clsact and, at the ingress, of the ingress qdisc.
func filtersAt(d Device, s side) ([]netlink.Filter, error) {
	if d.Index < 1 { // a NIC that is gone
		return nil, nil
	}
	l := &netlink.GenericLink{LinkAttrs: netlink.LinkAttrs{Index: d.Index, Name: d.Name}}
	all, err := netlink.FilterList(l, s.parent())
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOENT),
		errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil // no such qdisc or device, or no support
	case err != nil:
		return nil, fmt.Errorf("filters of %s: %w", d.Name, err)
	}
	return all, nil
}

// addFilter attaches a program as a filter and adds clsact if it is missing. clsact stays when the filter is removed:
// empty it changes nothing, but whenever it is added or removed the kernel stops the device's transmit queues for a
// moment and drops packets (net/sched/sch_api.c, qdisc_graft calls dev_deactivate for ingress too; measured: some 2,000
// frames of a veth).
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
			Priority: firstPref},
		Fd: program.FD(), Name: p.filterName(), DirectAction: true,
	})
	if err != nil {
		if kind, _ := p.firstOther(d, s); kind != "" {
			return &earlierFilter{device: d.Name, kind: kind, side: s}
		}
		return fmt.Errorf("filter on %s: %w", d.Name, err)
	}
	return nil
}

// firstPref is the preference of the filter that runs first. Of several filters of one kind with the same preference,
// the newest runs first (net/sched/cls_bpf.c, cls_bpf_change); another kind cannot have the same preference.
const firstPref = 1

// firstOther returns the kind of the first filter at one side of a device, or nothing if that is one of the NIC's
// programs. A filter that returns "ok" keeps later ones from running. Filters are listed in the order in which they
// run.
func (p Program) firstOther(d Device, s side) (kind string, err error) {
	all, err := filtersAt(d, s)
	if err != nil || len(all) == 0 || p.ofNIC(all[0]) {
		return "", err
	}
	return all[0].Type(), nil
}

// earlierFilter is the error for another program's filter that runs before those of mpps.
type earlierFilter struct {
	device, kind string
	side         side
}

func (e *earlierFilter) Error() string {
	return fmt.Sprintf("%s has a filter of somebody else's (%s) with pref %d: expected none that runs before the one "+
		"of mpps", e.device, e.kind, firstPref)
}

// Hint returns how to see it.
func (e *earlierFilter) Hint() string {
	return fmt.Sprintf("tc filter show dev %s %s; with a higher pref it runs behind", e.device,
		map[side]string{tapSide: "ingress", nicSide: "egress"}[e.side])
}

// onlyClsact returns an error for a NIC with an ingress qdisc. It occupies the place of clsact: adding clsact fails
// with EEXIST, and an egress filter ends up among the ingress filters (net/sched/sch_ingress.c, ingress_tcf_block has
// only one block). At a tap, whose ingress is used, that is the right place.
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

// dropFilters removes the NIC's filters of every version from a device; with spare it keeps those of this version.
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

// dropOthers removes the taps' filters from all devices but those to keep, and from these the filters of other
// versions.
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
