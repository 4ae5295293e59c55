package sriov

import (
	"fmt"
	"regexp"
	"slices"

	"mpps/internal/model/facts"
	"mpps/internal/words"
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
	fits := func(p *facts.Pool) bool { return p.PF != "" && (g.request.PF == "" || p.PF == g.request.PF) }
	if p := facts.Find(h.Pools, fits); name == "" && p != nil {
		name = p.Network
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
	all := functions(h, g.pool.Has)
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
	all := functions(h, ofPF(g.PF))
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
	return refuse("take one back with 'mpps sriov release'; "+moreFunctions(g.pf),
		"pool %s has %s and %s on it already (%s): one more would fail at its start, when the functions run out%s",
		g.Network, words.Count(fit, "function"), words.Count(len(users), "interface"), few(users),
		words.If(why != "", "; %s", why))
}

// holderOutsidePool returns who has a function of a pool by other means than the pool; empty: nobody.
func holderOutsidePool(h *facts.Host, vf *facts.VF) string {
	if o := facts.Find(h.Guests, func(o *facts.Guest) bool {
		return slices.Contains(o.Hostdevs, vf.PCI) && !throughPool(o, vf.PCI)
	}); o != nil {
		return "guest " + o.Name
	}
	if r := facts.Find(h.Reservations, func(r *facts.Reservation) bool {
		return r.PCI == vf.PCI && r.PCI != ""
	}); r != nil {
		return "guest " + r.Guest
	}
	if vf.Holder == "" && vf.HostUse == "" {
		return "" // at most bound to vfio-pci, as in a pool that is not managed
	}
	return otherHolder(vf)
}
