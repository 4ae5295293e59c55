package sriov

import (
	"cmp"
	"fmt"

	"mpps/internal/model/facts"
	"mpps/internal/words"
)

// explain fills in what the form means and what to do in the guest.
func (g *Gift) explain() {
	switch g.Form {
	case facts.ByInterface:
		g.Means = []string{
			"<interface type='hostdev'>: libvirt sets the MAC address and VLAN of the definition on the function at " +
				"each start of the guest, before the guest has it, and puts back after it what stood there",
			"the address is set on the host's side: the guest cannot change it (trust off)",
			"rates, spoofchk, trust and link state are no part of the definition: mpps keeps them, and sets them " +
				"again after a reboot or when the functions are recreated",
		}
	case facts.ByHostdev:
		g.Means = []string{
			"<hostdev>: the function is a PCI device like any other to libvirt, which sets nothing: mpps sets MAC " +
				"address, VLAN and the rest on the function itself, keeps them, and sets them again after a reboot " +
				"or when the functions are recreated",
			"the definition names no MAC address: 'virsh domiflist' does not show the NIC",
		}
	case facts.ByNetwork:
		g.Means = []string{
			"<interface type='network'>: libvirt takes a free function of the pool at each start of the guest, not " +
				"always the same one, and sets the MAC address and VLAN of the definition",
			"nothing but the count keeps a pool from having more guests than functions: the one too many fails at " +
				"its start. Interfaces that are defined without mpps are counted here, but nobody refuses them",
			"rates, spoofchk and trust cannot follow the guest: set them alike on all functions of the pool ('mpps " +
				"sriov set')",
		}
	}
	g.Means = append(g.Means, "no live migration while the guest has it: 'mpps sriov migrate-plan' says how it moves")

	driver := cmp.Or(facts.VFModule(g.pf.Driver), "the driver of "+g.pf.Driver+"'s virtual functions")
	n := facts.VFQueues(g.pf.Driver)
	queues := words.If(n > 0, "; a function has %s", words.Count(n, "queue")) + words.If(n > 0 && g.guest.VCPUs > n,
		", so no more than %d of the guest's %d vCPUs share its work", n, g.guest.VCPUs)
	g.Inside = []string{
		fmt.Sprintf("Linux: the module %s drives it (lsmod, ethtool -i)%s", driver, queues),
		"spread its interrupts: irqbalance, or one vCPU for each queue in /proc/irq/N/smp_affinity_list; with the " +
			"guest agent 'mpps sriov guest " + g.Guest + "' shows where they go",
		"Windows needs the card maker's own driver for the function (Server 2012 brings one for 82599); those of " +
			"virtio do not drive it",
	}
	if g.guest.Active() && !g.request.Live {
		g.Inside = append([]string{"the guest has it after its next start (shut it down and start it; a reboot " +
			"inside is not enough), or now with --live"}, g.Inside...)
	}
}
