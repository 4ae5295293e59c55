package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

// Choose chooses the function for a guest, its attributes and its MAC address. The error is a *Refused if the request
// cannot or must not be carried out.
func Choose(h *facts.Host, w Request) (*Gift, error) {
	g, err := receiver(h, w.Guest)
	if err != nil {
		return nil, err
	}
	gift := &Gift{Guest: g.Name, UUID: g.UUID, Form: w.Form, Index: -1, Node: -1, GuestNodes: nodesOf(h, g), guest: g,
		request: w}
	if w.Form == facts.ByNetwork {
		err = gift.choosePool(h)
	} else {
		err = gift.chooseFunction(h)
	}
	if err != nil {
		return nil, err
	}
	gift.Node = gift.pf.Node
	gift.noteDistance(h)
	if err := gift.checkBridge(); err != nil {
		return nil, err
	}
	if err := gift.setMAC(h); err != nil {
		return nil, err
	}
	if err := gift.chooseAttributes(h); err != nil {
		return nil, err
	}
	if gift.Memory, err = gift.checkMemory(h); err != nil {
		return nil, err
	}
	gift.explain()
	return gift, nil
}

// receiver returns the guest if it can be given a function.
func receiver(h *facts.Host, name string) (*facts.Guest, error) {
	g := guestNamed(h, name)
	switch {
	case g == nil:
		names := facts.Map(h.Guests, func(g facts.Guest) string { return g.Name })
		return nil, refuse(words.Either(len(names) > 0, "guests of this host: "+few(names),
			"libvirt shows no guests here"), "there is no guest %s", name)
	case g.Rewrites():
		return nil, refuse("give it the function there; if definitions are yours, the site file says {guests: own}",
			"guest %s is of %s, which regenerates its definition at every start", name, g.Owner)
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

// countFunctions returns the number of functions of a guest, by address and from pools.
func countFunctions(h *facts.Host, g *facts.Guest) int {
	n := facts.Count(g.Hostdevs, func(pci string) bool { return !throughPool(g, pci) })
	for _, nic := range g.NICs() {
		if nic.Type == "network" && h.Pool(nic.Source) != nil {
			n++
		}
	}
	return n
}

// chooseFunction finds a free function.
func (g *Gift) chooseFunction(h *facts.Host) error {
	if g.request.VF != "" {
		return g.useNamed(h)
	}
	pfs, err := g.candidates(h)
	if err != nil {
		return err
	}
	var taken []string
	var bad *Refused
	for _, pf := range pfs {
		for _, vf := range functions(h, ofPF(pf.Name)) {
			if who := Holder(h, vf); who != "" {
				taken = append(taken, fmt.Sprintf("%s %d: %s", pf.Name, vf.Index, who))
				continue
			}
			if no := unassignable(h, vf); no != nil {
				bad = no
				continue
			}
			g.use(pf, vf)
			return nil
		}
	}
	if bad != nil {
		return bad
	}
	names := facts.Map(pfs, func(pf *facts.NIC) string { return pf.Name })
	more := moreFunctions(pfs[0])
	if len(taken) == 0 {
		return refuse(more, "no free virtual function on %s: none could be seen", few(names))
	}
	return refuse("take one back with 'mpps sriov release'; "+more, "no free virtual function on %s: all %d are "+
		"taken (%s)", few(names), len(taken), few(taken))
}

// moreFunctions returns how to create more functions.
func moreFunctions(pf *facts.NIC) string {
	most, says := facts.MaxVFs(pf.Driver, pf.SRIOV.Total, 0)
	return words.Either(pf.SRIOV.Enabled >= most, fmt.Sprintf("%s has as many as it can: %s", pf.Name, says),
		fmt.Sprintf("'mpps sriov create %s -n %d' makes more, while none of them is in use", pf.Name, most))
}

// candidates returns the PFs to take a function from: the requested one, or all that have functions, sorted by: on the
// guest's node, link up, any free function, number of free functions, name.
func (g *Gift) candidates(h *facts.Host) ([]*facts.NIC, error) {
	var able, all []*facts.NIC
	for n := range facts.Each(h.NICs) {
		if n.SRIOV == nil || g.request.PF != "" && n.Name != g.request.PF {
			continue
		}
		able = append(able, n)
		if n.SRIOV.Enabled > 0 {
			all = append(all, n)
		}
	}
	switch {
	case len(all) > 0:
	case g.request.PF != "" && nicOf(h, g.request.PF) == nil:
		return nil, refuse("'mpps sriov list' shows the cards", "there is no network device %s", g.request.PF)
	case len(able) == 0 && g.request.PF != "":
		return nil, refuse("'mpps sriov check' says why", "%s has no virtual functions and cannot have any",
			g.request.PF)
	case len(able) == 0:
		return nil, refuse("'mpps sriov check' says why", "no network card of this host can have virtual functions")
	default:
		return nil, refuse(fmt.Sprintf("'mpps sriov create %s -n N' makes them", able[0].Name),
			"%s has no virtual functions now", able[0].Name)
	}
	free := map[string]int{}
	for vf := range facts.Each(h.VFs) {
		free[vf.PF] += words.Either(Holder(h, vf) == "", 1, 0)
	}
	slices.SortStableFunc(all, func(a, b *facts.NIC) int {
		return cmp.Or(boolCompare(!g.near(a), !g.near(b)), boolCompare(a.Carrier == "down", b.Carrier == "down"),
			boolCompare(free[a.Name] == 0, free[b.Name] == 0),
			free[b.Name]-free[a.Name], strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// boolCompare sorts false before true.
func boolCompare(a, b bool) int { return words.Either(a, 1, 0) - words.Either(b, 1, 0) }

// near reports whether a PF is on a node of the guest, or one of the nodes is unknown.
func (g *Gift) near(pf *facts.NIC) bool {
	return pf.Node < 0 || len(g.GuestNodes) == 0 || g.GuestNodes.Has(pf.Node)
}

// useNamed takes the requested function, by number on a PF or by a name that Find accepts.
func (g *Gift) useNamed(h *facts.Host) error {
	name := g.request.VF
	if _, err := strconv.Atoi(name); err == nil {
		if g.request.PF == "" {
			return refuse("give --pf too, or the function's PCI address",
				"virtual function %s: of which card is not said", name)
		}
		name = g.request.PF + "/" + name
	}
	vf, _, err := Find(h, []string{name})
	if err != nil {
		return err
	}
	if g.request.PF != "" && vf.PF != g.request.PF {
		return refuse("leave --pf out", "%s is a function of %s, not of %s", g.request.VF, vf.PF, g.request.PF)
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
	// idle: somebody bound it to a driver for guests, and nobody uses it
	idle := vf.Holder == "" && vf.HostUse == "" && who == otherHolder(vf)
	if who != "" && !(idle && g.request.Force) {
		return refuse(words.Either(idle, "where nothing uses it, --force takes it",
			"leave --vf out: a free one is taken; or take it back with 'mpps sriov release'"),
			"function %d of %s (%s) is not free: %s has it", vf.Index, vf.PF, vf.PCI, who)
	}
	if no := unassignable(h, vf); no != nil {
		return no
	}
	g.use(pf, vf)
	return nil
}

func (g *Gift) use(pf *facts.NIC, vf *facts.VF) {
	g.pf, g.PF, g.Index, g.PCI = pf, pf.Name, vf.Index, vf.PCI
}

// nodesOf returns the nodes that a guest is bound to: those of its memory, otherwise those of its vCPU pins. Empty:
// neither is given, or all nodes are.
func nodesOf(h *facts.Host, g *facts.Guest) setting.CPUSet {
	on := slices.Clone(g.MemoryNodes)
	if len(on) == 0 {
		for _, id := range slices.Concat(g.Pins...) {
			if cpu, there := h.Topology.CPU(id); there {
				on = append(on, cpu.Node)
			}
		}
	}
	nodes := setting.CPUs(on...)
	return words.Either(len(nodes) == len(h.Topology.Nodes), nil, nodes)
}

// noteDistance adds notes if PF and guest are on different nodes, or the port has no link.
func (g *Gift) noteDistance(h *facts.Host) {
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
