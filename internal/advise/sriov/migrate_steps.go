package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
)

// ways fills in the possible ways, the preferred one first.
func (p *migration) ways() {
	switch {
	case p.teamed():
		p.Ways = []MigrateWay{p.paired()}
	case p.ask.Failover:
		p.Ways = []MigrateWay{p.makePairs()}
	case p.guest.Active():
		p.Ways = []MigrateWay{p.detachAttach(), p.defineAnew()}
	default:
		p.Ways = []MigrateWay{p.defineAnew()}
	}
}

func (p *migration) targetURI() string { return libvirtURI(p.To) }
func (p *migration) sourceURI() string { return libvirtURI(p.From) }

// libvirtURI returns the libvirt URI of a host. IPv6 addresses are in brackets (RFC 3986, section 3.2.2).
func libvirtURI(host string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "qemu+ssh://root@" + host + "/system"
}

// migrateCommand returns the command that migrates the running guest.
func (p *migration) migrateCommand(more ...string) string {
	words := append([]string{"virsh", "migrate", "--live", "--persistent", "--verbose"}, more...)
	return quoted(append(words, p.guest.Name, p.targetURI())...)
}

// savedFile is the file with the original definition.
func (p *migration) savedFile() string { return p.guest.Name + ".before-migration.xml" }

// saveStep is the first step of every way.
func (p *migration) saveStep() MigrateStep {
	return MigrateStep{On: p.From, What: "keep the definition as it is", Undo: []string{},
		Commands: []string{quoted("virsh", "dumpxml", "--inactive", p.guest.Name) + " > " + quoted(p.savedFile())}}
}

// detachAttach is the way that detaches the functions, migrates live, and attaches functions of the target.
func (p *migration) detachAttach() MigrateWay {
	w := MigrateWay{Name: "detach-attach", What: "detach, migrate live, attach",
		Needs: []string{"a guest that lets go of a PCI device while it runs (Linux does; Windows does)"},
		XML:   []string{},
		Traffic: "through " + p.functionNames() + " none from the first detach until the attach on " + p.To +
			" (as long as the migration takes); the guest itself runs on, and its other NICs with it"}
	w.Steps = append(w.Steps, p.saveStep())
	for i := range p.Functions {
		w.Steps = append(w.Steps, p.detachStep(&p.Functions[i]))
	}
	w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "migrate what is left of it: a guest without the card",
		Commands: []string{p.migrateCommand()},
		Traffic:  "other NICs stand still for the last moment of the migration (below a second as a rule)",
		Undo: []string{quoted("virsh", "domjobabort", p.guest.Name) +
			"   # while it goes on; the guest stays here", "ssh root@" + p.To + " " +
			quoted(quoted("virsh", "migrate", "--live", "--persistent", p.guest.Name, p.sourceURI())) +
			"   # afterwards"}})
	for f := range facts.Each(p.Functions) {
		w.Steps = append(w.Steps, p.attachStep(f, true))
		if f.Target != "" {
			w.XML = append(w.XML, f.element(f.Target, ""))
		}
	}
	w.Steps = append(w.Steps, p.lookStep(), p.forgetStep())
	return w
}

// detachStep detaches one function from the running guest and its definition. If mpps assigned it, 'mpps sriov release'
// does that, so that mpps knows that it is free.
func (p *migration) detachStep(f *MigrateVF) MigrateStep {
	s := MigrateStep{On: p.From, What: "take " + f.String() + " out of the running guest and out of its definition",
		Traffic: "through this function none from here on: the guest sees its NIC go"}
	if p.reserved(f) {
		s.Commands = []string{quoted("mpps", "sriov", "release", p.guest.Name, "--mac", f.MAC, "--live")}
		s.Undo = []string{"mpps rollback   # puts it in again, with all that was set"}
		return s
	}
	where := []string{"--live", "--config"}
	if f.plugged {
		where = where[:1]
	}
	with := func(words ...string) string { return quoted(append(words, where...)...) }
	var lines []string
	switch f.Form {
	case facts.ByHostdev:
		lines = []string{heredoc(with("virsh", "detach-device", p.guest.Name, "/dev/stdin"), f.element(f.PCI, ""))}
	case facts.ByNetwork:
		lines = []string{quoted("virsh", "detach-interface", p.guest.Name, "hostdev", "--mac", f.MAC, "--live"),
			quoted("virsh", "detach-interface", p.guest.Name, "network", "--mac", f.MAC, "--config")}
	default:
		lines = []string{with("virsh", "detach-interface", p.guest.Name, "hostdev", "--mac", f.MAC)}
	}
	s.Commands = append(lines, p.waitDetached(f))
	s.Undo = []string{heredoc(with("virsh", "attach-device", p.guest.Name, "/dev/stdin"), f.element(f.PCI, ""))}
	return s
}

// reserved reports whether mpps assigned a function to the guest.
func (p *migration) reserved(f *MigrateVF) bool {
	return slices.ContainsFunc(p.from.Reservations, func(r facts.Reservation) bool {
		return r.Guest == p.guest.Name && strings.EqualFold(r.MAC, f.MAC) && f.MAC != ""
	})
}

// waitDetached returns the command that waits until the guest has released the function.
func (p *migration) waitDetached(f *MigrateVF) string {
	return "until ! virsh dumpxml " + quoted(p.guest.Name) + " | grep -q " + quoted(pciAttributes(f.PCI)) +
		"; do sleep 1; done   # the guest has let go of it"
}

// pciAttributes returns the attributes of a PCI address in libvirt's XML, which identify it within the definition.
func pciAttributes(pci string) string {
	_, rest, _ := strings.Cut(pciXML(pci), "type='pci' ")
	return strings.TrimSuffix(rest, "/>")
}

// attachStep assigns a function with mpps on the target: the one that is free in its snapshot, otherwise one that mpps
// chooses. mpps also sets and keeps the attributes that libvirt does not set.
func (p *migration) attachStep(f *MigrateVF, live bool) MigrateStep {
	words := []string{"mpps", "sriov", "assign", p.guest.Name}
	what := "give the guest a free function of " + f.PF + " there (the port may have another name)"
	switch {
	case f.Form == facts.ByNetwork:
		what = "give the guest a function of network " + f.Network
		words = append(words, "--pf", f.PF, "--network", f.Network)
	case f.Target != "":
		what = fmt.Sprintf("give the guest %s VF %d, %s", f.PFThere, f.Number, f.Target)
		words = append(words, "--vf", f.Target)
	default:
		words = append(words, "--pf", f.PF)
	}
	if f.Form != facts.ByInterface {
		words = append(words, "--as", f.Form)
	}
	if !facts.NoAddress(f.MAC) {
		words = append(words, "--mac", f.MAC)
	}
	words = append(words, p.attributes(f)...)
	traffic := ""
	if live {
		words, traffic = append(words, "--live"), "through the function again, from this step on: the guest sees a "+
			"NIC come, with the same MAC address"
	}
	return MigrateStep{On: p.To, What: what, Commands: []string{quoted(words...)}, Traffic: traffic,
		Undo: []string{"mpps rollback"}}
}

// attributes returns the attributes of a function that its replacement needs, as flags of 'mpps sriov assign'.
func (p *migration) attributes(f *MigrateVF) []string {
	var words []string
	set := func(name string, is bool, value string) {
		if is && !slices.Contains(f.vf.Untold, map[string]string{"rate": "max_tx_rate", "min-rate": "min_tx_rate",
			"state": "link_state"}[name]) && !slices.Contains(f.vf.Untold, name) {
			words = append(words, "--"+name, value)
		}
	}
	set("vlan", f.VLAN > 0, fmt.Sprint(f.VLAN))
	if f.vf.PCI == "" {
		return words
	}
	set("qos", f.vf.QoS > 0, fmt.Sprint(f.vf.QoS))
	set("rate", f.vf.MaxTxRate > 0, fmt.Sprint(f.vf.MaxTxRate))
	set("min-rate", f.vf.MinTxRate > 0, fmt.Sprint(f.vf.MinTxRate))
	set("spoofchk", !f.vf.SpoofCheck, "off")
	set("trust", f.vf.Trust, "on")
	set("state", f.vf.LinkState != "" && f.vf.LinkState != "auto", f.vf.LinkState)
	return words
}

// lookStep is the step that checks the result.
func (p *migration) lookStep() MigrateStep {
	return MigrateStep{On: p.To, What: "look whether it arrived",
		Commands: []string{quoted("virsh", "domstate", p.guest.Name), quoted("virsh", "domiflist", p.guest.Name),
			"mpps sriov list", "mpps sriov check"}, Undo: []string{}}
}

// forgetStep undefines the guest on this host. It is the last step: until then the guest can go back.
func (p *migration) forgetStep() MigrateStep {
	s := MigrateStep{On: p.From, What: "forget the guest here, when all is well there: until then the same guest " +
		"could be started on both hosts",
		Commands: []string{quoted("virsh", "autostart", "--disable", p.guest.Name),
			quoted("virsh", "undefine", p.guest.Name)},
		Undo: []string{quoted("virsh", "define", p.savedFile())}}
	if p.def.NVRAM != nil {
		s.Commands[1] = quoted("virsh", "undefine", "--keep-nvram", p.guest.Name)
	}
	for _, f := range p.Functions {
		if f.vf.PCI != "" {
			s.Commands = append(s.Commands, quoted("mpps", "sriov", "reset", f.PCI))
		}
	}
	return s
}

// defineAnew is the way that shuts the guest down and starts it on the target with functions of that host.
func (p *migration) defineAnew() MigrateWay {
	w := MigrateWay{Name: "define-anew", What: "redefine: shut down here, start there", XML: []string{},
		Needs:   []string{"disks that both hosts reach, or a copy of them while the guest is off"},
		Traffic: "none from the shutdown until the guest has booted on " + p.To}
	w.Steps = []MigrateStep{p.saveStep(), {On: p.From, What: "define it there without its functions, not started: " +
		"libvirt has no offline migration that would leave them out", Commands: p.defineWithout(),
		Undo: []string{quoted("virsh", "-c", p.targetURI(), "undefine", p.guest.Name)}}}
	for i := range p.Functions {
		if f := &p.Functions[i]; f.Form != facts.ByNetwork {
			w.Steps = append(w.Steps, p.attachStep(f, false))
		}
	}
	if p.guest.Active() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "shut it down, and let no reboot of this host start it",
			Traffic: "none from here on", Commands: []string{quoted("virsh", "autostart", "--disable", p.guest.Name),
				quoted("virsh", "shutdown", p.guest.Name), "until virsh domstate " + quoted(p.guest.Name) +
					" | grep -q 'shut off'; do sleep 1; done"}, Undo: []string{quoted("virsh", "start", p.guest.Name)}})
	}
	for _, file := range p.localDisks() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "copy a disk that is not shared",
			Commands: []string{quoted("rsync", "--sparse", "--inplace", file, "root@"+p.To+":"+file)},
			Undo:     []string{}})
	}
	w.Steps = append(w.Steps, MigrateStep{On: p.To, What: "start it",
		Commands: []string{quoted("virsh", "start", p.guest.Name)}, Traffic: "through the function again when it " +
			"has booted", Undo: []string{quoted("virsh", "shutdown", p.guest.Name)}}, p.lookStep(), p.forgetStep())
	return w
}

// defineWithout returns the commands that define the guest on the target without its functions; mpps assigns new ones
// there.
func (p *migration) defineWithout() []string {
	lines := []string{quoted("virsh", "-c", p.targetURI(), "define", p.savedFile())}
	for f := range facts.Each(p.Functions) {
		defined := slices.ContainsFunc(p.def.Devices.Interfaces,
			func(d device) bool { return d.Source.Address.pci() == f.PCI && f.PCI != "" })
		if f.Form == facts.ByHostdev || f.Form == facts.ByInterface && defined {
			lines = append(lines, heredoc(quoted("virsh", "-c", p.targetURI(), "detach-device", p.guest.Name,
				"/dev/stdin", "--config"), f.element(f.PCI, "")))
		}
	}
	return lines
}
