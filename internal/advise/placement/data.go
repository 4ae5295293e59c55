package placement

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
)

// asideNICs returns, by MAC, why NICs of a guest carry none of the target: others are named as data NICs, carried a
// hundred times the packets while watching, or leave by a NIC that is not the operator's way in; or the target is for a
// virtual function, which the guest has. A guest has at least one data NIC; without any evidence all are.
func asideNICs(h *facts.Host, guest *facts.Guest, paths *reach.Map, g goal.Goal) map[string]string {
	aside := map[string]string{}
	var nics []facts.Interface
	for _, i := range guest.NICs() {
		if Tapped(i) {
			nics = append(nics, i)
		}
	}
	functions := len(h.FunctionsOf(guest)) > 0
	if len(nics) < 2 && !functions {
		return aside
	}
	if functions && g.Tier() == goal.Passthrough {
		for _, i := range nics {
			aside[i.MAC] = "a virtual function carries the target"
		}
		return aside
	}
	for _, why := range []func(facts.Interface) string{
		notNamed(nics, g), hardlyUsed(h, guest, nics),
		func(i facts.Interface) string { return byManagement(h, paths, i) },
	} {
		for _, i := range nics {
			if text := why(i); text != "" {
				aside[i.MAC] = text
			}
		}
		if len(aside) == len(nics) && !functions {
			clear(aside)
		}
		if len(aside) > 0 {
			break
		}
	}
	return aside
}

// notNamed returns a function with the reason to skip a NIC: others of its guest are named as data NICs. It returns ""
// if the NIC is named, or none is.
func notNamed(nics []facts.Interface, g goal.Goal) func(facts.Interface) string {
	named := func(i facts.Interface) bool {
		return slices.ContainsFunc(i.Names(), func(name string) bool {
			return slices.ContainsFunc(g.DataNICs, func(n string) bool { return strings.EqualFold(n, name) })
		})
	}
	some := len(g.DataNICs) > 0 && slices.ContainsFunc(nics, named)
	return func(i facts.Interface) string {
		if !some || named(i) {
			return ""
		}
		return "--data-nic names others"
	}
}

// hardlyUsed says of a NIC that it carried less than a hundredth of the packets of its guest's busiest one while
// watching; "" if it did not, or if that one carried fewer than 1000 packets per second.
func hardlyUsed(h *facts.Host, guest *facts.Guest, nics []facts.Interface) func(facts.Interface) string {
	packets := func(i facts.Interface) float64 {
		rx, _ := h.Interval.Counter(guest.TapHere(&i), "rx_packets")
		tx, _ := h.Interval.Counter(guest.TapHere(&i), "tx_packets")
		return float64(rx+tx) / h.Interval.Seconds
	}
	most := 0.0
	if h.Interval != nil && h.Interval.Seconds > 0 {
		for _, i := range nics {
			most = max(most, packets(i))
		}
	}
	return func(i facts.Interface) string {
		if i.Tap == "" || most < 1000 {
			return ""
		}
		if own := packets(i); own < most/100 {
			return fmt.Sprintf("it carried %.0f packets per second while watching, the busiest %.0f", own, most)
		}
		return ""
	}
}

// byManagement says that a NIC's packets leave by the operator's way in; "" if they do not, or if that is not known.
func byManagement(h *facts.Host, paths *reach.Map, i facts.Interface) string {
	behind := paths.Behind(i)
	for _, name := range behind {
		n := facts.Find(h.NICs, func(n *facts.NIC) bool { return n.Name == name })
		if n == nil || n.Management == "" {
			return ""
		}
	}
	if len(behind) == 0 {
		return ""
	}
	return fmt.Sprintf("its packets leave by %s, the operator's way in", strings.Join(behind, ", "))
}

// Aside says why a guest's NIC carries none of the target; "" if it may.
func (a *Ask) Aside(guest, mac string) string {
	for _, n := range a.guestNamed(guest).NICs {
		if n.MAC == mac {
			return n.Aside
		}
	}
	return ""
}
