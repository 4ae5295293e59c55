package link

import (
	"fmt"

	"golang.org/x/sys/unix"

	"mpps/internal/machine/tree"
	"mpps/internal/model/facts"
)

// mostLinks bounds the list of other devices: a node of a cluster has a veth for each pod, at most some thousands.
const mostLinks = 16384

// links reads the devices that are listed nowhere else, except loopback devices.
func links(h *facts.Host, devices []Device, names map[int]string, u *underlays) []facts.Link {
	listed := map[string]bool{}
	for _, n := range h.NICs {
		listed[n.Name] = true
	}
	for _, b := range h.Bridges {
		listed[b.Name] = true
	}
	for _, t := range h.Tunnels {
		listed[t.Name] = true
	}
	for _, t := range h.Taps {
		listed[t.Name] = true
	}
	var all []facts.Link
	left := 0
	for _, d := range devices {
		switch {
		case listed[d.Name] || d.flags&unix.IFF_LOOPBACK != 0:
		case len(all) == mostLinks:
			left++
		default:
			all = append(all, facts.Link{
				Name: d.Name, Kind: d.Kind, Master: names[d.master], Lower: names[d.lower], Peer: names[d.peer],
				Up: d.Up, Elsewhere: d.elsewhere, Underlay: u.of(d), External: d.tunnel.external,
			})
		}
	}
	if left > 0 {
		tree.Note(h, facts.Unseen{What: fmt.Sprintf("%d network devices", left),
			Why: fmt.Sprintf("only %d are listed besides NICs, bridges, taps and tunnels", mostLinks)})
	}
	return all
}
