package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// checkUse refuses another number of VFs of a PF while they are in use, since changing it removes all of them. Guests
// that are only defined with a function that would no longer exist are noted; if it is reserved for them that is
// refused too, unless force is set.
func checkUse(h *facts.Host, n *facts.NIC, count int, force bool) ([]Note, error) {
	if n.SRIOV.Enabled == count {
		return nil, nil
	}
	var used, doubtful, notes = []string{}, []string{}, []Note{}
	for _, v := range h.VFs {
		if v.PF != n.Name {
			continue
		}
		name := fmt.Sprintf("function %d (%s)", v.Index, v.PCI)
		for g := range facts.Each(h.Guests) {
			if !slices.Contains(g.Hostdevs, v.PCI) || v.PCI == "" {
				continue
			}
			switch {
			case g.Active():
				used = append(used, name+" by guest "+g.Name)
			case v.Index >= count:
				notes = append(notes, Note{"definition", fmt.Sprintf("guest %s is defined with %s, which will not be "+
					"there: it does not start then", g.Name, name), "mpps sriov release " + g.Name +
					", or take the device out with virsh edit"})
			}
		}
		for _, r := range h.Reservations {
			if r.PF == v.PF && r.Network == "" && r.Index == v.Index && v.Index >= count {
				doubtful = append(doubtful, name+" is given to guest "+r.Guest)
			}
		}
		switch {
		case v.Holder != "":
			used = append(used, name+" by "+v.Holder)
		case v.OnlyAddress:
			doubtful = append(doubtful, name+": its interface "+v.NIC+" "+v.HostUse)
		case v.HostUse != "":
			used = append(used, fmt.Sprintf("%s by the host: its interface %s is %s", name, v.NIC, v.HostUse))
		}
	}
	advice := "shut the guest down, or take the function out of it ('mpps sriov release', 'virsh detach-device'); " +
		"take the interface out of what is above it"
	if len(used) > 0 {
		return nil, &Refused{Why: "another number takes all virtual functions of " + n.Name +
			" away, and they are in use: " + strings.Join(firstOf(used, 4), "; "), Advice: advice}
	}
	if len(doubtful) > 0 && !force {
		return nil, &Refused{Why: "virtual functions of " + n.Name + " would go that are not free: " +
			strings.Join(firstOf(doubtful, 4), "; "),
			Advice: "'mpps sriov release' takes one back from its guest; --force does without"}
	}
	for p := range facts.Each(h.Pools) {
		if p.Active && slices.ContainsFunc(h.VFs, func(v facts.VF) bool { return v.PF == n.Name && p.Has(&v) }) {
			notes = append(notes, Note{"pool", fmt.Sprintf("network %s hands out functions of %s and keeps the list "+
				"of those that it found", p.Network, n.Name), fmt.Sprintf("virsh net-destroy %[1]s && virsh net-start "+
				"%[1]s, once no guest has one", quoted(p.Network))})
		}
	}
	return notes, nil
}
