package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// check adds a check of one of the hosts.
func (p *migration) check(on string, state MigrateState, what, found, command string) {
	p.Checks = append(p.Checks, MigrateCheck{On: on, What: what, State: state, Found: found, Command: command})
}

// judged is ok or missing.
func judged(ok bool) MigrateState {
	if ok {
		return MigrateOK
	}
	return MigrateMissing
}

// checkSource looks at what can be seen from here.
func (p *migration) checkSource() {
	g, on := p.guest, p.From
	if len(p.other) > 0 {
		p.check(on, MigrateMissing, "no other device of the host is passed to the guest", strings.Join(p.other, ", "),
			"these stay in the way: take them out of the guest first, 'virsh detach-device' as for the function below")
	} else {
		p.check(on, MigrateOK, "no other device of the host is passed to the guest", "none", "")
	}
	if g.Active() {
		p.check(on, judged(g.State == "running"), "the guest runs, so that it can let go of the function", g.State,
			shellLine("virsh", "resume", g.Name))
	}
	if len(p.def.Devices.Folders) > 0 {
		p.check(on, MigrateUnknown, "no folder of the host is in the guest (virtiofs, 9p)",
			count(len(p.def.Devices.Folders), "folder"),
			"libvirt before 9.7 refuses to migrate with virtiofs, and always with 9p that is mounted: unmount and "+
				"detach it first")
	}
	switch local := p.localDisks(); {
	case len(local) == 0:
		p.check(on, MigrateOK, "disks can be reached from both hosts", p.disks(), "")
	default:
		p.check(on, MigrateUnknown, "disks can be reached from both hosts", strings.Join(local, ", "),
			shellLine("ssh", "root@"+p.To, "ls -l "+quoted(local...))+"   # where they are not shared add "+
				"--copy-storage-all to 'virsh migrate'")
	}
	p.check(on, MigrateUnknown, "no snapshot of the guest is in libvirt, which refuses to migrate with one",
		"not looked at", shellLine("virsh", "snapshot-list", g.Name))
	p.check(on, MigrateUnknown, "libvirt of the other host answers", "not tried",
		shellLine("virsh", "-c", p.address(), "version"))
	if nics := p.otherNICs(); len(nics) == 0 {
		p.check(on, MigrateUnknown, "the guest has a NIC beside its functions, to be reached meanwhile", "none",
			"nothing is reachable between detaching and attaching: --failover plans a standby")
	} else {
		p.check(on, MigrateOK, "the guest has a NIC beside its functions, to be reached meanwhile",
			strings.Join(nics, ", "), "")
	}
}

// otherNICs are the guest's NICs that are no functions.
func (p *migration) otherNICs() []string {
	var all []string
	for _, n := range p.guest.NICs() {
		if !slices.ContainsFunc(p.Functions, func(f MigrateVF) bool {
			return f.MAC == n.MAC &&
				f.Form != facts.ByHostdev
		}) {
			all = append(all, strings.TrimSpace(n.MAC+" on "+n.Source))
		}
	}
	return all
}

// localDisks are files that the other host may not have.
func (p *migration) localDisks() []string {
	var all []string
	for _, d := range p.def.Devices.Disks {
		if d.Type == "file" && d.Source.File != "" && d.ReadOnly == nil && d.Device != "cdrom" && d.Device != "floppy" {
			all = append(all, d.Source.File)
		}
	}
	return all
}

func (p *migration) disks() string {
	if len(p.def.Devices.Disks) == 0 {
		return "it has none"
	}
	return count(len(p.def.Devices.Disks), "disk") + ", none of them a file of this host"
}

// place finds functions of the other host for the guest's: on a port with a carrier before others, then on one of the
// same name, then on one of the nodes that the guest's memory comes from.
func (p *migration) place() {
	if p.ask.Target == nil {
		return
	}
	taken := map[string]bool{}
	for i := range p.Functions {
		f := &p.Functions[i]
		if f.Form == facts.ByNetwork {
			continue // libvirt takes one at the start
		}
		best := facts.VF{}
		for j := range p.ask.Target.VFs {
			v := p.ask.Target.VFs[j]
			if !freeThere(p.ask.Target, &p.ask.Target.VFs[j]) || taken[v.PCI] {
				continue
			}
			if best.PCI == "" || f.prefers(p.ask.Target, p.guest, v, best) {
				best = v
			}
		}
		if best.PCI != "" {
			taken[best.PCI] = true
			f.Target, f.PFThere, f.Number = best.PCI, best.PF, best.Index
		}
	}
}

// freeThere reports whether nobody has a function, and a guest can have it.
func freeThere(h *facts.Host, v *facts.VF) bool { return Holder(h, v) == "" && unfit(h, v) == nil }

// prefers reports whether one function of the other host suits better than another.
func (f *MigrateVF) prefers(h *facts.Host, g *facts.Guest, a, b facts.VF) bool {
	rank := func(v facts.VF) int {
		score := 0
		n := nicOf(h, v.PF)
		if n != nil && n.Up && n.Carrier == "up" {
			score += 4
		}
		if v.PF == f.PF {
			score += 2
		}
		if n != nil && g.MemoryNodes.Has(n.Node) {
			score++
		}
		return score
	}
	return rank(a) > rank(b)
}

// nicOf is the NIC of a name, nil where there is none.
func nicOf(h *facts.Host, name string) *facts.NIC { return nic(h, name) }

// checkTarget looks at the other host's snapshot, or says what to ask there.
func (p *migration) checkTarget() {
	if p.ask.Target == nil {
		p.askTarget()
		return
	}
	h, g, on := p.ask.Target, p.guest, p.To
	if h.Name == p.from.Name && h.Name != "" {
		p.check(on, MigrateMissing, "the snapshot is of the other host", "it is of "+h.Name+" too",
			"mpps snapshot -o FILE, run there")
	}
	for _, other := range h.Guests {
		if other.Name == g.Name || other.UUID == g.UUID && g.UUID != "" {
			p.check(on, judged(!other.Active()), "no guest of that name or UUID is there", other.Name+", "+other.State,
				"libvirt takes a definition of the same name and UUID for an older one of this guest, and refuses it "+
					"where only one of them is the same: "+shellLine("virsh", "dominfo", other.Name))
		}
	}
	p.checkFunctions(h)
	p.checkHost(h)
	for _, bridge := range p.bridges() {
		found := slices.ContainsFunc(h.Bridges, func(b facts.Bridge) bool { return b.Name == bridge })
		p.check(on, judged(found), "bridge "+bridge+" of the guest's other NICs", there(found),
			shellLine("ip", "link", "add", bridge, "type", "bridge")+"   # with the same port, MTU and VLANs as on "+
				p.From)
	}
}

func there(found bool) string {
	if found {
		return "there"
	}
	return "not there"
}

// bridges are those of the guest's NICs, and networks of libvirt that are no pools.
func (p *migration) bridges() []string {
	var all []string
	for _, n := range p.guest.NICs() {
		if n.Type == "bridge" && n.Source != "" && !slices.Contains(all, n.Source) {
			all = append(all, n.Source)
		}
	}
	return all
}

// checkFunctions wants a free function, with a port that carries, for each of the guest's.
func (p *migration) checkFunctions(h *facts.Host) {
	for _, f := range p.Functions {
		switch {
		case f.Form == facts.ByNetwork:
			p.check(p.To, MigrateUnknown, "network "+f.Network+" is a pool with a free function", "not looked at",
				shellLine("virsh", "-c", p.address(), "net-dumpxml", f.Network))
			continue
		case f.Target == "":
			p.check(p.To, MigrateMissing, "a free virtual function for "+f.String(), freeOn(h),
				shellLine("mpps", "sriov", "create", f.PF, "-n", fmt.Sprint(len(p.Functions)))+"   # there, where "+
					f.PF+" is its port's name")
			continue
		}
		port := nicOf(h, f.PFThere)
		p.check(p.To, MigrateOK, "a free virtual function for "+f.String(),
			fmt.Sprintf("%s VF %d, %s", f.PFThere, f.Number, f.Target), "")
		if port == nil {
			continue
		}
		p.check(p.To, judged(port.Up && port.Carrier == "up"), "the port of that function is up, with a cable in the "+
			"same network", fmt.Sprintf("%s, carrier %s", upDown(port.Up), port.Carrier),
			shellLine("ip", "link", "set", f.PFThere, "up"))
		if err := facts.VFRate(port.Driver, port.Speed, f.vf.MaxTxRate); err != nil {
			p.check(p.To, MigrateMissing, fmt.Sprintf("its limit of %d Mb/s can be set there", f.vf.MaxTxRate),
				err.Error(), "")
		}
		if here := nicOf(p.from, f.PF); here != nil && here.Driver != port.Driver {
			p.check(p.To, MigrateUnknown, "the guest has the driver of the other card's functions",
				fmt.Sprintf("here %s, there %s", here.Driver, port.Driver),
				"in the guest: modinfo "+cmp.Or(facts.VFDriver(port.Driver), port.Driver))
		}
	}
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func freeOn(h *facts.Host) string {
	free := 0
	for i := range h.VFs {
		if freeThere(h, &h.VFs[i]) {
			free++
		}
	}
	return fmt.Sprintf("%s, %d free", count(len(h.VFs), "function"), free)
}
