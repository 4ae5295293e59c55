package sriov

import (
	"fmt"
	"slices"
	"strings"

	"mpps/internal/model/facts"
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
func (p *migration) address() string { return remote(p.To) }

// back is this host as the other one's libvirt calls it.
func (p *migration) back() string { return remote(p.From) }

// remote is how libvirt is told of another host. An address of IPv6 stands in brackets (RFC 3986, section 3.2.2).
func remote(host string) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return "qemu+ssh://root@" + host + "/system"
}

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
	w := MigrateWay{Name: "detach-attach", What: "detach, migrate live, attach",
		Needs: []string{"a guest that lets go of a PCI device while it runs (Linux does; Windows does)"},
		XML:   []string{},
		Traffic: "through " + p.functionNames() + " none from the first detach until the attach on " + p.To +
			" (as long as the migration takes); the guest itself runs on, and its other NICs with it"}
	w.Steps = append(w.Steps, p.save())
	for i := range p.Functions {
		w.Steps = append(w.Steps, p.detach(&p.Functions[i]))
	}
	w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "migrate what is left of it: a guest without the card",
		Commands: []string{p.migrate()},
		Traffic:  "other NICs stand still for the last moment of the migration (below a second as a rule)",
		Undo: []string{shellLine("virsh", "domjobabort", p.guest.Name) +
			"   # while it goes on; the guest stays here", "ssh root@" + p.To + " " +
			quoted(shellLine("virsh", "migrate", "--live", "--persistent", p.guest.Name, p.back())) +
			"   # afterwards"}})
	for i := range p.Functions {
		f := &p.Functions[i]
		w.Steps = append(w.Steps, p.attach(f, true))
		if f.Target != "" {
			w.XML = append(w.XML, f.element(f.Target, ""))
		}
	}
	w.Steps = append(w.Steps, p.look(), p.forget())
	return w
}

// detach takes one function out of the running guest and out of its definition: what mpps gave is taken back by mpps,
// which then knows that it is free.
func (p *migration) detach(f *MigrateVF) MigrateStep {
	s := MigrateStep{On: p.From, What: "take " + f.String() + " out of the running guest and out of its definition",
		Traffic: "through this function none from here on: the guest sees its NIC go"}
	if p.reserved(f) {
		s.Commands = []string{shellLine("mpps", "sriov", "release", p.guest.Name, "--mac", f.MAC, "--live")}
		s.Undo = []string{"mpps rollback   # puts it in again, with all that was set"}
		return s
	}
	where := []string{"--live", "--config"}
	if f.plugged {
		where = where[:1]
	}
	with := func(words ...string) string { return shellLine(append(words, where...)...) }
	var lines []string
	switch f.Form {
	case facts.ByHostdev:
		lines = []string{pasted(with("virsh", "detach-device", p.guest.Name, "/dev/stdin"), f.element(f.PCI, ""))}
	case facts.ByNetwork:
		lines = []string{shellLine("virsh", "detach-interface", p.guest.Name, "hostdev", "--mac", f.MAC, "--live"),
			shellLine("virsh", "detach-interface", p.guest.Name, "network", "--mac", f.MAC, "--config")}
	default:
		lines = []string{with("virsh", "detach-interface", p.guest.Name, "hostdev", "--mac", f.MAC)}
	}
	s.Commands = append(lines, p.gone(f))
	s.Undo = []string{pasted(with("virsh", "attach-device", p.guest.Name, "/dev/stdin"), f.element(f.PCI, ""))}
	return s
}

// reserved reports whether mpps gave the guest a function.
func (p *migration) reserved(f *MigrateVF) bool {
	return slices.ContainsFunc(p.from.Reservations, func(r facts.Reservation) bool {
		return r.Guest == p.guest.Name && strings.EqualFold(r.MAC, f.MAC) && f.MAC != ""
	})
}

// gone tells when the guest has let go: the function then has another driver than vfio-pci, or none.
func (p *migration) gone(f *MigrateVF) string {
	return "until ! virsh dumpxml " + quoted(p.guest.Name) + " | grep -q " + quoted(pciPart(f.PCI)) +
		"; do sleep 1; done   # the guest has let go of it"
}

// pciPart is what stands of an address in libvirt's XML and in no other's of the same guest.
func pciPart(pci string) string {
	_, rest, _ := strings.Cut(pciXML(pci), "type='pci' ")
	return strings.TrimSuffix(rest, "/>")
}

// attach has mpps on the other host give the guest a function: the one that was found free in its snapshot, or else one
// of its own choice. It sets what libvirt does not, and keeps it.
func (p *migration) attach(f *MigrateVF, live bool) MigrateStep {
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
	return MigrateStep{On: p.To, What: what, Commands: []string{shellLine(words...)}, Traffic: traffic,
		Undo: []string{"mpps rollback"}}
}

// attributes are what stands on a function and is to stand on the other, as flags.
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

// look reports whether everything arrived.
func (p *migration) look() MigrateStep {
	return MigrateStep{On: p.To, What: "look whether it arrived",
		Commands: []string{shellLine("virsh", "domstate", p.guest.Name), shellLine("virsh", "domiflist", p.guest.Name),
			"mpps sriov list", "mpps sriov check"}, Undo: []string{}}
}

// forget ends what the old host knows of the guest, last of all: until then it can go back.
func (p *migration) forget() MigrateStep {
	s := MigrateStep{On: p.From, What: "forget the guest here, when all is well there: until then the same guest " +
		"could be started on both hosts",
		Commands: []string{shellLine("virsh", "autostart", "--disable", p.guest.Name),
			shellLine("virsh", "undefine", p.guest.Name)},
		Undo: []string{shellLine("virsh", "define", p.saved())}}
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
	w := MigrateWay{Name: "define-anew", What: "define anew: shut down here, start there", XML: []string{},
		Needs:   []string{"disks that both hosts reach, or a copy of them while the guest is off"},
		Traffic: "none from the shutdown until the guest has booted on " + p.To}
	w.Steps = []MigrateStep{p.save(), {On: p.From, What: "define it there without its functions, not started: " +
		"libvirt has no offline migration that would leave them out", Commands: p.without(),
		Undo: []string{shellLine("virsh", "-c", p.address(), "undefine", p.guest.Name)}}}
	for i := range p.Functions {
		if f := &p.Functions[i]; f.Form != facts.ByNetwork {
			w.Steps = append(w.Steps, p.attach(f, false))
		}
	}
	if p.guest.Active() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "shut it down, and let no reboot of this host start it",
			Traffic: "none from here on",
			Commands: []string{shellLine("virsh", "autostart", "--disable", p.guest.Name),
				shellLine("virsh", "shutdown", p.guest.Name), "until virsh domstate " + quoted(p.guest.Name) +
					" | grep -q 'shut off'; do sleep 1; done"},
			Undo: []string{shellLine("virsh", "start", p.guest.Name)}})
	}
	for _, file := range p.localDisks() {
		w.Steps = append(w.Steps, MigrateStep{On: p.From, What: "copy a disk that is not shared",
			Commands: []string{shellLine("rsync", "--sparse", "--inplace", file, "root@"+p.To+":"+file)},
			Undo:     []string{}})
	}
	w.Steps = append(w.Steps, MigrateStep{On: p.To, What: "start it",
		Commands: []string{shellLine("virsh", "start", p.guest.Name)}, Traffic: "through the function again when it " +
			"has booted",
		Undo: []string{shellLine("virsh", "shutdown", p.guest.Name)}}, p.look(), p.forget())
	return w
}

// without are the commands that define the guest on the other host without its functions, which mpps gives it there.
func (p *migration) without() []string {
	lines := []string{shellLine("virsh", "-c", p.address(), "define", p.saved())}
	for i := range p.Functions {
		f := &p.Functions[i]
		defined := slices.ContainsFunc(p.def.Devices.Interfaces,
			func(d device) bool { return d.Source.Address.pci() == f.PCI && f.PCI != "" })
		if f.Form == facts.ByHostdev || f.Form == facts.ByInterface && defined {
			lines = append(lines, pasted(shellLine("virsh", "-c", p.address(), "detach-device", p.guest.Name,
				"/dev/stdin", "--config"), f.element(f.PCI, "")))
		}
	}
	return lines
}
