package sriov

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// Minimum versions for a failover pair: docs/formatdomain.rst, "Teaming a virtio/hostdev NIC pair"; QEMU
// docs/system/virtio-net-failover.rst; Documentation/networking/net_failover.rst (commit cfc80d9a1163, Linux 4.18).
const (
	teamingLibvirt = "6.1"
	teamingQEMU    = "4.2"
	teamingKernel  = "4.18"
)

// standbyAlias is the alias by which the function names its standby. libvirt keeps aliases that begin with ua-.
func standbyAlias(n int) string { return fmt.Sprintf("ua-standby%d", n) }

// makePairs is the way that turns each function into a failover pair: a permanent virtio NIC (standby) and the function
// (primary).
func (p *migration) makePairs() MigrateWay {
	w := MigrateWay{Name: "failover", What: "a pair of a virtio NIC (standby) and the function (primary), which QEMU " +
		"unplugs and plugs by itself",
		Traffic: "moves to the virtio NIC when the migration begins, and back to a function on " + p.To +
			": a moment at each change, no gap between",
		Needs: []string{
			"libvirt " + teamingLibvirt + " and QEMU " + teamingQEMU + " on both hosts, machine type q35 (the " +
				"function is plugged on PCI Express)",
			"in the guest Linux " + teamingKernel + " with net_failover, which virtio_net brings " +
				"(VIRTIO_NET_F_STANDBY), or Windows with NetKVM's protocol driver (VIOPROT) installed; " +
				"and the address on the failover interface alone: DHCP on the function too breaks it",
			"the same MAC address on both halves, and a bridge of the same name on both hosts that reaches the " +
				"function's network and VLAN",
		}}
	w.XML = []string{}
	w.Steps = append(w.Steps, p.saveStep())
	bridge := p.standbyBridge()
	for i := range p.Functions {
		f := &p.Functions[i]
		if f.Form == facts.ByHostdev {
			f.Form = facts.ByInterface // so that libvirt sets its MAC address: both halves need the same
			p.Notes = append(p.Notes, f.PCI+" is a plain <hostdev>: as half of a pair it becomes <interface "+
				"type='hostdev'>, because both halves need one MAC address")
		}
		alias := standbyAlias(i)
		pair := f.standby(bridge, alias) + "\n" + f.element(f.PCI, alias)
		w.XML = append(w.XML, pair)
		former := *f
		former.Form = formOf(f.device)
		edit := func(verb, xml string) string {
			return heredoc(quoted("virsh", verb, p.guest.Name, "/dev/stdin", "--config"), xml)
		}
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "make a pair of " + f.String() + " in the definition",
			Commands: []string{edit("detach-device", former.element(f.PCI, "")),
				edit("attach-device", f.standby(bridge, alias)), edit("attach-device", f.element(f.PCI, alias))},
			Undo: []string{quoted("virsh", "define", p.savedFile())}})
	}
	if p.guest.Active() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "restart the guest once: a pair cannot be made " +
			"of NICs that it runs with", Traffic: "none while it boots",
			Commands: []string{quoted("virsh", "shutdown", p.guest.Name), "until virsh domstate " +
				quoted(p.guest.Name) + " | grep -q 'shut off'; do sleep 1; done",
				quoted("virsh", "start", p.guest.Name)}, Undo: []string{}})
	} else {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "start the guest",
			Commands: []string{quoted("virsh", "start", p.guest.Name)},
			Undo:     []string{quoted("virsh", "shutdown", p.guest.Name)}})
	}
	w.Steps = append(w.Steps, MigrateStep{On: "guest " + p.guest.Name, What: "see the pair: a failover interface " +
		"(the virtio NIC's own name), and two with the same address behind it",
		Commands: []string{"ip -d link show | grep -B1 -A2 " + quoted(p.Functions[0].MAC)}, Undo: []string{}})
	w.Steps = append(w.Steps, p.migratePair()...)
	w.Steps = append(w.Steps, p.lookStep(), p.forgetStep())
	p.checkFailover(bridge)
	return w
}

// formOf returns the form of a function in a definition.
func formOf(d device) string {
	switch {
	case d.Type == "network":
		return facts.ByNetwork
	case d.Type == "hostdev":
		return facts.ByInterface
	}
	return facts.ByHostdev
}

// paired is the way for a guest whose functions are failover pairs already.
func (p *migration) paired() MigrateWay {
	w := MigrateWay{Name: "failover", What: "migrate live: each function is half of a pair, and QEMU unplugs and " +
		"plugs it by itself", XML: []string{},
		Traffic: "moves to the virtio NIC when the migration begins, and back to a function on " + p.To,
		Needs: []string{"the guest has taken the pair (net_failover); otherwise QEMU waits for the unplug and the " +
			"migration does not begin"}}
	w.Steps = append(w.Steps, p.saveStep())
	w.Steps = append(w.Steps, p.migratePair()...)
	w.Steps = append(w.Steps, p.lookStep(), p.forgetStep())
	p.checkFailover(p.standbyBridge())
	return w
}

// migratePair returns the steps that migrate a guest with pairs. If the function has another PCI address on the target,
// libvirt gets a definition with that one; a pool of the same name needs none.
func (p *migration) migratePair() []MigrateStep {
	var steps []MigrateStep
	var xml []string
	differ := false
	for f := range facts.Each(p.Functions) {
		if words := p.attributes(f); len(words) > 0 && f.Target != "" {
			for j := range words {
				words[j] = strings.TrimPrefix(words[j], "--")
			}
			number := fmt.Sprintf("%s/%d", f.PFThere, f.Number)
			steps = append(steps, MigrateStep{On: p.To, What: "set on " + f.Target +
				" what stands on the function here",
				Commands: []string{quoted(append([]string{"mpps", "sriov", "set", number}, words...)...)},
				Undo:     []string{"mpps rollback"}})
		}
		if f.Form == facts.ByNetwork || f.Target == "" || f.Target == f.PCI {
			continue
		}
		differ = true
		xml = append(xml, strings.Join([]string{"s|", pciAttributes(f.PCI), "|", pciAttributes(f.Target), "|"}, ""))
	}
	migrate := MigrateStep{On: p.From, What: "migrate: QEMU unplugs the function, moves the guest, and plugs the " +
		"other host's", Traffic: "through the virtio NIC meanwhile",
		Undo: []string{quoted("virsh", "domjobabort", p.guest.Name) + "   # while it goes on; QEMU plugs the " +
			"function again"}}
	if !differ {
		migrate.Commands = []string{p.migrateCommand()}
		return append(steps, migrate)
	}
	var edits []string
	for _, x := range xml {
		edits = append(edits, "-e", x)
	}
	there, kept := p.guest.Name+"."+p.To+".live.xml", p.guest.Name+"."+p.To+".xml"
	migrate.Commands = []string{
		quoted("virsh", "dumpxml", "--migratable", p.guest.Name) + " | " +
			quoted(append([]string{"sed"}, edits...)...) + " > " + quoted(there),
		quoted("virsh", "dumpxml", "--inactive", "--migratable", p.guest.Name) + " | " +
			quoted(append([]string{"sed"}, edits...)...) + " > " + quoted(kept),
		p.migrateCommand("--xml", there, "--persistent-xml", kept),
	}
	return append(steps, migrate)
}

// standbyBridge returns the bridge for the standby NICs: the one with the PF as a port, otherwise one of the guest's,
// otherwise the first one.
func (p *migration) standbyBridge() string {
	for _, b := range p.from.Bridges {
		if slices.ContainsFunc(p.Functions, func(f MigrateVF) bool {
			return f.PF != "" && slices.Contains(b.Ports, f.PF)
		}) {
			return b.Name
		}
	}
	if own := p.bridges(); len(own) > 0 {
		return own[0]
	}
	if len(p.from.Bridges) > 0 {
		return p.from.Bridges[0].Name
	}
	return "br0"
}

// checkFailover checks what a failover pair needs.
func (p *migration) checkFailover(bridge string) {
	versions := func(on string, h *facts.Host) {
		for _, program := range []struct{ name, is, wants string }{{"libvirt", h.KVM.Libvirt, teamingLibvirt},
			{"QEMU", h.KVM.QEMU, teamingQEMU}} {
			state := words.Either(program.is == "", MigrateUnknown,
				stateOf(facts.CompareVersions(program.is, program.wants) >= 0))
			p.addCheck(on, state, program.name+" "+program.wants+" for a pair", cmp.Or(program.is, "not seen"),
				quoted("virsh", "version"))
		}
		has := slices.ContainsFunc(h.Bridges, func(b facts.Bridge) bool { return b.Name == bridge })
		p.addCheck(on, stateOf(has), "bridge "+bridge+" for the standby", foundText(has),
			quoted("ip", "link", "add", bridge, "type", "bridge")+"   # with a port in the function's network")
	}
	versions(p.From, p.from)
	if p.ask.Target != nil {
		versions(p.To, p.ask.Target)
	}
	p.addCheck(p.From, stateOf(strings.Contains(p.guest.Machine, "q35") || strings.HasPrefix(p.guest.Machine, "virt")),
		"a machine type with PCI Express (q35)", cmp.Or(p.guest.Machine, "not seen"),
		"QEMU takes the primary half on PCI Express only")
	state, found := MigrateUnknown, "not asked"
	if p.guest.Inside != nil && p.guest.Inside.Release != "" {
		state, found = stateOf(facts.CompareVersions(p.guest.Inside.Release, teamingKernel) >= 0), "Linux "+
			p.guest.Inside.Release
	}
	p.addCheck("guest "+p.guest.Name, state, "a guest with net_failover (Linux "+teamingKernel+")", found,
		"in the guest: uname -r; modinfo net_failover")
}
