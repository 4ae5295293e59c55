package sriov

import (
	"fmt"
	"regexp"

	"mpps/internal/model/facts"
)

// networkName is what a pool may be called: its reservations are a file of that name.
var networkName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,60}$`)

// choosePool finds the pool, or the card to make one of, and counts: libvirt starts guests until its functions run out,
// and the one too many fails at its start, when nobody looks.
func (g *Gift) choosePool(h *facts.Host) error {
	if g.wish.VF != "" {
		return refuse("--as interface takes one function; or leave --vf out", "a pool has its functions handed out "+
			"by libvirt at each start: one of them cannot be asked for")
	}
	name := g.wish.Network
	if name == "" {
		for i := range h.Pools { // the pool that there is for the card
			if p := &h.Pools[i]; p.PF != "" && (g.wish.PF == "" || p.PF == g.wish.PF) {
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
	all := members(h, g.pool)
	if len(all) == 0 {
		return refuse("'mpps sriov create' makes them", "pool %s has no virtual functions now", name)
	}
	pf := nicOf(h, all[0].PF)
	if pf == nil || pf.SRIOV == nil || g.wish.PF != "" && pf.Name != g.wish.PF {
		return refuse("leave --pf or --network out", "pool %s is of %s", name, all[0].PF)
	}
	g.pf, g.PF = pf, pf.Name
	return g.counted(h, all)
}

// members are the functions of a pool that are there.
func members(h *facts.Host, p *facts.Pool) []*facts.VF {
	var all []*facts.VF
	for i := range h.VFs {
		if p.Has(&h.VFs[i]) {
			all = append(all, &h.VFs[i])
		}
	}
	return all
}

// newPool makes one of a card: of all its functions, which nobody may have yet.
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
		if no := unfit(h, vf); no != nil {
			return no
		}
	}
	if len(taken) > 0 {
		return refuse("release them first, or take another card: libvirt's pool is all functions of a card, and "+
			"would hand these out too",
			"%s cannot become the pool %s: some of its functions are taken (%s)", g.PF, g.Network, few(taken))
	}
	if len(all) == 0 {
		return refuse(more(g.pf), "%s has no virtual functions that can be seen", g.PF)
	}
	return g.counted(h, all)
}

// counted refuses the guest for which the pool has no function: every interface on its network counts, of guests that
// are off too, and so does what is reserved.
func (g *Gift) counted(h *facts.Host, all []*facts.VF) error {
	var users []string
	has := map[string]bool{}
	for i := range h.Guests {
		o := &h.Guests[i]
		for _, nic := range o.NICs() {
			if nic.Type == "network" && nic.Source == g.Network && !has[nic.MAC] {
				has[nic.MAC] = true
				users = append(users, o.Name+how(o))
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
		if no := unfit(h, vf); no != nil {
			why = no.Why
			continue
		}
		// One that somebody has beside the pool is none of its.
		if beside(h, vf) == "" {
			fit++
		} else {
			why = fmt.Sprintf("function %d is %s's", vf.Index, beside(h, vf))
		}
	}
	if len(users) < fit {
		return nil
	}
	also := ""
	if why != "" {
		also = "; " + why
	}
	return refuse("take one back with 'mpps sriov release'; "+more(g.pf),
		"pool %s has %s and %s on it already (%s): one more would fail at its start, when the functions run out%s",
		g.Network, count(fit, "function"), count(len(users), "interface"), few(users), also)
}

// beside says who has a function of a pool otherwise than through the pool.
func beside(h *facts.Host, vf *facts.VF) string {
	for i := range h.Guests {
		o := &h.Guests[i]
		if !guestHas(h, o.Name, vf.PCI) {
			continue
		}
		if !throughPool(o, vf.PCI) {
			return "guest " + o.Name
		}
	}
	for _, r := range h.Reservations {
		if r.PCI == vf.PCI && r.PCI != "" {
			return "guest " + r.Guest
		}
	}
	return foreignBeside(vf)
}

// foreignBeside is foreign, but for a function that is only bound to vfio-pci: a pool that is not managed has such.
func foreignBeside(vf *facts.VF) string {
	if vf.Holder == "" && vf.HostUse == "" {
		return ""
	}
	return foreign(vf)
}
