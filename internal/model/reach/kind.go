package reach

import (
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// Kind names what packets pass on a path that decides how, and whether, mpps judges it.
type Kind string

// Hops is what mpps knows of one kind: how to recognise it, what it is judged by, and what diagnose names there. The
// Linux bridge is one like any other. docs/adding.md describes how to add one.
type Hops struct {
	Kind  Kind
	Words string // in a sentence: "Open vSwitch"
	What  string // of docs/hosts.md: which devices and programs
	// mpps has rules for it. Otherwise nothing that serves such a path is judged or planned.
	Judged bool
	But    string // what the rules are restricted to, for docs/hosts.md: "not for guests that matter"
	Kernel bool   // packets pass the host's network layers, or may

	// Interfaces are types of a guest's NIC, in libvirt's and QEMU's words, that have such a path whatever devices the
	// host has; Devices are kinds of devices (IFLA_INFO_KIND) that no packet passes without taking it.
	Interfaces, Devices []string

	// Needs are the facts that a snapshot must have so that it is recognised and judged, by their names in JSON.
	Needs []string
	// Present reports, from the inventory alone, whether a host can have it; nil: every host. Where it cannot, its own
	// knobs have no addresses and its counters are not read.
	Present func(h *facts.Host) bool
	// Knobs are the IDs of what it is judged by, beyond NICs, vhost and guests, which most paths have.
	Knobs []string
	// Counters of the host's network layer that these knobs, or diagnose, decide by.
	Counters []Counter
	// Bottlenecks are the kinds that only diagnose of such a path names.
	Bottlenecks []string
}

// Counter is a counter of the kernel's network layer in a file below /proc/net, or of Datapaths.
type Counter struct {
	File string // snmp, netstat, stat/arp_cache …, or Datapaths
	Name string // in it; in snmp and netstat with its group: TcpExt.IPReversePathFilter
}

// Datapaths stands for a file of counters: those of the kernel's datapaths of Open vSwitch, which are asked for over
// generic netlink.
const Datapaths = "openvswitch"

// Key returns the name of a counter in facts.Host.Stack and facts.StackLoad. Tables of /proc/net/stat have the file's
// name before the column's: arp_cache.table_fulls.
func (c Counter) Key() string {
	if table, found := strings.CutPrefix(c.File, "stat/"); found {
		return table + "." + c.Name
	}
	if c.File == Datapaths {
		return c.File + "." + c.Name
	}
	return c.Name
}

// kinds has every kind, in the order of docs/hosts.md.
var kinds = []*Hops{bridged, macvtap, function, inner, userMode, routed, openVSwitch, vhostUser, polledUnseen,
	vdpa, otherNamespace, unresolved}

// All lists the kinds, in the order of docs/hosts.md.
func All() []*Hops { return slices.Clone(kinds) }

// About returns what is known of a kind; of one that is not listed, that it is not judged.
func About(k Kind) *Hops {
	if i := slices.IndexFunc(kinds, func(d *Hops) bool { return d.Kind == k }); i >= 0 {
		return kinds[i]
	}
	return &Hops{Kind: k, Words: string(k), Kernel: true}
}

// ofInterface returns the kind that a guest's NIC of a type has whatever the host's devices are; empty if those decide.
func ofInterface(kind string) Kind {
	for _, k := range kinds {
		if slices.Contains(k.Interfaces, kind) {
			return k.Kind
		}
	}
	return ""
}

// ofDevice returns the kind that every path through a device of a kind has; empty if there is none.
func ofDevice(kind string) Kind {
	for _, k := range kinds {
		if slices.Contains(k.Devices, kind) {
			return k.Kind
		}
	}
	return ""
}

// Judged reports whether mpps has rules for paths of a kind.
func (k Kind) Judged() bool { return About(k).Judged }

// Kernel reports whether packets on paths of a kind pass the host's network layers, or may.
func (k Kind) Kernel() bool { return About(k).Kernel }

// Present reports whether a host can have paths of a kind.
func (k Kind) Present(h *facts.Host) bool {
	present := About(k).Present
	return present == nil || present(h)
}

// Counters returns the counters that the kinds of a host declare, each once.
func Counters(h *facts.Host) []Counter {
	var all []Counter
	for _, k := range kinds {
		if len(k.Counters) == 0 || !k.Kind.Present(h) {
			continue
		}
		for _, c := range k.Counters {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}
