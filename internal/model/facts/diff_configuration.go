package facts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mpps/internal/model/setting"
)

// configuration is a copy of a host without what changes by itself: times, counters, process and interface numbers,
// free memory, link states, interrupts' effective CPUs, the CPU that a thread ran on last, threads that come and go,
// the state of guests and how the look was taken. Host devices of guests, which libvirt names again at each start, are
// called after the guest and its NIC; reasons and bounds of readings do not count (setting.Reading.Same).
func configuration(h *Host) *Host {
	c := *h
	c.Taken, c.Root, c.AsRoot, c.Unseen, c.Softnet, c.Interval, c.Observed, c.Load = time.Time{}, "", false, nil, nil,
		nil, nil, nil
	c.Topology = stillTopology(h.Topology)
	taps := tapNames(h)

	c.NICs = slices.Clone(h.NICs)
	for i := range c.NICs {
		n := &c.NICs[i]
		n.Index, n.Carrier, n.Speed, n.Stats, n.Management = 0, "", 0, nil, ""
		n.IRQs = slices.Clone(n.IRQs)
		for j := range n.IRQs {
			n.IRQs[j].Count, n.IRQs[j].Effective = 0, nil
		}
		if n.Link != nil {
			link := *n.Link
			link.Speed, link.Width = "", 0 // power management changes both
			n.Link = &link
		}
	}
	c.VFs = slices.Clone(h.VFs)
	for i := range c.VFs {
		c.VFs[i].Traffic, c.VFs[i].Holder = nil, ""
	}
	c.Passthrough = stillPassthrough(h.Passthrough)
	c.Bridges = slices.Clone(h.Bridges)
	for i := range c.Bridges {
		ports := slices.Clone(c.Bridges[i].Ports)
		for j, port := range ports {
			ports[j] = renamed(taps, port)
		}
		slices.Sort(ports)
		c.Bridges[i].Ports = ports
		c.Bridges[i].MAC = "" // that of its lowest port unless set
	}
	c.Taps = slices.Clone(h.Taps)
	for i := range c.Taps {
		c.Taps[i].Name, c.Taps[i].Stats = renamed(taps, c.Taps[i].Name), nil
	}
	slices.SortStableFunc(c.Taps, func(a, b Tap) int { return strings.Compare(a.Name, b.Name) })
	c.Services = slices.Clone(h.Services)
	for i := range c.Services {
		c.Services[i].PID = 0
	}
	c.Storage = slices.Clone(h.Storage)
	for i := range c.Storage {
		c.Storage[i].Memory = 0
	}
	c.Guests = slices.Clone(h.Guests)
	for i := range c.Guests {
		c.Guests[i] = stillGuest(c.Guests[i], taps)
	}
	c.Housekeeping = stillHousekeeping(h.Housekeeping)
	c.Isolation = stillIsolation(h.Isolation)
	c.Readings = make(Readings, len(h.Readings))
	for a, r := range h.Readings {
		a.Path = renamedPath(taps, a.Path)
		r.Why, r.Verbatim, r.Min, r.Max, r.ReadOnly = "", "", nil, nil, false
		c.Readings[a] = r
	}
	return &c
}

func stillTopology(t Topology) Topology {
	pools := func(list []Hugepages) []Hugepages {
		list = slices.Clone(list)
		for i := range list {
			list[i].Free, list[i].Reserved, list[i].Surplus = 0, 0, 0
		}
		return list
	}
	t.Hugepages = pools(t.Hugepages)
	t.Nodes = slices.Clone(t.Nodes)
	for i := range t.Nodes {
		t.Nodes[i].Free, t.Nodes[i].Available, t.Nodes[i].Hugepages = 0, 0, pools(t.Nodes[i].Hugepages)
	}
	return t
}

func stillGuest(g Guest, taps map[string]string) Guest {
	g.State, g.PID, g.Resident, g.Job, g.Inside = "", 0, 0, "", nil
	g.Functions = nil
	g.Interfaces = slices.Clone(g.Interfaces)
	for i := range g.Interfaces {
		if g.Interfaces[i].Type == "network" {
			g.Interfaces[i].Function = "" // another one with each start
		}
		g.Interfaces[i].Tap = renamed(taps, g.Interfaces[i].Tap)
	}
	g.Plugged = slices.Clone(g.Plugged)
	for i := range g.Plugged {
		g.Plugged[i].Tap = renamed(taps, g.Plugged[i].Tap)
	}
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
	return g
}

func threadKey(t Thread) string {
	if t.NIC != "" {
		return fmt.Sprintf("%s %s %04d", t.Role, t.NIC, t.Queue)
	}
	return fmt.Sprintf("%s %04d", t.Role, t.Index)
}

// tapNames is how the host devices of guests are called for comparison.
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

func renamed(names map[string]string, name string) string {
	if other, found := names[name]; found {
		return other
	}
	return name
}

// renamedPath renames the elements of an address's path.
func renamedPath(names map[string]string, path string) string {
	if len(names) == 0 {
		return path
	}
	elements := strings.Split(path, "/")
	for i, element := range elements {
		elements[i] = renamed(names, element)
	}
	return strings.Join(elements, "/")
}

// trim takes out of two configurations what only a running guest has where the guest runs in only one of them: its
// threads, taps and the bridge ports of these. (Whether a guest runs is not configuration.)
func trim(a, b *Host) {
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
