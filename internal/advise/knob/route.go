package knob

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
)

// routedPaths returns the paths of running guests that the host routes.
func routedPaths(m *reach.Map) []reach.Path {
	return facts.Where(m.Paths, func(p reach.Path) bool { return p.Active && p.Has(reach.Routed) })
}

// routes reports whether the host routes guests' packets that arrive at a NIC, or leave by it.
func (v *View) routes(nic string) bool {
	return slices.ContainsFunc(routedPaths(v.paths), func(p reach.Path) bool { return slices.Contains(p.NICs, nic) })
}

// routedDevices returns the devices by which guests' packets enter and leave the host's network layer, sorted.
func routedDevices(h *facts.Host) []string {
	var all []string
	for _, p := range routedPaths(reach.Of(h)) {
		at := slices.IndexFunc(p.Hops, func(hop reach.Hop) bool {
			return hop.Kind == reach.Routing && hop.Namespace == 0
		})
		if at < 0 {
			continue
		}
		all = append(all, h.Routing.Uplinks...)
		if at == 1 { // a tap with a host route
			all = append(all, p.Hops[0].Here())
		}
		for _, hop := range p.Hops[:at] {
			if slices.Contains(h.Routing.Addressed, hop.Here()) {
				all = append(all, hop.Device)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// deviceSysctl returns the address of an IPv4 parameter of a device, whose name may have dots.
func deviceSysctl(device, name string) setting.Address {
	return setting.Of(setting.Sysctl, "net.ipv4.conf."+strings.ReplaceAll(device, ".", "/")+"."+name)
}

func eachRoutedDevice(name string) func(*facts.Host) []setting.Address {
	return onPaths(reach.Routed, func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, device := range routedDevices(h) {
			if len(all) < maxAddresses {
				all = append(all, deviceSysctl(device, name))
			}
		}
		return all
	})
}

// forRouted returns the Want of a knob that has an opinion only where the host routes packets of running guests.
func forRouted(want func(v *View, a setting.Address) Advice) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		if len(routedPaths(v.paths)) == 0 {
			return v.unrouted()
		}
		return want(v, a)
	}
}

// unrouted is the advice of what matters to routing where no guest's path ends in it. A bridge that reaches the wire
// and has an address of the host may be its guests' gateway all the same, as with EVPN's.
func (v *View) unrouted() Advice {
	if gateways := v.gateways(); len(gateways) > 0 {
		return Unsure(fmt.Sprintf("the host forwards and has an address on %s: whether it is a gateway of guests "+
			"there was not recorded", strings.Join(gateways, ", ")))
	}
	if why := v.paths.Unsure(); why != "" {
		return Unsure("not known whether the host routes guests' packets: " + why)
	}
	return Skips("the host routes no guest's packets")
}

// gateways returns the bridges of running guests, and VLANs on them, on which a host that forwards has an address and
// no default route, sorted.
func (v *View) gateways() []string {
	var all []string
	if v.Routing == nil || v.Routing.Forward != facts.Yes {
		return nil
	}
	add := func(device string) {
		if slices.Contains(v.Routing.Addressed, device) && !slices.Contains(v.Routing.Uplinks, device) {
			all = append(all, device)
		}
	}
	for _, p := range v.paths.Paths {
		for _, hop := range p.Hops {
			if !p.Active || hop.Kind != "bridge" || hop.Here() == "" {
				continue
			}
			add(hop.Device)
			for _, t := range v.Tunnels {
				if t.Type == "vlan" && t.Lower == hop.Device {
					add(t.Name)
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var routeForwarding = &Knob{
	ID: "route.forwarding", Title: "Devices between guests and uplinks forward",
	Stage: datapath.Routing, Risk: goal.Security, Tiers: viaKernel(),
	Where: eachRoutedDevice("forwarding"),
	Want: forRouted(func(v *View, a setting.Address) Advice {
		return exact("1", "the host drops what guests send, or what is for them, where it arrives at "+a.Device()).
			At(Critical).warn(a.Device() + " then forwards for whoever is behind it: its rules decide for whom")
	}),
}

// rpFilterAll is the least that the reverse path filter of every device is (Documentation/networking/ip-sysctl.rst).
var rpFilterAll = setting.Of(setting.Sysctl, "net.ipv4.conf.all.rp_filter")

// strictRPFilter is the value with which a source must be reached by the device that the packet came from; with 2, by
// any device.
const strictRPFilter = 1

var routeRPFilter = &Knob{
	ID: "route.rp_filter", Title: "The reverse path filter drops no guests' packets",
	Stage: datapath.Routing, Risk: goal.Security, Tiers: viaKernel(),
	Where: func(h *facts.Host) []setting.Address {
		devices := eachRoutedDevice("rp_filter")(h)
		if len(devices) == 0 {
			return nil
		}
		return append([]setting.Address{rpFilterAll}, devices...)
	},
	Want: forRouted(func(v *View, a setting.Address) Advice {
		if a == rpFilterAll {
			return Fine("what counts is the larger of this and the device's own value")
		}
		own, known := number(v.Readings.At(a))
		all, knownAll := number(v.Readings.At(rpFilterAll))
		if !known || !knownAll {
			return Unsure("the larger of this and " + rpFilterAll.Path + " counts, and one of them was not read")
		}
		if max(own, all) != strictRPFilter {
			return Fine("packets are not refused for the device that they came from")
		}
		if advice, needed := v.noInterval(); needed {
			return advice
		}
		lost := v.Interval.Stack["TcpExt.IPReversePathFilter"]
		if lost == 0 {
			return Fine("it refused nothing " + v.overInterval())
		}
		return exact("2", fmt.Sprintf("the filter refused %d packets %s: their source is reached by another device",
			lost, v.overInterval())).At(lossSeverity(lost, v.Interval.Processed())).
			warn("packets with a source that is reached by another device are taken: rules must refuse forged ones")
	}),
}

// neighbourTables has the parameters of the tables of neighbours and their names in facts.Host.Stack. The tables are
// one for all network namespaces, and so are their thresholds (net/core/neighbour.c, neigh_sysctl_register).
var neighbourTables = []struct{ prefix, table string }{
	{"net.ipv4.neigh.default.", "arp_cache"}, {"net.ipv6.neigh.default.", "ndisc_cache"},
}

// maxNeighbours bounds the tables of neighbours: an entry takes some 400 bytes.
const maxNeighbours = 1 << 20

var routeNeighbours = &Knob{
	ID: "route.neighbours", Title: "The tables of neighbours have room",
	Stage: datapath.Routing, Risk: goal.None, Tiers: viaKernel(), Most: maxNeighbours,
	Where: onPaths(reach.Routed, func(*facts.Host) []setting.Address {
		var all []setting.Address
		for _, t := range neighbourTables {
			for _, name := range []string{"gc_thresh3", "gc_thresh2"} {
				all = append(all, setting.Of(setting.Sysctl, t.prefix+name))
			}
		}
		return all
	}),
	Want: forRouted(func(v *View, a setting.Address) Advice {
		for _, t := range neighbourTables {
			if name, found := strings.CutPrefix(a.Path, t.prefix); found {
				return v.neighbours(a, t.prefix+"gc_thresh3", t.table, name == "gc_thresh2")
			}
		}
		return NoOpinion()
	}),
}

// neighbours judges a threshold of a table of neighbours: gc_thresh3, which it cannot outgrow, or gc_thresh2, from
// which on entries older than 5 s are thrown out when one is added (net/core/neighbour.c, neigh_alloc).
func (v *View) neighbours(a setting.Address, most, table string, soft bool) Advice {
	entries, recorded := v.Stack[table+".entries"]
	limit, known := number(v.Readings.At(setting.Of(setting.Sysctl, most)))
	now, knownNow := number(v.Readings.At(a))
	if !recorded || !known || !knownNow {
		return Unsure("how many neighbours there are, or may be, was not read")
	}
	var full uint64
	if v.Interval != nil {
		full = v.Interval.Stack[table+".table_fulls"]
	}
	if full == 0 && float64(entries) < 0.8*float64(limit) {
		if v.Interval != nil && soft && int64(entries) > now {
			return v.collected(entries, now, limit, v.Interval.Stack[table+".forced_gc_runs"])
		}
		return Fine(fmt.Sprintf("%d of %d entries are in use", entries, limit))
	}
	want := min(4*max(limit, int64(min(entries, maxNeighbours))), maxNeighbours)
	if soft {
		want /= 2
	}
	if now >= want {
		return Fine(fmt.Sprintf("%d is as far as mpps raises it", now))
	}
	because := fmt.Sprintf("%d of %d entries are in use", entries, limit)
	severity := Medium
	if full > 0 {
		because += fmt.Sprintf(", and %d packets found no room %s", full, v.overInterval())
		severity = High
	}
	return Wants(setting.Least(want), because+": packets to new neighbours are dropped").At(severity)
}

// collected judges gc_thresh2 of a table that has outgrown it and is far from full, by how often the kernel went
// through all entries to throw some out.
func (v *View) collected(entries uint64, now, limit int64, runs uint64) Advice {
	if runs == 0 {
		return Fine(fmt.Sprintf("%d of %d entries are in use, and none was thrown out %s", entries, limit,
			v.overInterval()))
	}
	because := fmt.Sprintf("%d entries are in use: beyond %d the kernel goes through them and throws some out, %d "+
		"times %s, and the next packet to each of those waits for an answer", entries, now, runs, v.overInterval())
	return Wants(setting.Least(min(2*int64(entries), limit)), because).At(Medium)
}
