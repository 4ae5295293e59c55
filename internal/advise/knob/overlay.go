package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// overhead has the tunnel types that encapsulate packets, with the least that each adds to a packet inside, in bytes
// that count for the MTU of the device below: outer IPv4 header without options (20; IPv6 40), UDP (8), the tunnel's
// own header, the inner Ethernet header (14). VLAN devices and bonds pass packets on as they are.
var overhead = map[string]int{"vxlan": 50, "geneve": 50, "gretap": 38, "ip6gretap": 58}

// eachOverlay lists one fact of every device that encapsulates packets.
func eachOverlay(what string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, t := range h.Tunnels {
			if overhead[t.Type] > 0 {
				all = append(all, setting.Of(setting.Fact, t.Name, what))
			}
		}
		return all
	}
}

// forOverlay returns the Want of a knob that advises on a device that encapsulates packets.
func forOverlay(want func(v *View, t *facts.Tunnel) Advice) func(*View, setting.Address) Advice {
	return func(v *View, a setting.Address) Advice {
		t := v.tunnel(a.Object())
		switch {
		case t == nil:
			return Skips("no such tunnel")
		case !t.Up:
			return Skips(t.Name + " is down")
		}
		return want(v, t)
	}
}

var overlayQueues = &Knob{
	ID: "overlay.queues", Title: "Overlay devices do not squeeze many queues into one",
	Stage: datapath.Overlay, Risk: goal.Connectivity, Tiers: viaKernel(), Check: true,
	Where: eachOverlay("queues"),
	Want: forOverlay(func(v *View, t *facts.Tunnel) Advice {
		need := 0
		for _, name := range v.paths.NICs(t.Name) {
			if n := v.nics[name]; n != nil {
				need = max(need, n.TxQueues)
			}
		}
		has := Count(t.TxQueues, "transmit queue")
		switch {
		case t.Lockless:
			return fact(has+", lockless", Fine("it transmits without a lock"))
		case t.TxQueues > 0 && need > 0 && t.TxQueues >= need:
			return fact(has, Fine("it has as many queues as the NIC below"))
		case t.LocklessBy == "":
			return Unsure("whether it transmits without a lock is not known here: the live kernel says (mpps audit " +
				"on the host)")
		case need == 0 && t.TxQueues > 1:
			return Unsure("which NIC it sends through depends on the route to the other end: " +
				"compare its " + has + " with that NIC's")
		case t.LockedBy != "":
			return fact(has+", with a lock", exact("none locked", fmt.Sprintf("all CPUs that send through %s take "+
				"turns at its lock, which it has for %s", t.Name, t.LockedBy)).At(High))
		}
		return fact(has+", with a lock", exact(fmt.Sprintf("%s, or none locked", Count(max(2, need), "transmit "+
			"queue")), fmt.Sprintf("all CPUs that send through %s take turns at the lock of %s", t.Name, has)).At(High))
	}),
}

// byAddresses returns a tunnel over a NIC whose packets have no ports outside, so that RSS knows them by the two hosts'
// addresses alone; "" if there is none.
func (v *View) byAddresses(n *facts.NIC) string {
	t := facts.Find(v.Tunnels, func(t *facts.Tunnel) bool {
		return t.Up && slices.Contains(facts.GRETaps, t.Type) && !t.InUDP &&
			slices.Contains(v.paths.NICs(t.Name), n.Name)
	})
	if t == nil {
		return ""
	}
	return t.Name
}

func (v *View) tunnel(name string) *facts.Tunnel {
	return facts.Find(v.Tunnels, func(t *facts.Tunnel) bool { return t.Name == name })
}

var overlayQueueMapping = &Knob{
	ID: "overlay.queue_mapping", Title: "A packet keeps its queue from the guest to the NIC",
	Stage: datapath.Overlay, Risk: goal.None, After: []string{"overlay.queues"}, Tiers: viaKernel(), Check: true,
	Where: eachGuest(anyGuest, guestFact("queue-mapping")),
	Want: forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		var lost, unseen, kept, asked []string
		carried := ""
		for _, i := range g.Interfaces {
			if !placement.Tapped(i) || i.Queues < 2 {
				continue
			}
			source := i.Source
			if t := v.taps[i.Tap]; t != nil && t.Master != "" {
				source = t.Master
			}
			on := v.overlaysBelow(source)
			by, sure := v.queueKeeper(g, i)
			switch {
			case by != "" && sure:
				kept, carried = append(kept, i.MAC), by
				continue
			case len(on) == 0:
				kept = append(kept, i.MAC)
				continue
			case by != "":
				asked = append(asked, by)
				continue
			}
			for _, t := range on {
				if t.TxQueues == 1 {
					lost = append(lost, t.Name)
				} else {
					unseen = append(unseen, t.Name)
				}
			}
		}
		switch {
		case len(lost) > 0:
			names, severity := strings.Join(lost, ", "), Low
			if v.Goal.PPS > placement.PerQueue {
				severity = Medium
			}
			return fact("erased at "+names, exact("kept", names+" has one transmit queue, which erases the queue "+
				"that the tap noted in each packet").At(severity))
		case len(asked) > 0:
			return Unsure(asked[0] + "; whether its packets leave there depends on the route: mpps path shows by " +
				"which queues they do")
		case len(unseen) > 0:
			return Unsure(fmt.Sprintf("packets pass %s, whose encapsulation may choose another queue: the NIC's "+
				"counters by queue (ethtool -S) under load show it", strings.Join(unseen, ", ")))
		case len(kept) == 0:
			return Skips("it has no NIC with several queues behind a tap")
		case carried != "":
			return fact("carried", Fine(carried))
		}
		return fact("kept", Fine("no overlay between its taps and the NIC: the tap's note, or XPS, decides"))
	}),
}

// overlaysBelow returns the devices that encapsulate packets at and below a device.
func (v *View) overlaysBelow(device string) []*facts.Tunnel {
	var all []*facts.Tunnel
	for _, hop := range v.paths.From(device) {
		if t := v.tunnel(hop.Device); t != nil && overhead[t.Type] > 0 {
			all = append(all, t)
		}
	}
	return all
}

// queueKeeper returns what keeps the queues of a guest's NIC apart whatever the devices on the path do, "" if nothing
// does: a program that carries the queue number, or XPS with a CPU for each vhost thread. sure is false if the outgoing
// NIC is unknown and only some NIC of the host is set up so.
func (v *View) queueKeeper(g *facts.Guest, i facts.Interface) (how string, sure bool) {
	behind := v.paths.Behind(i)
	pinned := v.hasOwnCPUs(g, i)
	var carried, byCPU []string
	for n := range v.NICs {
		nic := &v.NICs[n]
		if len(behind) > 0 && !slices.Contains(behind, nic.Name) {
			continue
		}
		switch {
		case nic.Steered:
			carried = append(carried, nic.Name)
		case pinned && nic.TxQueues > 1 && v.spreadsThreads(nic):
			byCPU = append(byCPU, nic.Name)
		}
	}
	sure = len(behind) > 0 && len(carried)+len(byCPU) == len(behind)
	switch {
	case len(behind) > 0 && !sure:
		return "", false
	case len(carried) > 0:
		return "a program carries it from the tap to " + strings.Join(carried, ", ") + " (mpps path --steer)", sure
	case len(byCPU) > 0:
		return fmt.Sprintf("each of its vhost threads has a dedicated CPU, by which XPS of %s chooses the queue",
			strings.Join(byCPU, ", ")), sure
	}
	return "", false
}

// spreadsThreads reports whether XPS of a NIC gives a queue to each CPU that a vhost thread is pinned to, and no queue
// to more of them than necessary.
func (v *View) spreadsThreads(n *facts.NIC) bool {
	pinned := map[int]bool{}
	for i := range v.Guests {
		for _, t := range v.Guests[i].Threads {
			if cpus := v.threadCPUs(&v.Guests[i], t); t.Role == "vhost" && len(cpus) == 1 {
				pinned[cpus[0]] = true
			}
		}
	}
	_, hits, ok := v.sharesXPS(n, pinned)
	return ok && hits == len(pinned) // each in one queue's mask
}

// threadCPUs returns the CPUs that a vhost thread may use.
func (v *View) threadCPUs(g *facts.Guest, t facts.Thread) setting.CPUSet {
	cpus, known := v.cpusAt(setting.Of(setting.ThreadAffinity, g.Name, "vhost", t.NIC, strconv.Itoa(t.Queue)))
	if known {
		return cpus
	}
	return t.Affinity
}

// hasOwnCPUs reports whether each vhost thread of a guest's NIC is pinned to a dedicated CPU.
func (v *View) hasOwnCPUs(g *facts.Guest, i facts.Interface) bool {
	taken, threads := map[int]bool{}, 0
	for _, t := range g.Threads {
		if t.Role != "vhost" || t.NIC != i.MAC {
			continue
		}
		cpus := v.threadCPUs(g, t)
		if len(cpus) != 1 || taken[cpus[0]] || t.Sure == facts.NotByOrder {
			return false
		}
		taken[cpus[0]], threads = true, threads+1
	}
	return threads > 0 && threads == i.Queues
}
