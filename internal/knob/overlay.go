package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

// overlays are the tunnels that make packets of packets; VLAN devices and bonds pass on what they get.
var overlays = map[string]bool{"vxlan": true, "gretap": true, "ip6gretap": true, "geneve": true}

var overlayQueues = &Knob{
	ID: "overlay.queues", Title: "Overlay devices do not squeeze many queues into one", Stage: datapath.Overlay, Risk: goal.Connectivity, Check: true,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "as many transmit queues as the NIC below, or none locked",
		Why: "A tunnel is a network device with transmit queues of its own, by default one. All CPUs that send through it then take one lock in turn, whatever the NIC below has. " +
			"Devices that say that they are lockless (NETIF_F_LLTX) take no lock; with a queue discipline of their own (fq_codel, pfifo) they do take its lock.",
		Cost:   "The number of queues is fixed when the device is made: to change it the tunnel must be removed and made anew (ip link add … numtxqueues N), which cuts its guests off meanwhile.",
		Verify: "ls /sys/class/net/DEV/queues; tc -s qdisc show dev DEV says noqueue; perf top shows no native_queued_spin_lock_slowpath under __dev_queue_xmit.",
		Traps: []string{
			"Mending the tunnel alone brings little: at 200 kpps it was not the only place where queues became one. With the queue mapping kept too it was about 400 kpps (overlay.queue_mapping).",
			"From Linux 6.12 on the flag is no longer among the features that ethtool -k shows (tx-lockless): vxlan, geneve and GRE without sequence numbers have it all the same.",
			"GRE with sequence numbers (oseq) must number packets in order and keeps its lock.",
			"A GRE tap device gets the kernel's default queue discipline (net.core.default_qdisc), with its lock; VXLAN and GENEVE get none unless somebody gives them one. mpps path --steer takes the default off a tunnel that needs none.",
		},
		Sources: []Source{
			{"no lock for NETIF_F_LLTX and noqueue", "net/core/dev.c, __dev_queue_xmit, HARD_TX_LOCK"},
			{"lockless tunnels", "drivers/net/vxlan/vxlan_core.c, vxlan_setup; drivers/net/geneve.c, geneve_setup; net/ipv4/ip_gre.c, __gre_tunnel_init"},
			{"which tunnels get a discipline", "net/ipv4/ip_gre.c, ipgre_tap_setup (ether_setup); drivers/net/vxlan/vxlan_core.c, vxlan_setup (IFF_NO_QUEUE); net/sched/sch_generic.c, attach_default_qdiscs"},
			{"no longer a feature", "kernel commit 00d066a4d4ed (netdev_features: convert NETIF_F_LLTX to dev->lltx)"},
			{"one queue 140, several 200, mapping kept about 400 kpps", "founding measurements"},
		},
	},
	Where: func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, t := range h.Tunnels {
			if overlays[t.Type] {
				all = append(all, setting.Of(setting.Fact, t.Name, "queues"))
			}
		}
		return all
	},
	Want: func(v *View, a setting.Address) Advice {
		t := v.tunnel(a.Object())
		switch {
		case t == nil:
			return Skips("no such tunnel")
		case !t.Up:
			return Skips(t.Name + " is down")
		}
		need := 0
		for _, name := range v.paths.NICs(t.Name) {
			if n := v.nics[name]; n != nil {
				need = max(need, n.TxQueues)
			}
		}
		has := count(t.TxQueues, "transmit queue")
		switch {
		case t.Lockless:
			return seen(has+", lockless", Fine("it transmits without a lock"))
		case t.TxQueues > 0 && need > 0 && t.TxQueues >= need:
			return seen(has, Fine("it has as many queues as the NIC below"))
		case t.LocklessBy == "":
			return Unsure("whether it transmits without a lock cannot be told here: the live kernel says (mpps audit on the host)")
		case need == 0 && t.TxQueues > 1:
			return Unsure("which NIC it sends through depends on the route to the other end: compare its " + has + " with that NIC's")
		}
		return seen(has+", with a lock", Wants(setting.Exact(fmt.Sprintf("%s, or none locked", count(max(2, need), "transmit queue"))),
			fmt.Sprintf("all CPUs that send through %s take turns at the lock of %s", t.Name, has)).At(High))
	},
}

// tunnel is the tunnel of a name, nil where there is none.
func (v *View) tunnel(name string) *facts.Tunnel {
	for i := range v.Tunnels {
		if v.Tunnels[i].Name == name {
			return &v.Tunnels[i]
		}
	}
	return nil
}

var overlayQueueMapping = &Knob{
	ID: "overlay.queue_mapping", Title: "A packet keeps its queue from the guest to the NIC", Stage: datapath.Overlay, Risk: goal.None, Check: true,
	After: []string{"overlay.queues"}, Tiers: viaKernel(),
	Doc: Doc{
		Want: "kept from the tap to the NIC, or of no account: XPS by CPU, and a CPU for each vhost thread",
		Why: "The guest chose a queue for the flow; its vhost thread writes to that queue of the tap, and the tap notes it in the packet. A device with one queue on the way sets the note to 0, and from there on all packets of all guests may meet in one queue of the NIC. " +
			"Kept end to end, each vhost thread has a NIC queue to itself as far as there are enough.",
		Cost:   "None, where the devices on the way have several queues.",
		Verify: "mpps path shows which queue of the NIC each queue of a guest leaves by, and mpps path --steer keeps them apart. While packets flow, ethtool -S of the NIC counts on as many tx queues as the guest uses.",
		Traps: []string{
			"The note counts from 1, 0 is none: a tunnel with one queue does not keep the number 0, it erases it, and the NIC hashes the packet instead. Packets of one tunnel endpoint then differ only in the outer source port, which VXLAN and GENEVE make from the inner flow and GRE does not have.",
			"XPS on the NIC comes before the note: the CPU that sends decides, which is right where every vhost thread has its own (nic.xps).",
			"Two guests with the same number of queues choose the same numbers: without XPS they meet on the NIC's first queues while the others idle.",
		},
		Sources: []Source{
			{"the tap's note", "drivers/net/tun.c, tun_get_user: skb_record_rx_queue"},
			{"one queue writes 0", "net/core/dev.c, netdev_core_pick_tx: skb_set_queue_mapping"},
			{"XPS, then the note, then the hash", "net/core/dev.c, netdev_pick_tx and skb_tx_hash"},
			{"outer source port", "include/net/udp_tunnel.h, udp_flow_src_port"},
			{"200 to about 400 kpps", "founding measurements"},
		},
	},
	Where: eachGuest(anyGuest, guestFact("queue-mapping")),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.guest(a)
		if !ok {
			return advice
		}
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
			on := v.overlaysBelow(source, map[string]bool{})
			by, sure := v.apart(g, i)
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
		found := "kept"
		switch {
		case len(lost) > 0:
			advice = Wants(setting.Exact("kept"), fmt.Sprintf("%s has one transmit queue, which erases the queue that the tap noted in each packet", strings.Join(lost, ", "))).At(Medium)
			found = "erased at " + strings.Join(lost, ", ")
		case len(asked) > 0:
			return Unsure(asked[0] + "; whether its packets leave there depends on the route: mpps path shows by which queues they do")
		case len(unseen) > 0:
			return Unsure(fmt.Sprintf("packets pass %s, whose encapsulation may choose another queue: the NIC's counters by queue (ethtool -S) under load show it", strings.Join(unseen, ", ")))
		case len(kept) == 0:
			return Skips("it has no NIC with several queues behind a tap")
		case carried != "":
			advice, found = Fine(carried), "carried"
		default:
			advice = Fine("no overlay between its taps and the NIC: the tap's note, or XPS, decides")
		}
		return seen(found, advice)
	},
}

// overlaysBelow are the overlay devices at and below a device: ports of a bridge, and what these send through.
func (v *View) overlaysBelow(device string, seen map[string]bool) []*facts.Tunnel {
	if seen[device] || device == "" {
		return nil
	}
	seen[device] = true
	var all []*facts.Tunnel
	if t := v.tunnel(device); t != nil {
		if overlays[t.Type] {
			all = append(all, t)
		}
		for _, lower := range strings.Split(t.Lower, ",") {
			all = append(all, v.overlaysBelow(lower, seen)...)
		}
	}
	if b := v.bridges[device]; b != nil {
		for _, port := range b.Ports {
			all = append(all, v.overlaysBelow(port, seen)...)
		}
	}
	return all
}
