package knob

import (
	"fmt"
	"strings"

	"mpps/internal/datapath"
	"mpps/internal/facts"
	"mpps/internal/goal"
	"mpps/internal/placement"
	"mpps/internal/setting"
)

// eachInterface lists an address below every guest NIC that has a tap on this host.
func eachInterface(path string) func(*facts.Host) []setting.Address {
	return func(h *facts.Host) []setting.Address {
		var all []setting.Address
		for _, g := range h.Guests {
			named := map[string]int{} // a MAC address that two interfaces have names neither
			for _, i := range g.Interfaces {
				named[i.MAC]++
			}
			for _, i := range g.Interfaces {
				if g.Managed && placement.Tapped(i) && i.MAC != "" && named[i.MAC] == 1 {
					all = append(all, setting.Of(setting.Domain, g.Name, "interface", i.Key(), path))
				}
			}
		}
		return all
	}
}

// tapped is the guest and interface that an address speaks of, or the reason why no knob should touch it.
func (v *View) tapped(a setting.Address) (*facts.Guest, *facts.Interface, Advice, bool) {
	g, advice, ok := v.guest(a)
	if !ok {
		return nil, nil, advice, false
	}
	parts := strings.Split(a.Path, "/")
	if len(parts) < 3 {
		return nil, nil, Skips("no such interface"), false
	}
	i := iface(g, parts[2])
	if i == nil {
		return nil, nil, Skips("no such interface"), false
	}
	return g, i, Advice{}, true
}

// spared tells whether an interface was left alone by whoever tuned the guest's other interfaces: it probably carries
// management, and the guest's load takes the others.
func spared(g *facts.Guest, i *facts.Interface) (string, bool) {
	if i.Queues > 1 || i.Backend != "" || i.RxQueueSize != 0 || i.Coalesce != 0 {
		return "", false
	}
	for _, other := range g.Interfaces {
		if other.MAC != i.MAC && other.Queues > 1 {
			return fmt.Sprintf("left as it is, because the guest's load has NICs of its own (%s has %d queues)", other.MAC, other.Queues), true
		}
	}
	return "", false
}

// windows tells whether a guest's definition looks like one of Windows.
func windows(g *facts.Guest) bool {
	return strings.Contains(g.Definition, "microsoft.com/win") || strings.Contains(g.Definition, "<hyperv")
}

func virtio(model string) bool { return strings.HasPrefix(model, "virtio") }

var domainNICModel = &Knob{
	ID: "domain.nic_model", Title: "Model of the guest's NIC", Stage: datapath.Domain, Risk: goal.GuestRestart,
	Tiers: viaKernel(),
	Doc: Doc{
		Want: "virtio",
		Why: "An emulated e1000 or rtl8139 leaves the guest several times for each packet (register writes, an interrupt), and its packets pass QEMU's main thread. " +
			"virtio shares rings in memory, and vhost carries them in the kernel. e1000 was measured at 27 % of native throughput and 21 % of its transactions; against virtio with vhost, packet rates differ by an order of magnitude.",
		Cost:   "The guest sees another device: it must have virtio drivers, and its network configuration must not depend on the old device's name. Takes effect when the guest is started anew.",
		Verify: "In the guest: ethtool -i DEV shows driver: virtio_net. virsh domiflist NAME shows virtio.",
		Traps: []string{
			"Windows has no virtio driver of its own: install NetKVM (virtio-win) in the guest before the change, or it comes up without a network.",
			"Linux guests from 2.6.25 on have virtio_net; the initramfs needs it only for a root over the network.",
			"The interface's predictable name changes with its PCI address (ens3 to enp1s0); netplan and ifcfg files that match by MAC go on working.",
			"e1000e is faster than e1000 and still emulated in the same way.",
		},
		Sources: []Source{
			{"27 % throughput, 21 % transactions of native", "founding measurements, netperf"},
			{"e1000 has no vhost back end: vhost serves virtio devices only", "QEMU hw/net/e1000.c; drivers/vhost/net.c"},
			{"virtio against e1000 in the emulated lab", "measured: 31 against 0.7 kpps sent of 18-byte UDP"},
		},
	},
	Where: eachInterface("model"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if virtio(i.Model) {
			return Fine("virtio")
		}
		model := i.Model
		if model == "" {
			model = "the hypervisor's default"
		}
		advice = Wants(setting.Exact("virtio"),
			fmt.Sprintf("every packet of an emulated NIC (%s) costs several exits from the guest, and vhost cannot serve it", model)).At(Critical).restart(g.Name)
		if windows(g) {
			return advice.warn("this looks like a Windows guest: it needs the NetKVM driver (virtio-win) installed before, or it comes up without a network")
		}
		return advice.warn("the guest must have virtio drivers (Linux does; Windows needs NetKVM installed before), and its NIC gets a new name")
	},
}

var domainBackend = &Knob{
	ID: "domain.backend", Title: "vhost carries the guest's packets", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model"}, Tiers: viaKernel(),
	Doc: Doc{
		Want: "vhost",
		Why: "With vhost a kernel thread for each queue copies between the guest's ring and the tap. Without it QEMU's main loop does, one packet for each system call, in one thread for all devices of the guest. " +
			"libvirt takes vhost silently where it can and QEMU's loop silently where it cannot; naming it makes a missing vhost an error at the guest's start.",
		Cost:   "A kernel thread for each queue. The guest does not start where /dev/vhost-net is missing.",
		Verify: "ps -eLo comm shows vhost-PID of the guest's QEMU, one for each queue of each NIC.",
		Traps: []string{
			"An old <driver name='qemu'/> switches vhost off, usually left by a workaround.",
			"The module vhost_net must be loaded on the host; it is loaded by itself when /dev/vhost-net is opened.",
		},
		Sources: []Source{
			{"libvirt's choice and <driver name=…>", "libvirt formatdomain, \"Setting NIC driver-specific options\""},
			{"a worker for each device (queue pair)", "drivers/vhost/vhost.c, vhost_dev_set_owner"},
		},
	},
	Where: eachInterface("driver.name"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if i.Type == "direct" && i.Backend == "" {
			return Fine("macvtap takes vhost by itself")
		}
		if !v.KVM.Vhost && v.KVM.Loaded {
			advice = Wants(setting.Exact("vhost"), "QEMU's main loop carries the packets one by one, because vhost_net is not loaded").At(High).restart(g.Name)
			return advice.warn("load vhost_net first: modprobe vhost_net")
		}
		if i.Backend == "" && virtio(i.Model) {
			if reason, yes := spared(g, i); yes {
				return Fine(reason)
			}
			return Wants(setting.Exact("vhost"), "libvirt takes vhost by itself where it can, and says nothing where it cannot; naming it makes that an error").At(Info).restart(g.Name)
		}
		return Wants(setting.Exact("vhost"), "QEMU's main loop carries the packets one by one").At(High).restart(g.Name)
	},
}

var domainQueues = &Knob{
	ID: "domain.queues", Title: "Queue pairs of the guest's NIC", Stage: datapath.Domain, Risk: goal.GuestRestart,
	After: []string{"domain.nic_model", "domain.backend"}, Tiers: viaKernel(),
	Doc: Doc{
		Want: "4 up to the number of vCPUs, within the host's budget for vhost threads",
		Why: "One queue is one vhost thread on the host and one interrupt in the guest: one CPU on each side does all the work (140 kpps in the founding measurement; 1.8 Mpps with 9 queues). " +
			"Worth trying is from 4 up to the number of vCPUs: 4 to 9 for 9 vCPUs.",
		Cost:   "Each queue is a thread and memory for its rings, on every NIC of every guest. mpps gives all guests' vhost threads half of the host's CPUs at most.",
		Verify: "In the guest ethtool -l DEV shows Combined: N; on the host N threads vhost-PID share the load (top -H).",
		Traps: []string{
			"\"As many queues as vCPUs on every NIC\" fills a host with threads: there is a budget for each host, not for each NIC.",
			"A tap has at most 256 queues.",
			"Guest kernels from 4.10 on enable min(vCPUs, queues) themselves; older ones start with one and need ethtool -L in the guest.",
			"Guest kernels before 4.19 bind queues to CPUs (interrupt affinity, XPS) only where there are as many queues as vCPUs; later ones stripe them over the vCPUs.",
			"A guest with many queues migrates only to a host whose kernel, QEMU and libvirt all know multiqueue.",
			"A single-queue device behind it (VXLAN or GRE with one queue) turns the queues into one lock again.",
		},
		Sources: []Source{
			{"4–9 queues for 9 vCPUs; 140 kpps with one", "founding measurements, CentOS 7.4 guest, X710"},
			{"256 queues of a tap", "drivers/net/tun.c, MAX_TAP_QUEUES"},
			{"the guest enables min(vCPUs, queues)", "drivers/net/virtio_net.c, virtnet_probe: curr_queue_pairs = min(num_online_cpus(), max_queue_pairs); \"Enable multiqueue by default\", Linux 4.10"},
			{"queues are striped over the vCPUs", "drivers/net/virtio_net.c, virtnet_set_affinity; commit 2ca653d607ce, Linux 4.19"},
			{"a budget for each host is asked for", "kubevirt/kubevirt issue 18012"},
		},
	},
	Where: eachInterface("driver.queues"),
	Want: func(v *View, a setting.Address) Advice {
		g, i, advice, ok := v.tapped(a)
		if !ok {
			return advice
		}
		if g.VCPUs < 2 {
			return Skips("one vCPU serves one queue")
		}
		if reason, yes := spared(g, i); yes {
			return Skips(reason)
		}
		least, most, write := placement.Queues(v.ask(), g.VCPUs)
		if !virtio(i.Model) { // it will be virtio before this matters
			return Wants(setting.Exact(fmt.Sprint(write)), fmt.Sprintf("as virtio it can have several queues: %s for %d vCPUs", span(least, most), g.VCPUs)).At(High).otherwise("1").restart(g.Name)
		}
		switch {
		case i.Queues >= least && i.Queues <= most:
			return Fine(fmt.Sprintf("%s for %d vCPUs: worth trying are %s", count(i.Queues, "queue"), g.VCPUs, span(least, most)))
		case i.Queues > most:
			return Wants(setting.Exact(fmt.Sprint(write)), fmt.Sprintf("more queues than vCPUs (%d) stay unused and cost threads", g.VCPUs)).At(Low).otherwise("1").restart(g.Name)
		}
		return Wants(setting.Exact(fmt.Sprint(write)), fmt.Sprintf("%s: one vhost thread and one vCPU do all the work of a queue; worth trying with %d vCPUs are %s", count(i.Queues, "queue"), g.VCPUs, span(least, most))).At(High).otherwise("1").restart(g.Name)
	},
}

// span is a range for people: "4 to 9", or "2".
func span(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}
