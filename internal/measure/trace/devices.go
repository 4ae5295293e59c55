package trace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mpps/internal/advise/queuepath"
	"mpps/internal/model/facts"
)

// inventory is what is known of the devices of a namespace.
type inventory struct {
	ns      namespace
	host    *facts.Host // nil: only what the namespace itself shows
	devices map[int]queuepath.Device
	loops   map[int]bool
	tunnels map[uint16]inside // by UDP port
	xdp     map[string]bool   // names of devices with an XDP program
	marks   map[int]uint64    // requeues of each device's root qdisc when it was first seen
}

func newInventory(ns namespace, h *facts.Host) *inventory {
	return &inventory{ns: ns, host: h, devices: map[int]queuepath.Device{}, loops: map[int]bool{},
		tunnels: maps.Clone(standardTunnels), xdp: map[string]bool{}, marks: map[int]uint64{}}
}

// refresh reads the devices again. A device that is gone stays known, because rows may name it.
func (v *inventory) refresh() error {
	return v.ns.do(func() error {
		all, err := links()
		if err != nil {
			return err
		}
		counts, err := requeues()
		if err != nil {
			return err
		}
		tunnels, err := fouPorts()
		if err != nil {
			return err
		}
		names := map[int]string{}
		for _, l := range all {
			names[l.index] = l.name
		}
		for _, l := range all {
			tunnels = append(tunnels, l.tunnel)
			if l.lo {
				v.loops[l.index] = true
				continue
			}
			v.devices[l.index] = v.device(l, names, all)
			if l.xdp {
				v.xdp[l.name] = true
			}
			if _, seen := v.marks[l.index]; !seen {
				v.marks[l.index] = uint64(counts[l.index])
			}
		}
		for _, t := range tunnels {
			if t.port != 0 && t.in != 0 {
				v.tunnels[t.port] = t.in
			}
		}
		return nil
	})
}

// device combines what is known of one device.
func (v *inventory) device(l netdev, names map[int]string, all []netdev) queuepath.Device {
	q := readQueues(l.name)
	d := queuepath.Device{
		Name: l.name, Index: l.index, Kind: l.kind, TxQueues: cmp.Or(q.tx, l.tx), RxQueues: cmp.Or(q.rx, l.rx),
		Node: q.node, Qdisc: l.qdisc, XPS: q.xps, Master: names[l.master],
	}
	switch {
	case l.kind == "tun" && l.mode == "tun":
	case l.kind == "tun":
		d.Kind = "tap"
	case l.kind == "" || q.hardware:
		d.Kind = "nic"
	}
	if lower := names[l.lower]; lower != "" {
		d.Lower = []string{lower}
	}
	if l.kind == "bond" || l.kind == "team" {
		for _, port := range all {
			if port.master == l.index {
				d.Lower = append(d.Lower, port.name)
			}
		}
	}
	if v.host == nil || v.ns.name != "" {
		return d
	}
	for _, t := range v.host.Taps {
		if t.Name == l.name {
			d.Kind, d.Guest = t.Type, t.Guest
		}
	}
	for _, t := range v.host.Tunnels {
		if t.Name == l.name {
			d.Lockless = t.Lockless
		}
	}
	return d
}

// receiving are the kinds of devices, other than those with a wire or a guest behind them, that pass packets to the
// stack themselves, so that packets with their index as skb_iif are seen there. Bonds, VLANs and the like only relabel
// packets of another device.
var receiving = []string{"bridge", "tun", "vxlan", "geneve", "gretap", "ip6gretap", "gre", "ip6gre", "ipip", "sit",
	"ip6tnl"}

// flags returns the device's flags for the program (bpf/watch.bpf.c).
func flags(d *queuepath.Device) uint32 {
	const terminal, manyRx, manyTx, receives, givesBack = 1, 2, 4, 16, 32
	var f uint32
	if d.Terminal() {
		f |= terminal | receives
	}
	if slices.Contains(receiving, d.Kind) {
		f |= receives
	}
	if d.Kind == "ifb" {
		f |= givesBack
	}
	if d.RxQueues > 1 {
		f |= manyRx
	}
	if d.TxQueues > 1 {
		f |= manyTx
	}
	return f
}

const flagSkip = 8

// requeued returns how much the qdiscs of each device requeued since the device was first seen. A counter that was
// reset counts from 0.
func (v *inventory) requeued() ([]queuepath.Requeues, error) {
	var list []queuepath.Requeues
	err := v.ns.do(func() error {
		now, err := requeues()
		if err != nil {
			return err
		}
		for index, d := range v.devices {
			n, has := now[index]
			if !has {
				continue
			}
			count := uint64(n)
			if mark := v.marks[index]; count >= mark {
				count -= mark
			}
			if count > 0 {
				list = append(list, queuepath.Requeues{Device: d.Name, Count: count})
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("requeues: %w", err)
	}
	slices.SortFunc(list, func(a, b queuepath.Requeues) int { return cmp.Compare(a.Device, b.Device) })
	return list, nil
}

// bypassing returns what bypasses the tracepoints on this host and so was not counted.
func (v *inventory) bypassing() []queuepath.Unseen {
	var all []queuepath.Unseen
	if len(v.xdp) > 0 {
		all = append(all, queuepath.Unseen{
			What: "packets that XDP programs take or forward: on " + strings.Join(slices.Sorted(maps.Keys(v.xdp)),
				", "), Why: "they never become socket buffers",
		})
	}
	if v.host == nil || v.ns.name != "" {
		return all
	}
	var guests []string
	for _, g := range v.host.Guests {
		if g.Active() && len(g.Functions) > 0 {
			guests = append(guests, g.Name)
		}
	}
	if len(guests) > 0 {
		all = append(all, queuepath.Unseen{
			What: "packets of functions that guests have as their own: of " + strings.Join(guests, ", "),
			Why:  "they go between NIC and guest without the host's kernel",
		})
	}
	return all
}
