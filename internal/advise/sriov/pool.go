package sriov

import (
	"fmt"
	"regexp"
	"slices"

	"mpps/internal/model/facts"
)

// networkName matches valid names of pools: their reservations are in a file of that name.
var networkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$`)

// choosePool chooses the pool, or the PF to make one of. It refuses a pool with too few functions: the last guest would
// only fail at its start.
func (g *Gift) choosePool(h *facts.Host) error {
	if g.request.VF != "" {
		return refuse("--as interface takes one function; or leave --vf out", "a pool has its functions handed out "+
			"by libvirt at each start: one of them cannot be asked for")
	}
	name := g.request.Network
	if name == "" {
		for i := range h.Pools { // an existing pool of the PF
			if p := &h.Pools[i]; p.PF != "" && (g.request.PF == "" || p.PF == g.request.PF) {
				name = p.Network
				break
			}
		}
	}
	if name == "" {
		pfs, err := g.candidates(h)
		if err != nil {
			return err
		}
		name, g.pf = "mpps-"+pfs[0].Name, pfs[0]
	}
	if !networkName.MatchString(name) {
		return refuse("letters, digits, ., - and _", "expected the name of a network, found %q", name)
	}
	g.Network = name
	if g.pool = h.Pool(name); g.pool == nil {
		return g.newPool(h)
	}
	all := poolFunctions(h, g.pool)
	if len(all) == 0 {
		return refuse("'mpps sriov create' makes them", "pool %s has no virtual functions now", name)
	}
	pf := nicOf(h, all[0].PF)
	if pf == nil || pf.SRIOV == nil || g.request.PF != "" && pf.Name != g.request.PF {
		return refuse("leave --pf or --network out", "pool %s is of %s", name, all[0].PF)
	}
	g.pf, g.PF = pf, pf.Name
	return g.checkPoolSize(h, all)
}

// poolFunctions returns the existing functions of a pool.
func poolFunctions(h *facts.Host, p *facts.Pool) []*facts.VF {
	var all []*facts.VF
	for i := range h.VFs {
		if p.Has(&h.VFs[i]) {
			all = append(all, &h.VFs[i])
		}
	}
	return all
}

// newPool chooses a PF for a new pool, which gets all of its functions: none of them may be in use.
func (g *Gift) newPool(h *facts.Host) error {
	if g.pf == nil {
		pfs, err := g.candidates(h)
		if err != nil {
			return err
		}
		g.pf = pfs[0]
	}
	g.PF = g.pf.Name
	all := functions(h, g.PF)
	var taken []string
	for _, vf := range all {
		if who := Holder(h, vf); who != "" {
			taken = append(taken, fmt.Sprintf("%d: %s", vf.Index, who))
		}
		if no := unassignable(h, vf); no != nil {
			return no
		}
	}
	if len(taken) > 0 {
		return refuse("release them first, or take another card: libvirt's pool is all functions of a card, and "+
			"would hand these out too",
			"%s cannot become the pool %s: some of its functions are taken (%s)", g.PF, g.Network, few(taken))
	}
	if len(all) == 0 {
		return refuse(moreFunctions(g.pf), "%s has no virtual functions that can be seen", g.PF)
	}
	return g.checkPoolSize(h, all)
}

// checkPoolSize refuses a guest if the pool has no function left for it. Every interface on the network counts, also of
// guests that are off, and every reservation.
func (g *Gift) checkPoolSize(h *facts.Host, all []*facts.VF) error {
	var users []string
	has := map[string]bool{}
	for o := range facts.Each(h.Guests) {
		for _, nic := range o.NICs() {
			if nic.Type == "network" && nic.Source == g.Network && !has[nic.MAC] {
				has[nic.MAC] = true
				users = append(users, o.Name+stateSuffix(o))
			}
		}
	}
	for _, r := range h.Reservations {
		if r.Network == g.Network && !has[r.MAC] {
			has[r.MAC] = true
			users = append(users, r.Guest+" (reserved)")
		}
	}
	fit, why := 0, ""
	for _, vf := range all {
		if no := unassignable(h, vf); no != nil {
			why = no.Why
			continue
		}
		// The pool cannot hand out a function that somebody has by other means.
		if who := holderOutsidePool(h, vf); who == "" {
			fit++
		} else {
			why = fmt.Sprintf("function %d is %s's", vf.Index, who)
		}
	}
	if len(users) < fit {
		return nil
	}
	also := ""
	if why != "" {
		also = "; " + why
	}
	return refuse("take one back with 'mpps sriov release'; "+moreFunctions(g.pf),
		"pool %s has %s and %s on it already (%s): one more would fail at its start, when the functions run out%s",
		g.Network, count(fit, "function"), count(len(users), "interface"), few(users), also)
}

// holderOutsidePool returns who has a function of a pool by other means than the pool; empty: nobody.
func holderOutsidePool(h *facts.Host, vf *facts.VF) string {
	for i := range h.Guests {
		if o := &h.Guests[i]; slices.Contains(o.Hostdevs, vf.PCI) && !throughPool(o, vf.PCI) {
			return "guest " + o.Name
		}
	}
	for _, r := range h.Reservations {
		if r.PCI == vf.PCI && r.PCI != "" {
			return "guest " + r.Guest
		}
	}
	if vf.Holder == "" && vf.HostUse == "" {
		return "" // at most bound to vfio-pci, as in a pool that is not managed
	}
	return otherHolder(vf)
}
