package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// configuration returns a copy of a host without what changes by itself: times, counters, process and interface
// numbers, free memory, link states, effective CPUs of interrupts, the CPU that a thread last ran on, short-lived
// threads, guest states, and how the snapshot was taken. Guests' host devices, which libvirt renames at each start,
// are named after the guest and its NIC. Reasons and bounds of readings do not count (setting.Reading.Same).
func configuration(h *Host) *Host {
	c := *h
	c.Taken, c.Root, c.AsRoot, c.Unseen, c.Softnet, c.Interval, c.Observed, c.Load = time.Time{}, "", false, nil, nil,
		nil, nil, nil
	c.Unverified, c.Stack = nil, nil
	c.Topology = stableTopology(h.Topology)
	taps := tapNames(h)

	c.NICs = edited(h.NICs, func(n *NIC) {
		n.Index, n.Carrier, n.Speed, n.Stats, n.Management = 0, "", 0, nil, ""
		n.IRQs = edited(n.IRQs, (*IRQ).dropLive)
		if n.Link != nil {
			link := *n.Link
			link.Speed, link.Width = "", 0 // power management changes both
			n.Link = &link
		}
	})
	c.OpenVSwitch = stableOpenVSwitch(h.OpenVSwitch, taps)
	c.VFs = edited(h.VFs, func(v *VF) { v.Traffic, v.Holder = nil, "" })
	c.Passthrough = stablePassthrough(h.Passthrough)
	c.Bridges = edited(h.Bridges, func(b *Bridge) {
		b.Ports = edited(b.Ports, func(port *string) { *port = stableName(taps, *port) })
		slices.Sort(b.Ports)
		b.MAC = "" // that of its lowest port unless set
	})
	c.Taps = edited(h.Taps, func(t *Tap) { t.Name, t.Stats = stableName(taps, t.Name), nil })
	slices.SortStableFunc(c.Taps, func(a, b Tap) int { return strings.Compare(a.Name, b.Name) })
	c.Links = edited(h.Links, func(l *Link) { l.Up, l.DeadEnd, l.Programs = false, false, nil })
	c.Namespaces = nil // another with each start
	c.Pollers = edited(h.Pollers, func(p *Poller) { p.PID = 0 })
	c.Services = edited(h.Services, func(s *Service) { s.PID = 0 })
	c.Storage = edited(h.Storage, func(s *Storage) { s.Memory = 0 })
	c.Guests = edited(h.Guests, func(g *Guest) { g.stabilize(taps) })
	c.Housekeeping = stableHousekeeping(h.Housekeeping)
	c.Isolation = stableIsolation(h.Isolation)
	c.Readings = make(Readings, len(h.Readings))
	for a, r := range h.Readings {
		a.Path = stablePath(taps, a.Path)
		r.Why, r.Verbatim, r.Min, r.Max, r.ReadOnly = "", "", nil, nil, false
		c.Readings[a] = r
	}
	return &c
}

// edited returns a copy of a list with an edit of each element.
func edited[T any](list []T, edit func(*T)) []T {
	list = slices.Clone(list)
	for i := range list {
		edit(&list[i])
	}
	return list
}

func (i *IRQ) dropLive() { i.Count, i.Effective = 0, nil }

func stableTopology(t Topology) Topology {
	total := func(p *Hugepages) { p.Free, p.Reserved, p.Surplus = 0, 0, 0 }
	t.Hugepages = edited(t.Hugepages, total)
	t.Nodes = edited(t.Nodes, func(n *Node) { n.Free, n.Available, n.Hugepages = 0, 0, edited(n.Hugepages, total) })
	return t
}

func (g *Guest) stabilize(taps map[string]string) {
	g.State, g.PID, g.Resident, g.Job, g.Inside = "", 0, 0, "", nil
	g.Functions, g.Namespace = nil, 0
	g.Interfaces = edited(g.Interfaces, func(i *Interface) {
		if i.Type == "network" {
			i.Function = "" // another one with each start
		}
		i.Tap, i.TapNamespace = stableName(taps, i.Tap), 0
	})
	g.Plugged = edited(g.Plugged, func(i *Interface) {
		i.Tap, i.TapNamespace = stableName(taps, i.Tap), 0
	})
	var threads []Thread
	for _, t := range g.Threads {
		if t.Role != "worker" {
			t.TID, t.Comm, t.CPU, t.RunNS = 0, "", 0, 0
			if t.Sure == ByTraffic {
				t.Sure = ByOrder // whether there was traffic is no difference
			}
			threads = append(threads, t)
		}
	}
	slices.SortStableFunc(threads, func(a, b Thread) int { return strings.Compare(threadKey(a), threadKey(b)) })
	g.Threads = threads
}

func threadKey(t Thread) string {
	if t.NIC != "" {
		return fmt.Sprintf("%s %s %04d", t.Role, t.NIC, t.Queue)
	}
	return fmt.Sprintf("%s %04d", t.Role, t.Index)
}

// tapNames maps guests' host devices to the names used for comparison.
func tapNames(h *Host) map[string]string {
	names := map[string]string{}
	for _, g := range h.Guests {
		for _, nic := range g.NICs() {
			if nic.Tap != "" {
				names[nic.Tap] = "tap of " + g.Name + " " + nic.MAC
			}
		}
	}
	return names
}

func stableName(names map[string]string, name string) string {
	if other, found := names[name]; found {
		return other
	}
	return name
}

// stablePath replaces device names in an address's path.
func stablePath(names map[string]string, path string) string {
	if len(names) == 0 {
		return path
	}
	elements := edited(strings.Split(path, "/"), func(e *string) { *e = stableName(names, *e) })
	return strings.Join(elements, "/")
}

// dropLive removes what only a running guest has if the guest runs on only one of the two hosts: its threads, its taps
// and their bridge ports. (Whether a guest runs is not configuration.)
func dropLive(a, b *Host) {
	for i := range a.Guests {
		j := slices.IndexFunc(b.Guests, func(g Guest) bool { return g.Name == a.Guests[i].Name })
		if j < 0 || (len(a.Guests[i].Threads) > 0) == (len(b.Guests[j].Threads) > 0) {
			continue
		}
		prefix := "tap of " + a.Guests[i].Name + " "
		for _, side := range []struct {
			host  *Host
			guest *Guest
		}{{a, &a.Guests[i]}, {b, &b.Guests[j]}} {
			side.guest.Threads, side.guest.Pending = nil, nil
			for k := range side.guest.Interfaces {
				side.guest.Interfaces[k].Tap = ""
			}
			side.host.Taps = slices.DeleteFunc(side.host.Taps,
				func(t Tap) bool { return strings.HasPrefix(t.Name, prefix) })
			for k := range side.host.Bridges {
				side.host.Bridges[k].Ports = slices.DeleteFunc(side.host.Bridges[k].Ports,
					func(port string) bool { return strings.HasPrefix(port, prefix) })
			}
			maps.DeleteFunc(side.host.Readings, func(address setting.Address, _ setting.Reading) bool {
				live := address.Kind == setting.ThreadAffinity || address.Kind == setting.DomainLive ||
					address.Kind == setting.DomainDevice
				return live && address.Object() == side.guest.Name || strings.Contains(address.Path, prefix)
			})
		}
	}
}
