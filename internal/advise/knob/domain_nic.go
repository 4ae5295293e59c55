package knob

import (
	"cmp"
	"fmt"
	"strings"

	"mpps/internal/advise/placement"
	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/setting"
)

// eachInterface lists one value of every guest NIC that has a tap on this host.
func eachInterface(path string) func(*facts.Host) []setting.Address {
	return eachInterfaceWith(path, placement.Tapped)
}

// eachInterfaceWith lists one value of every guest NIC of some.
func eachInterfaceWith(path string, has func(facts.Interface) bool) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, g := range h.Guests {
			named := map[string]int{} // a MAC address of two interfaces identifies neither
			for _, i := range g.Interfaces {
				named[i.MAC]++
			}
			for _, i := range g.Interfaces {
				if g.Managed && has(i) && i.MAC != "" && named[i.MAC] == 1 {
					all = append(all, setting.Of(setting.Domain, g.Name, "interface", i.Key(), path))
				}
			}
		}
		return all
	}
}

// forTap returns the Want of a knob that advises on a guest interface with a tap.
func forTap(
	want func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice,
) func(*View, setting.Address) Advice {
	return forGuest(func(v *View, g *facts.Guest, a setting.Address) Advice {
		if parts := strings.Split(a.Path, "/"); len(parts) >= 3 {
			if i := iface(g, parts[2]); i != nil {
				return want(v, g, i, a)
			}
		}
		return Skips("no such interface")
	})
}

// spared reports whether an interface was left alone when the guest's other interfaces were tuned, and why that is
// fine: it probably carries management traffic only.
func spared(g *facts.Guest, i *facts.Interface) (string, bool) {
	if i.Queues > 1 || i.Backend != "" || i.RxQueueSize != 0 || i.Coalesce != 0 {
		return "", false
	}
	for _, other := range g.Interfaces {
		if other.MAC != i.MAC && other.Queues > 1 {
			return fmt.Sprintf("left as it is, because the guest's load has NICs of its own (%s has %d queues)",
				other.MAC, other.Queues), true
		}
	}
	return "", false
}

// windows reports whether a guest's definition looks like Windows.
func windows(g *facts.Guest) bool {
	return strings.Contains(g.Definition, "microsoft.com/win") || strings.Contains(g.Definition, "<hyperv")
}

var domainNICModel = &Knob{
	ID: "domain.nic_model", Title: "Model of the guest's NIC",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Tiers: viaKernel(),
	Where: eachInterface("model"),
	Want: forTap(func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice {
		if i.Virtio() {
			return Fine("virtio")
		}
		model := cmp.Or(i.Model, "the hypervisor's default")
		advice := exact("virtio", fmt.Sprintf("every packet of an emulated NIC (%s) costs several exits from the "+
			"guest, and vhost cannot serve it", model)).At(Critical).restart(g.Name)
		if windows(g) {
			return advice.warn("this looks like a Windows guest: it needs the NetKVM driver (virtio-win) installed " +
				"before, or it comes up without a network")
		}
		return advice.warn("the guest must have virtio drivers (Linux does; Windows needs NetKVM installed before), " +
			"and its NIC gets a new name")
	}),
}

var domainBackend = &Knob{
	ID: "domain.backend", Title: "vhost carries the guest's packets",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.nic_model"}, Tiers: viaKernel(),
	Where: eachInterface("driver.name"),
	Want: forTap(func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice {
		if i.Type == "direct" && i.Backend == "" {
			return Fine("macvtap takes vhost by itself")
		}
		if !v.KVM.Vhost && v.KVM.Loaded {
			return exact("vhost", "QEMU's main loop carries the packets one by one, because vhost_net is not "+
				"loaded").At(High).restart(g.Name).warn("load vhost_net first: modprobe vhost_net")
		}
		if i.Backend == "" && i.Virtio() {
			if reason, yes := spared(g, i); yes {
				return Fine(reason)
			}
			return exact("vhost", "libvirt takes vhost by itself where it can, and says nothing where it cannot; "+
				"naming it makes that an error").At(Info).restart(g.Name)
		}
		return exact("vhost", "QEMU's main loop carries the packets one by one").At(High).restart(g.Name)
	}),
}

var domainQueues = &Knob{
	ID: "domain.queues", Title: "Queue pairs of the guest's NIC",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.nic_model", "domain.backend"},
	Tiers: viaKernel(),
	Where: eachInterfaceWith("driver.queues", func(i facts.Interface) bool { return placement.Tapped(i) || i.VDPA() }),
	Want: forTap(func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice {
		if g.VCPUs < 2 {
			return Skips("one vCPU serves one queue")
		}
		if i.VDPA() {
			return v.vdpaQueues(g, i)
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		rate := v.Goal.PPS
		if v.Goal.Bulk > 0 {
			rate = 0 // segments of bulk data are no packets of the target's size
		}
		least, most, write := placement.Queues(v.ask(), g.VCPUs, rate)
		ask := v.ask()
		if why := ask.Aside(g.Name, i.MAC); why != "" && i.Queues <= 1 {
			return Skips(why + ": one queue will do (--data-nic names those that carry the target)")
		}
		if !i.Virtio() && least > 1 { // it will be virtio before this matters, and has one queue then as now
			return exact(fmt.Sprint(write), fmt.Sprintf("as virtio it can have several queues: %s for %d vCPUs",
				span(least, most), g.VCPUs)).At(High).byDefault("1").restart(g.Name)
		}
		switch {
		case max(1, i.Queues) >= least && i.Queues <= most:
			return Fine(fmt.Sprintf("%s for %d vCPUs: worth trying are %s", Count(i.Queues, "queue"), g.VCPUs,
				span(least, most)))
		case i.Queues > most:
			return exact(fmt.Sprint(write), fmt.Sprintf("more queues than vCPUs (%d) stay unused and cost threads",
				g.VCPUs)).At(Low).byDefault("1").restart(g.Name)
		}
		return exact(fmt.Sprint(write),
			fmt.Sprintf("%s: one vhost thread and one vCPU do all the work of a queue; %s worth trying with %d "+
				"vCPUs", Count(i.Queues, "queue"), spanIs(least, most),
				g.VCPUs)).At(High).byDefault("1").restart(g.Name)
	}),
}

// spanIs returns a range as the subject of a sentence: "4 to 9 are", or "1 is".
func spanIs(least, most int) string {
	if least == most && most == 1 {
		return "1 is"
	}
	return span(least, most) + " are"
}

// span returns a range in words: "4 to 9", or "2".
func span(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

var domainRxQueueSize = &Knob{
	ID: "domain.rx_queue_size", Title: "Receive ring of the guest's NIC", Limit: Limit{Libvirt: "2.3", QEMU: "2.7"},
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.nic_model", "domain.backend"},
	Tiers: viaKernel(),
	Where: eachInterfaceWith("driver.rx_queue_size", func(i facts.Interface) bool {
		return placement.Tapped(i) || i.Type == "vhostuser"
	}),
	Want: forTap(func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice {
		if i.Type == "vhostuser" {
			return v.vhostUserRing(g, i)
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		if !i.Virtio() {
			return Skips("an emulated NIC has none")
		}
		if i.RxQueueSize == 1024 {
			return Fine("1024 is the most")
		}
		if advice, needed := v.noInterval(); needed {
			return advice
		}
		lost, counter := v.Interval.Counter(i.Tap, "tx_dropped")
		switch {
		case counter == "":
			return Unsure("no counters of its tap over the interval")
		case lost == 0:
			return Fine(fmt.Sprintf("its tap dropped nothing %s", v.overInterval()))
		}
		return exact("1024", fmt.Sprintf("its tap dropped %d packets %s for want of room in the guest's ring", lost,
			v.overInterval())).At(Medium).byDefault("256").restart(g.Name)
	}),
}

// vhostUserRing judges the receive ring of a NIC of vhost-user by the packets that found no room in it.
func (v *View) vhostUserRing(g *facts.Guest, i *facts.Interface) Advice {
	_, port := v.OpenVSwitch.VhostUserPort(i.Source)
	switch {
	case i.RxQueueSize == 1024:
		return Fine("1024 is the most")
	case port == nil:
		return Unsure("the process that shares its rings does not tell what it drops")
	}
	if advice, needed := v.noInterval(); needed {
		return advice
	}
	if v.Interval.Polled == nil {
		return Unsure("Open vSwitch did not tell twice what its ports counted")
	}
	at := facts.Find(v.Interval.Polled.Ports, func(p *facts.PolledPort) bool { return p.Name == port.Name })
	switch {
	case at == nil:
		return Unsure("Open vSwitch did not tell twice what " + port.Name + " counted")
	case at.TxDropped == 0:
		return Fine(fmt.Sprintf("%s dropped nothing %s", port.Name, v.overInterval()))
	}
	return exact("1024", fmt.Sprintf("%s dropped %d of %d packets %s for want of room in the guest's ring", port.Name,
		at.TxDropped, at.TxDropped+at.TxPackets, v.overInterval())).At(Medium).byDefault("256").restart(g.Name)
}

var domainTxQueueSize = &Knob{
	ID: "domain.tx_queue_size", Title: "Transmit ring of the guest's NIC",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.nic_model", "domain.backend"},
	Tiers: viaKernel(),
	Where: eachInterface("driver.tx_queue_size"),
	Want: forTap(func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice {
		if !i.Virtio() {
			return Skips("an emulated NIC has none")
		}
		severity := Low
		if i.TxQueueSize > 256 {
			severity = High
		}
		fate := "QEMU before 8.1 makes it 256 without a word, newer does not start the guest"
		if old, known := v.oldQEMU(8, 1); known && old {
			fate = "this QEMU (" + v.KVM.QEMU + ") makes it 256 without a word, and 8.1 and newer does not " +
				"start the guest"
		} else if known {
			fate = "this QEMU (" + v.KVM.QEMU + ") does not start the guest with more"
		}
		return exact("256", "a tap takes no more than 256: "+fate).At(severity).byDefault("256").restart(g.Name)
	}),
}

var domainCoalesce = &Knob{
	ID: "domain.coalesce", Title: "Packets of the guest pass the tap in batches",
	Stage: datapath.Domain, Risk: goal.GuestRestart, After: []string{"domain.nic_model", "domain.backend"},
	Tiers: tiers(goal.Aggressive), Limit: Limit{Libvirt: "3.3"},
	Where: eachInterface("coalesce.rx.frames.max"),
	Want: forTap(func(v *View, g *facts.Guest, i *facts.Interface, a setting.Address) Advice {
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		if i.Type != "bridge" && i.Type != "network" {
			return Skips("libvirt accepts it on interfaces of type bridge and network only")
		}
		if !since(v.Kernel.Release, 4, 11) && i.Coalesce == 0 {
			return Skips("taps take no batches before Linux 4.11, and libvirt would not start the guest")
		}
		if i.Coalesce >= 1 && i.Coalesce <= 64 {
			return Fine(fmt.Sprintf("batches of up to %d", i.Coalesce))
		}
		because := "the tap hands every packet over on its own"
		if i.Coalesce > 64 {
			because = "the tap caps it at 64, so more says what is not so"
		}
		return exact("32", because).At(Low).byDefault("0").restart(g.Name)
	}),
}
