package knob

import (
	"fmt"
	"slices"

	"mpps/internal/model/datapath"
	"mpps/internal/model/facts"
	"mpps/internal/model/goal"
	"mpps/internal/model/reach"
	"mpps/internal/model/setting"
	"mpps/internal/words"
)

var domainVDPA = &Knob{
	ID: "domain.vdpa", Title: "A guest's vDPA device is hardware with a queue pair for each vCPU",
	Stage: datapath.Domain, Risk: goal.GuestRestart, Check: true,
	Tiers: tiers(goal.Standard, goal.Aggressive, goal.Passthrough),
	Where: onPaths(reach.VDPA, eachGuest(vdpaGuest, guestFact("vdpa"))),
	Want: func(v *View, a setting.Address) Advice {
		g, advice, ok := v.judged(a, true)
		if !ok {
			return advice
		}
		unseen := ""
		for _, i := range g.Interfaces {
			if !i.VDPA() {
				continue
			}
			device := v.VDPAOf(i)
			switch {
			case device == nil:
				unseen = "what implements " + i.Source + " was not seen"
				continue
			case device.Parent == facts.VDPASimulator:
				return fact(device.Parent, exact("a function", device.Name+" is the kernel's simulator, which hands "+
					"each packet back: nothing reaches the wire").At(Critical))
			case device.Parent == facts.VDUSE:
				unseen = "a process implements " + device.Name + " (VDUSE): what it does with the packets is not seen"
				continue
			case device.Queues == 0:
				unseen = "the kernel did not tell how many queue pairs " + device.Name + " has"
				continue
			}
			if advice, short := v.fewPairs(g, device); short {
				return advice
			}
		}
		if unseen != "" {
			return Unsure(unseen)
		}
		return fact("hardware", Fine("a function serves its vrings, with a queue pair for each vCPU or as many as it "+
			"can have"))
	},
}

// fewPairs judges a device that was made with fewer queue pairs than its guest's vCPUs can use.
func (v *View) fewPairs(g *facts.Guest, device *facts.VDPA) (Advice, bool) {
	could := g.VCPUs
	if device.MostQueues > 0 {
		could = min(could, device.MostQueues)
	}
	if device.Queues >= could {
		return Advice{}, false
	}
	return fact(words.Count(device.Queues, "queue pair"), exact(words.Count(could, "queue pair"),
		fmt.Sprintf("%d vCPUs share %s of %s; how many it has is fixed when it is made (max_vqp of vdpa dev add), "+
			"while no guest has it", g.VCPUs, words.Count(device.Queues, "queue pair"), device.Name)).At(Medium)), true
}

// vdpaQueues judges the number of queues in the definition of a vDPA NIC. QEMU makes as many queue pairs as the device
// has whatever that number is (net/vhost-vdpa.c, net_init_vhost_vdpa), but libvirt says mq=on, and how many interrupt
// vectors, by that number alone (src/qemu/qemu_command.c, qemuBuildNicDevProps).
func (v *View) vdpaQueues(g *facts.Guest, i *facts.Interface) Advice {
	device := v.VDPAOf(*i)
	switch {
	case device == nil || device.Queues == 0:
		return Unsure("how many queue pairs its vDPA device has is not known")
	case device.Queues == 1:
		return Skips(device.Name + " has one queue pair")
	case i.Queues == device.Queues:
		return Fine("as many as " + device.Name + " has")
	}
	advice := exact(fmt.Sprint(device.Queues), fmt.Sprintf("%s has %d queue pairs: libvirt turns on multiqueue by "+
		"this number, with an interrupt vector for each queue", device.Name, device.Queues)).At(Medium)
	if i.Queues <= 1 {
		advice = advice.At(High)
	}
	return advice.byDefault("1").restart(g.Name)
}

func vdpaGuest(g *facts.Guest) bool { return slices.ContainsFunc(g.Interfaces, facts.Interface.VDPA) }
