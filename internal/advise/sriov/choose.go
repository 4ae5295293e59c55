package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
)

// mostFunctions is how many functions a guest takes: one for each slot of a PCI bus, which is what QEMU and libvirt
// have been seen to bear (founding experience; knob sriov.attach).
const mostFunctions = 32

// Choose works out what a guest gets of a host: the function, its attributes, its MAC address. The error is a *Refused
// where the wish cannot or must not be carried out.
func Choose(h *facts.Host, w Wish) (*Gift, error) {
	g, err := receiver(h, w.Guest)
	if err != nil {
		return nil, err
	}
	if has := given(h, g); has >= mostFunctions {
		return nil, refuse("release one first: 'mpps sriov release "+g.Name+" --mac …'", "guest %s has %s already, "+
			"and takes at most %d", g.Name, count(has, "virtual function"), mostFunctions)
	}
	gift := &Gift{Guest: g.Name, UUID: g.UUID, Form: w.Form, Index: -1, Node: -1, GuestNodes: nodesOf(h, g), guest: g,
		wish: w}
	if w.Form == facts.ByNetwork {
		err = gift.choosePool(h)
	} else {
		err = gift.chooseFunction(h)
	}
	if err != nil {
		return nil, err
	}
	gift.Node = gift.pf.Node
	gift.distance(h)
	if err := gift.bridges(); err != nil {
		return nil, err
	}
	if err := gift.address(h); err != nil {
		return nil, err
	}
	if err := gift.attributes(h); err != nil {
		return nil, err
	}
	if gift.Memory, err = gift.fits(h); err != nil {
		return nil, err
	}
	gift.explain()
	return gift, nil
}

// receiver is the guest that may be given something.
func receiver(h *facts.Host, name string) (*facts.Guest, error) {
	g := guestNamed(h, name)
	switch {
	case g == nil:
		var names []string
		for _, g := range h.Guests {
			names = append(names, g.Name)
		}
		advice := "libvirt shows no guests here"
		if len(names) > 0 {
			advice = "guests of this host: " + few(names)
		}
		return nil, refuse(advice, "there is no guest %s", name)
	case !g.Managed:
		return nil, refuse("define it in libvirt; a QEMU of its own takes -device vfio-pci,host=…",
			"guest %s is a process that libvirt does not know", name)
	case g.Definition == "" && g.Active():
		return nil, refuse("'virsh dumpxml "+name+" > FILE', then 'virsh define FILE' makes it a lasting one",
			"guest %s is transient: it has no definition that could keep a function", name)
	case g.Definition == "":
		return nil, refuse("run as root, or see why libvirt does not show it",
			"the definition of guest %s cannot be read", name)
	case g.Job != "":
		return nil, refuse("wait until it is done", "libvirt is busy with guest %s: %s", name, g.Job)
	}
	return g, nil
}

// given counts the functions that a guest has, in all forms: by address, and from pools.
func given(h *facts.Host, g *facts.Guest) int {
	n := 0
	for _, pci := range g.Hostdevs {
		if !throughPool(g, pci) {
			n++
		}
	}
	for _, nic := range g.NICs() {
		if nic.Type == "network" && h.Pool(nic.Source) != nil {
			n++
		}
	}
	return n
}

// chooseFunction finds a free function.
func (g *Gift) chooseFunction(h *facts.Host) error {
	if g.wish.VF != "" {
		return g.named(h)
	}
	pfs, err := g.candidates(h)
	if err != nil {
		return err
	}
	var taken []string
	var bad *Refused
	for _, pf := range pfs {
		for _, vf := range functions(h, pf.Name) {
			who := Holder(h, vf)
			if who != "" {
				taken = append(taken, fmt.Sprintf("%s %d: %s", pf.Name, vf.Index, who))
				continue
			}
			if no := unfit(h, vf); no != nil {
				bad = no
				continue
			}
			g.take(pf, vf)
			return nil
		}
	}
	if bad != nil {
		return bad
	}
	var names []string
	for _, pf := range pfs {
		names = append(names, pf.Name)
	}
	more := more(pfs[0])
	if len(taken) == 0 {
		return refuse(more, "no free virtual function on %s: none could be seen", few(names))
	}
	return refuse("take one back with 'mpps sriov release'; "+more, "no free virtual function on %s: all %d are "+
		"taken (%s)", few(names), len(taken), few(taken))
}

// more says how more functions are made.
func more(pf *facts.NIC) string {
	most, says := facts.VFMost(pf.Driver, pf.SRIOV.Total, 0)
	if pf.SRIOV.Enabled >= most {
		return fmt.Sprintf("%s has as many as it can: %s", pf.Name, says)
	}
	return fmt.Sprintf("'mpps sriov create %s -n %d' makes more, while none of them is in use", pf.Name, most)
}

// candidates are the physical functions to look at: the one that is asked for, or all that have functions, those of the
// guest's node first, then those whose link is up, then those with the most functions free.
func (g *Gift) candidates(h *facts.Host) ([]*facts.NIC, error) {
	var able, all []*facts.NIC
	for i := range h.NICs {
		n := &h.NICs[i]
		if n.SRIOV == nil || g.wish.PF != "" && n.Name != g.wish.PF {
			continue
		}
		able = append(able, n)
		if n.SRIOV.Enabled > 0 {
			all = append(all, n)
		}
	}
	switch {
	case len(all) > 0:
	case g.wish.PF != "" && nicOf(h, g.wish.PF) == nil:
		return nil, refuse("'mpps sriov list' shows the cards", "there is no network device %s", g.wish.PF)
	case len(able) == 0 && g.wish.PF != "":
		return nil, refuse("'mpps sriov check' says why", "%s has no virtual functions and cannot have any", g.wish.PF)
	case len(able) == 0:
		return nil, refuse("'mpps sriov check' says why", "no network card of this host can have virtual functions")
	default:
		return nil, refuse(fmt.Sprintf("'mpps sriov create %s -n N' makes them", able[0].Name),
			"%s has no virtual functions now", able[0].Name)
	}
	free := map[string]int{}
	for i := range h.VFs {
		if Holder(h, &h.VFs[i]) == "" {
			free[h.VFs[i].PF]++
		}
	}
	slices.SortStableFunc(all, func(a, b *facts.NIC) int {
		return cmp.Or(
			last(!g.near(a), !g.near(b)), last(a.Carrier == "down", b.Carrier == "down"),
			last(free[a.Name] == 0, free[b.Name] == 0),
			free[b.Name]-free[a.Name], strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// last orders what is true behind what is not.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// near reports whether a card is on a node of the guest, as far as both are known.
func (g *Gift) near(pf *facts.NIC) bool {
	return pf.Node < 0 || len(g.GuestNodes) == 0 || g.GuestNodes.Has(pf.Node)
}

// named is the function that was asked for: its number on a physical function, or its PCI address.
func (g *Gift) named(h *facts.Host) error {
	name := g.wish.VF
	if _, err := strconv.Atoi(name); err == nil {
		if g.wish.PF == "" {
			return refuse("give --pf too, or the function's PCI address",
				"virtual function %s: of which card is not said", name)
		}
		name = g.wish.PF + "/" + name
	}
	vf, _, err := Find(h, []string{name})
	if err != nil {
		return err
	}
	if g.wish.PF != "" && vf.PF != g.wish.PF {
		return refuse("leave --pf out", "%s is a function of %s, not of %s", g.wish.VF, vf.PF, g.wish.PF)
	}
	pf := nicOf(h, vf.PF)
	if pf == nil || pf.SRIOV == nil {
		return refuse("'mpps sriov list' shows the cards", "the physical function %s of %s cannot be seen", vf.PF,
			vf.PCI)
	}
	who := Holder(h, vf)
	if slices.Contains(g.guest.Hostdevs, vf.PCI) {
		return refuse("'mpps sriov set' changes what it may do; 'mpps sriov release' takes it back first",
			"guest %s has function %d of %s already", g.Guest, vf.Index, vf.PF)
	}
	idle := vf.Holder == "" && vf.HostUse == "" && who == foreign(vf) // only bound to a driver for guests, by somebody
	if who != "" && !(idle && g.wish.Force) {
		advice := "leave --vf out: a free one is taken; or take it back with 'mpps sriov release'"
		if idle {
			advice = "where nothing uses it, --force takes it"
		}
		return refuse(advice, "function %d of %s (%s) is not free: %s has it", vf.Index, vf.PF, vf.PCI, who)
	}
	if no := unfit(h, vf); no != nil {
		return no
	}
	g.take(pf, vf)
	return nil
}

func (g *Gift) take(pf *facts.NIC, vf *facts.VF) {
	g.pf, g.PF, g.Index, g.PCI = pf, pf.Name, vf.Index, vf.PCI
}

// nodesOf are the nodes on which a guest is: where its memory must come from, else where its vCPUs are pinned; empty
// where neither is said, or every node is.
func nodesOf(h *facts.Host, g *facts.Guest) setting.CPUSet {
	nodes := setting.CPUs(g.MemoryNodes...)
	if len(nodes) == 0 {
		var on []int
		for _, pin := range g.Pins {
			for _, id := range pin {
				if cpu, there := h.Topology.CPU(id); there {
					on = append(on, cpu.Node)
				}
			}
		}
		nodes = setting.CPUs(on...)
	}
	if len(nodes) == len(h.Topology.Nodes) {
		return nil
	}
	return nodes
}

// distance notes where card and guest are on different nodes.
func (g *Gift) distance(h *facts.Host) {
	switch {
	case !g.near(g.pf):
		g.note("other-node", fmt.Sprintf("%s is on node %d, guest %s on node %s: each packet crosses the link "+
			"between them", g.PF, g.Node, g.Guest, g.GuestNodes),
			"take a card on its node, or 'mpps place' the guest on that of the card")
	case len(g.GuestNodes) == 0 && g.Node >= 0 && len(h.Topology.Nodes) > 1:
		g.note("not-placed", fmt.Sprintf("guest %s is bound to no node; %s is on node %d", g.Guest, g.PF, g.Node),
			"'mpps place' and 'mpps plan' put it there")
	}
	switch {
	case !g.pf.Up:
		g.note("no-link", g.PF+" is down: the function carries nothing until it is up", "ip link set "+g.PF+
			" up; 'mpps sriov create' brings it up")
	case g.pf.Carrier == "down":
		g.note("no-link", g.PF+" has no link: the function carries nothing to the outside until it has",
			"plug the cable in")
	}
}

func (g *Gift) note(code, text, hint string) {
	g.Notes = append(g.Notes, Note{Code: code, Text: text, Hint: hint})
}
