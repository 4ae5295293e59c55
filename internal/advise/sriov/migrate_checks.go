package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// addCheck adds a check on one of the hosts.
func (p *migration) addCheck(on string, state MigrateState, what, found, command string) {
	p.Checks = append(p.Checks, MigrateCheck{On: on, What: what, State: state, Found: found, Command: command})
}

// stateOf returns ok or missing.
func stateOf(ok bool) MigrateState { return words.Either(ok, MigrateOK, MigrateMissing) }

// checkSource checks what can be seen on this host.
func (p *migration) checkSource() {
	g, on := p.guest, p.From
	if len(p.other) > 0 {
		p.addCheck(on, MigrateMissing, "no other device of the host is passed to the guest",
			strings.Join(p.other, ", "),
			"these stay in the way: take them out of the guest first, 'virsh detach-device' as for the function below")
	} else {
		p.addCheck(on, MigrateOK, "no other device of the host is passed to the guest", "none", "")
	}
	if g.Active() {
		p.addCheck(on, stateOf(g.State == "running"), "the guest runs, so that it can let go of the function", g.State,
			quoted("virsh", "resume", g.Name))
	}
	if len(p.def.Devices.Folders) > 0 {
		p.addCheck(on, MigrateUnknown, "no folder of the host is in the guest (virtiofs, 9p)",
			words.Count(len(p.def.Devices.Folders), "folder"),
			"libvirt before 9.7 refuses to migrate with virtiofs, and always with 9p that is mounted: unmount and "+
				"detach it first")
	}
	switch local := p.localDisks(); {
	case len(local) == 0:
		p.addCheck(on, MigrateOK, "disks can be reached from both hosts", p.disks(), "")
	default:
		p.addCheck(on, MigrateUnknown, "disks can be reached from both hosts", strings.Join(local, ", "),
			quoted("ssh", "root@"+p.To, "ls -l "+quoted(local...))+"   # where they are not shared add "+
				"--copy-storage-all to 'virsh migrate'")
	}
	p.addCheck(on, MigrateUnknown, "no snapshot of the guest is in libvirt, which refuses to migrate with one",
		"not looked at", quoted("virsh", "snapshot-list", g.Name))
	p.addCheck(on, MigrateUnknown, "libvirt of the other host answers", "not tried",
		quoted("virsh", "-c", p.targetURI(), "version"))
	if nics := p.otherNICs(); len(nics) == 0 {
		p.addCheck(on, MigrateUnknown, "the guest has a NIC beside its functions, to be reached meanwhile", "none",
			"nothing is reachable between detaching and attaching: --failover plans a standby")
	} else {
		p.addCheck(on, MigrateOK, "the guest has a NIC beside its functions, to be reached meanwhile",
			strings.Join(nics, ", "), "")
	}
}

// otherNICs returns the NICs of the guest that are not functions.
func (p *migration) otherNICs() []string {
	var all []string
	for _, n := range p.guest.NICs() {
		if !slices.ContainsFunc(p.Functions, func(f MigrateVF) bool {
			return f.MAC == n.MAC && f.Form != facts.ByHostdev
		}) {
			all = append(all, strings.TrimSpace(n.MAC+" on "+n.Source))
		}
	}
	return all
}

// localDisks returns disk images that the target may not have.
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
	return words.Either(len(p.def.Devices.Disks) == 0, "it has none",
		words.Count(len(p.def.Devices.Disks), "disk")+", none of them a file of this host")
}

// chooseTargets chooses a function on the target for each of the guest's, preferably on a PF with a carrier, then on a
// PF of the same name, then on a node of the guest's memory.
func (p *migration) chooseTargets() {
	if p.ask.Target == nil {
		return
	}
	taken := map[string]bool{}
	for f := range facts.Each(p.Functions) {
		if f.Form == facts.ByNetwork {
			continue // libvirt chooses at the start
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

// freeThere reports whether a function is free and can be assigned to a guest.
func freeThere(h *facts.Host, v *facts.VF) bool {
	return Holder(h, v) == "" && unassignable(h, v) == nil
}

// prefers reports whether function a of the target is a better replacement than b.
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

// checkTarget checks the snapshot of the target, or lists what to check there.
func (p *migration) checkTarget() {
	if p.ask.Target == nil {
		p.addTargetQuestions()
		return
	}
	h, g, on := p.ask.Target, p.guest, p.To
	if h.Name == p.from.Name && h.Name != "" {
		p.addCheck(on, MigrateMissing, "the snapshot is of the other host", "it is of "+h.Name+" too",
			"mpps snapshot -o FILE, run there")
	}
	for _, other := range h.Guests {
		if other.Name == g.Name || other.UUID == g.UUID && g.UUID != "" {
			p.addCheck(on, stateOf(!other.Active()), "no guest of that name or UUID is there",
				other.Name+", "+other.State,
				"libvirt takes a definition of the same name and UUID for an older one of this guest, and refuses it "+
					"where only one of them is the same: "+quoted("virsh", "dominfo", other.Name))
		}
	}
	p.checkFunctions(h)
	p.checkHost(h)
	for _, bridge := range p.bridges() {
		found := slices.ContainsFunc(h.Bridges, func(b facts.Bridge) bool { return b.Name == bridge })
		p.addCheck(on, stateOf(found), "bridge "+bridge+" of the guest's other NICs", foundText(found),
			quoted("ip", "link", "add", bridge, "type", "bridge")+"   # with the same port, MTU and VLANs as on "+
				p.From)
	}
}

func foundText(found bool) string { return words.Either(found, "there", "not there") }

// bridges returns the bridges of the guest's NICs.
func (p *migration) bridges() []string {
	var all []string
	for _, n := range p.guest.NICs() {
		if n.Type == "bridge" && n.Source != "" && !slices.Contains(all, n.Source) {
			all = append(all, n.Source)
		}
	}
	return all
}

// checkFunctions checks that each function of the guest has a free replacement, on a port that is up.
func (p *migration) checkFunctions(h *facts.Host) {
	for _, f := range p.Functions {
		switch {
		case f.Form == facts.ByNetwork:
			p.addCheck(p.To, MigrateUnknown, "network "+f.Network+" is a pool with a free function", "not looked at",
				quoted("virsh", "-c", p.targetURI(), "net-dumpxml", f.Network))
			continue
		case f.Target == "":
			p.addCheck(p.To, MigrateMissing, "a free virtual function for "+f.String(), freeOn(h),
				quoted("mpps", "sriov", "create", f.PF, "-n", fmt.Sprint(len(p.Functions)))+"   # there, where "+
					f.PF+" is its port's name")
			continue
		}
		port := nicOf(h, f.PFThere)
		p.addCheck(p.To, MigrateOK, "a free virtual function for "+f.String(),
			fmt.Sprintf("%s VF %d, %s", f.PFThere, f.Number, f.Target), "")
		if port == nil {
			continue
		}
		p.addCheck(p.To, stateOf(port.Up && port.Carrier == "up"),
			"the port of that function is up, with a cable in the same network",
			fmt.Sprintf("%s, carrier %s", upDown(port.Up), port.Carrier), quoted("ip", "link", "set", f.PFThere, "up"))
		if err := facts.CheckVFRate(port.Driver, port.Speed, f.vf.MaxTxRate); err != nil {
			p.addCheck(p.To, MigrateMissing, fmt.Sprintf("its limit of %d Mb/s can be set there", f.vf.MaxTxRate),
				err.Error(), "")
		}
		if here := nicOf(p.from, f.PF); here != nil && here.Driver != port.Driver {
			p.addCheck(p.To, MigrateUnknown, "the guest has the driver of the other card's functions",
				fmt.Sprintf("here %s, there %s", here.Driver, port.Driver),
				"in the guest: modinfo "+cmp.Or(facts.VFModule(port.Driver), port.Driver))
		}
	}
}

func upDown(up bool) string { return words.Either(up, "up", "down") }

func freeOn(h *facts.Host) string {
	free := 0
	for i := range h.VFs {
		if freeThere(h, &h.VFs[i]) {
			free++
		}
	}
	return fmt.Sprintf("%s, %d free", words.Count(len(h.VFs), "function"), free)
}
