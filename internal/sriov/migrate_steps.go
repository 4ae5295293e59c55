package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/facts"
)

// ways are the ways that there are for this guest, the one to prefer first.
func (p *migration) ways() {
	switch {
	case p.teamed():
		p.Ways = []MigrateWay{p.paired()}
	case p.ask.Failover:
		p.Ways = []MigrateWay{p.failover()}
	case p.guest.Active():
		p.Ways = []MigrateWay{p.detachAttach(), p.defineAnew()}
	default:
		p.Ways = []MigrateWay{p.defineAnew()}
	}
}

// address is the other host as libvirt calls it.
func (p *migration) address() string { return "qemu+ssh://root@" + p.To + "/system" }

// back is this host as the other one's libvirt calls it.
func (p *migration) back() string { return "qemu+ssh://root@" + p.From + "/system" }

// migrate is the command that moves the running guest.
func (p *migration) migrate(more ...string) string {
	words := append([]string{"virsh", "migrate", "--live", "--persistent", "--verbose"}, more...)
	return shellLine(append(words, p.guest.Name, p.address())...)
}

// saved is the file that keeps the definition as it was.
func (p *migration) saved() string { return p.guest.Name + ".before-migration.xml" }

// save is the first step of every way.
func (p *migration) save() MigrateStep {
	return MigrateStep{On: p.From, What: "keep the definition as it is", Undo: []string{},
		Commands: []string{shellLine("virsh", "dumpxml", "--inactive", p.guest.Name) + " > " + quoted(p.saved())}}
}

// detachAttach takes the functions out, migrates what is left, and gives the guest functions of the other host.
func (p *migration) detachAttach() MigrateWay {
	w := MigrateWay{Name: "detach-attach", What: "detach, migrate live, attach", Needs: []string{"a guest that lets go of a PCI device while it runs (Linux does; Windows does)"}, XML: []string{},
		Traffic: "through " + p.functionNames() + " none from the first detach until the attach on " + p.To + " (as long as the migration takes); the guest itself runs on, and its other NICs with it"}
	w.Steps = append(w.Steps, p.save())
	for i := range p.Functions {
		w.Steps = append(w.Steps, p.detach(&p.Functions[i]))
	}
	w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "migrate what is left of it: a guest without the card", Commands: []string{p.migrate()},
		Traffic: "other NICs stand still for the last moment of the migration (below a second as a rule)",
		Undo:    []string{shellLine("virsh", "domjobabort", p.guest.Name) + "   # while it goes on; the guest stays here", "ssh root@" + p.To + " " + quoted(shellLine("virsh", "migrate", "--live", "--persistent", p.guest.Name, p.back())) + "   # afterwards"}})
	for i := range p.Functions {
		w.Steps = append(w.Steps, p.attach(&p.Functions[i], true)...)
	}
	w.Steps = append(w.Steps, p.look(), p.forget())
	return w
}

// detach takes one function out of the running guest and out of its definition.
func (p *migration) detach(f *MigrateVF) MigrateStep {
	s := MigrateStep{On: p.From, What: "take " + f.String() + " out of the running guest and out of its definition",
		Traffic: "through this function none from here on: the guest sees its NIC go"}
	var lines []string
	switch f.Form {
	case facts.ByHostdev:
		lines = []string{pasted(shellLine("virsh", "detach-device", p.guest.Name, "/dev/stdin", "--live", "--config"), f.element(f.PCI, ""))}
	case facts.ByNetwork:
		lines = []string{shellLine("virsh", "detach-interface", p.guest.Name, "hostdev", "--mac", f.MAC, "--live"), shellLine("virsh", "detach-interface", p.guest.Name, "network", "--mac", f.MAC, "--config")}
	default:
		lines = []string{shellLine("virsh", "detach-interface", p.guest.Name, "hostdev", "--mac", f.MAC, "--live", "--config")}
	}
	s.Commands = append(lines, p.gone(f))
	s.Undo = []string{pasted(shellLine("virsh", "attach-device", p.guest.Name, "/dev/stdin", "--live", "--config"), f.element(f.PCI, ""))}
	return s
}

// gone tells when the guest has let go: the function then has another driver than vfio-pci, or none.
func (p *migration) gone(f *MigrateVF) string {
	return "until ! virsh dumpxml " + quoted(p.guest.Name) + " | grep -q " + quoted(pciPart(f.PCI)) + "; do sleep 1; done   # the guest has let go of it"
}

// pciPart is what stands of an address in libvirt's XML and in no other's of the same guest.
func pciPart(pci string) string {
	_, rest, _ := strings.Cut(pciXML(pci), "type='pci' ")
	return strings.TrimSuffix(rest, "/>")
}

// attach gives the guest a function of the other host, and sets on it what libvirt does not.
func (p *migration) attach(f *MigrateVF, live bool) []MigrateStep {
	flags := []string{"--config"}
	if live {
		flags = []string{"--live", "--config"}
	}
	if f.Target == "" && f.Form != facts.ByNetwork {
		return []MigrateStep{p.assign(f, live)}
	}
	what := "give the guest " + f.PFThere + fmt.Sprintf(" VF %d, %s", f.Number, f.Target)
	if f.Form == facts.ByNetwork {
		what = "give the guest a function of network " + f.Network
	}
	s := MigrateStep{On: p.To, What: what, Traffic: "through the function again, from this step on: the guest sees a NIC come, with its MAC and at its place",
		Commands: slices.Concat(p.before(f), []string{pasted(shellLine(append([]string{"virsh", "attach-device", p.guest.Name, "/dev/stdin"}, flags...)...), f.element(f.Target, ""))}, p.after(f)),
		Undo:     []string{pasted(shellLine(append([]string{"virsh", "detach-device", p.guest.Name, "/dev/stdin"}, flags...)...), f.element(f.Target, ""))}}
	return []MigrateStep{s}
}

// assign leaves the choice of a function to mpps on the other host, of which nothing is known here.
func (p *migration) assign(f *MigrateVF, live bool) MigrateStep {
	words := []string{"mpps", "sriov", "assign", p.guest.Name, "--pf", f.PF}
	if f.MAC != "" && f.MAC != zeroMAC {
		words = append(words, "--mac", f.MAC)
	}
	if f.VLAN > 0 {
		words = append(words, "--vlan", fmt.Sprint(f.VLAN))
	}
	if f.vf.MaxTxRate > 0 {
		words = append(words, "--rate", fmt.Sprint(f.vf.MaxTxRate))
	}
	return MigrateStep{On: p.To, What: "give the guest a free function of " + f.PF + " there (the port may have another name)", Commands: []string{shellLine(words...)},
		Traffic: "through the function again, from this step on", Undo: []string{"mpps rollback"}}
}

// before gives a function of the other host the address that the guest knows it by, where libvirt does not.
func (p *migration) before(f *MigrateVF) []string {
	if f.Form != facts.ByHostdev || f.Target == "" {
		return nil
	}
	var words []string
	if f.MAC != "" && f.MAC != zeroMAC {
		words = append(words, "mac", f.MAC)
	}
	return []string{p.set(f, append(words, "vlan", fmt.Sprint(f.VLAN))...)}
}

// after sets on a function of the other host, when the guest has it, what libvirt does not.
func (p *migration) after(f *MigrateVF) []string {
	if f.Target == "" || f.vf.PCI == "" {
		return nil
	}
	var words []string
	untold := func(attribute string) bool { return slices.Contains(f.vf.Untold, attribute) }
	if f.vf.MaxTxRate > 0 {
		words = append(words, "rate", fmt.Sprint(f.vf.MaxTxRate))
	}
	if f.vf.Trust && !untold("trust") {
		words = append(words, "trust", "on")
	}
	if !f.vf.SpoofCheck && !untold("spoofchk") {
		words = append(words, "spoofchk", "off")
	}
	if f.vf.LinkState != "" && f.vf.LinkState != "auto" {
		words = append(words, "state", f.vf.LinkState)
	}
	if len(words) == 0 {
		return nil
	}
	return []string{p.set(f, words...)}
}

// set has mpps on the other host set attributes, and keep them.
func (p *migration) set(f *MigrateVF, words ...string) string {
	return shellLine(append([]string{"mpps", "sriov", "set", fmt.Sprintf("%s/%d", f.PFThere, f.Number)}, words...)...)
}

// look tells whether everything arrived.
func (p *migration) look() MigrateStep {
	return MigrateStep{On: p.To, What: "look whether it arrived", Commands: []string{shellLine("virsh", "domstate", p.guest.Name), shellLine("virsh", "domiflist", p.guest.Name), "mpps sriov list", "mpps sriov check"}, Undo: []string{}}
}

// forget ends what the old host knows of the guest, last of all: until then it can go back.
func (p *migration) forget() MigrateStep {
	s := MigrateStep{On: p.From, What: "forget the guest here, when all is well there: until then the same guest could be started on both hosts",
		Commands: []string{shellLine("virsh", "autostart", "--disable", p.guest.Name), shellLine("virsh", "undefine", p.guest.Name)},
		Undo:     []string{shellLine("virsh", "define", p.saved())}}
	if p.def.NVRAM != nil {
		s.Commands[1] = shellLine("virsh", "undefine", "--keep-nvram", p.guest.Name)
	}
	for _, f := range p.Functions {
		if f.vf.PCI != "" {
			s.Commands = append(s.Commands, shellLine("mpps", "sriov", "reset", f.PCI))
		}
	}
	return s
}

// defineAnew shuts the guest down, and starts it on the other host from a definition with a function of that one.
func (p *migration) defineAnew() MigrateWay {
	moved := p.guest.Name + "." + p.To + ".xml"
	w := MigrateWay{Name: "define-anew", What: "define anew: shut down here, start there", XML: []string{},
		Needs:   []string{"disks that both hosts reach, or a copy of them while the guest is off"},
		Traffic: "none from the shutdown until the guest has booted on " + p.To}
	edit, define := p.edited(moved)
	w.Steps = []MigrateStep{p.save(),
		{On: p.From, What: "make a definition for " + p.To, Commands: []string{edit}, Undo: []string{shellLine("rm", "-f", moved)}},
		{On: p.From, What: "define it there, not started", Commands: define, Undo: []string{shellLine("virsh", "-c", p.address(), "undefine", p.guest.Name)}}}
	for i := range p.Functions {
		if f := &p.Functions[i]; f.Target == "" && f.Form != facts.ByNetwork {
			w.Steps = append(w.Steps, p.assign(f, false))
		} else if lines := slices.Concat(p.before(f), p.after(f)); len(lines) > 0 {
			w.Steps = append(w.Steps, MigrateStep{On: p.To, What: "set on " + f.Target + " what libvirt does not set", Commands: lines, Undo: []string{shellLine("mpps", "sriov", "reset", f.Target)}})
		}
	}
	if p.guest.Active() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "shut it down, and let no reboot of this host start it", Traffic: "none from here on",
			Commands: []string{shellLine("virsh", "autostart", "--disable", p.guest.Name), shellLine("virsh", "shutdown", p.guest.Name), "until virsh domstate " + quoted(p.guest.Name) + " | grep -q 'shut off'; do sleep 1; done"},
			Undo:     []string{shellLine("virsh", "start", p.guest.Name)}})
	}
	for _, file := range p.localDisks() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "copy a disk that is not shared", Commands: []string{shellLine("rsync", "--sparse", "--inplace", file, "root@"+p.To+":"+file)}, Undo: []string{}})
	}
	w.Steps = append(w.Steps, MigrateStep{On: p.To, What: "start it", Commands: []string{shellLine("virsh", "start", p.guest.Name)}, Traffic: "through the function again when it has booted",
		Undo: []string{shellLine("virsh", "shutdown", p.guest.Name)}}, p.look(), p.forget())
	return w
}

// edited are the commands that write the definition for the other host, and those that define it there: functions that are known
// are named, those that are not are taken out, and come back by 'mpps sriov assign' there.
func (p *migration) edited(file string) (edit string, define []string) {
	tune := []string{"mpps", "domain", "tune", p.saved()}
	define = []string{shellLine("virsh", "-c", p.address(), "define", file)}
	for i := range p.Functions {
		f := &p.Functions[i]
		index := slices.IndexFunc(p.def.Devices.Interfaces, func(d device) bool { return d.Type == "hostdev" && d.Source.Address.pci() == f.PCI })
		switch {
		case f.Form == facts.ByNetwork || f.Form == facts.ByInterface && index < 0: // a pool's, or only plugged in
		case f.Form == facts.ByInterface && f.Target != "":
			tune = append(tune, "--set", fmt.Sprintf("interface/%d/source.pci=%s", index, f.Target))
		case f.Form == facts.ByInterface:
			define = append(define, pasted(shellLine("virsh", "-c", p.address(), "detach-device", p.guest.Name, "/dev/stdin", "--config"), f.element(f.PCI, "")))
		case f.Target != "":
			tune = append(tune, "--unset", "hostdev/"+f.PCI, "--set", "hostdev/"+f.Target+"=managed")
		default:
			tune = append(tune, "--unset", "hostdev/"+f.PCI)
		}
	}
	if len(tune) == 4 {
		return shellLine("cp", p.saved(), file), define
	}
	return shellLine(append(tune, "-o", file)...), define
}
